//! What can be said of manifests as a whole before anything runs: workloads, names, address families. Pure.

use crate::manifest::{Loaded, Problem, Weight};
use crate::plan;
use crate::service::Families;

/// Adds what is wrong to the problems, each at the line of its object.
pub fn judge(loaded: &mut Loaded, mesh: bool, has_ipv6: bool) {
    let (_, mut mistakes) = plan::workloads(&loaded.objects, mesh);
    for ((namespace, name), object) in &loaded.objects.services {
        if let Err(wrong) = Families::of(object, has_ipv6) {
            mistakes.push(format!("service {namespace}/{name}: {wrong}"));
        }
    }
    for mistake in mistakes {
        let (object, message) = mistake.split_once(": ").unwrap_or(("", &mistake));
        let object = capitalized(object);
        let (file, line) = loaded.place(&object).unwrap_or_default();
        loaded.problems.push(Problem {
            file,
            line,
            object,
            field: String::new(),
            message: message.to_owned(),
            weight: Weight::Error,
        });
    }
}

/// `deployment shop/web` as manifests call it.
fn capitalized(object: &str) -> String {
    let mut letters = object.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
