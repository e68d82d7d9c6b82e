//! Whatever is sent to the webhook has an answer, and a pod that is patched is patched once and can be as it was.
#![no_main]

use leno_inject::scope::{Marks, Namespace, Wish};
use leno_inject::{Injected, Mesh, Outcome, inject, review, uninject};
use leno_manifest::patch;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let mesh = Mesh::default();
    let enabled = |_: &str| {
        let mut marks = Marks::default();
        marks.labels.insert("leno.dev/inject", "enabled");
        marks
    };
    let answer = review::answer(bytes, enabled, &mesh);
    let answer: Value = serde_json::from_slice(&answer).expect("the answer is JSON");
    assert!(answer["response"]["allowed"].is_boolean());

    let away = review::unavailable(bytes, "away").bytes;
    let away: Value = serde_json::from_slice(&away).expect("that answer is JSON, too");
    assert_eq!((&away["response"]["uid"], &away["response"]["allowed"]), (&answer["response"]["uid"], &false.into()));
    let _ = review::namespace(bytes);

    // The same bytes as the pod itself.
    let Ok(pod) = serde_json::from_slice::<Value>(bytes) else { return };
    let namespace = Namespace { name: "shop", marks: enabled("shop") };
    let Outcome::Inject(Injected { patch, .. }) = inject(&pod, &namespace, Wish::Enabled, &mesh) else { return };
    let mut injected = pod.clone();
    patch::apply(&mut injected, &patch).expect("the patch fits");
    assert!(matches!(inject(&injected, &namespace, Wish::Enabled, &mesh), Outcome::Skip(_)));
    let undo = uninject(&injected).expect("there is something of ours");
    patch::apply(&mut injected, &undo).expect("that fits, too");
    assert_eq!(injected, pod);
});
