//! Files of manifests: what is not ours stays, and what was put in comes out again.
#![no_main]

use leno_inject::Mesh;
use leno_inject::file::{Namespaces, Said, add_namespaces, inject_file, uninject_file};
use leno_manifest::{documents, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &str| {
    let pieces = documents(file);
    let whole: String = pieces.iter().map(|one| format!("{}{}", one.separator, one.text)).collect();
    assert_eq!(whole, file, "documents with their separators are the file");
    let mut namespaces = Namespaces::new();
    add_namespaces(file, &mut namespaces);
    let done = inject_file(file, "default", &namespaces, &Mesh::default());
    if !done.reports.iter().any(|report| report.said == Said::Injected) {
        assert_eq!(done.text, file);
        return;
    }
    let values = |file: &str| -> Vec<_> {
        documents(file).iter().map(|document| read(document.text).ok()).collect()
    };
    // What has a proxy already, or half of one, would lose more than was put in.
    if !file.contains("leno") {
        assert_eq!(values(&uninject_file(&done.text).text), values(file));
    }
    let again = inject_file(&done.text, "default", &namespaces, &Mesh::default());
    assert_eq!(again.text, done.text);
});
