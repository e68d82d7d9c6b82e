//! Annotations of any name and value: read to what reads the same again, or refused.
#![no_main]

use leno_inject::annotation::{PREFIXES, VOCABULARY, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some((name, value)) = text.split_once('=') else { return };
    let nobody = std::iter::empty::<(&str, &str)>;
    let nothing = |_: &str| None;
    let _ = read([(name, value)], nobody(), &|_| Some(8080));
    for word in VOCABULARY {
        let key = format!("{}{}", PREFIXES[0], word.name);
        let Ok(settings) = read([(key.as_str(), value)], nobody(), &nothing) else { continue };
        let canonical = settings.get(word.name).expect("what is read is there").to_owned();
        assert!(!canonical.contains(['\n', '\0']), "{canonical:?}");
        let again =
            read([(key.as_str(), canonical.as_str())], nobody(), &nothing).expect("canonical");
        assert_eq!(again.get(word.name), Some(canonical.as_str()));
    }
});
