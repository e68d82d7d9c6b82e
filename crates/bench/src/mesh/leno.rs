//! Leno, as `leno up` runs it: nothing is configured, nothing replaced.

use super::{Choice, Kind, find_program};
use std::path::{Path, PathBuf};

/// The `leno` that runs the pods: what was said, else this program.
///
/// # Errors
/// This program is not `leno` and nothing was said.
pub fn home(choice: &Choice) -> Result<PathBuf, String> {
    let said = match choice.kind {
        Kind::Leno => choice.program.clone(),
        _ => None,
    };
    if let Some(said) = said.or_else(|| choice.options.get("leno").map(PathBuf::from)) {
        let absolute = std::path::absolute(&said).unwrap_or_else(|_| said.clone());
        return if absolute.is_file() {
            Ok(absolute)
        } else {
            Err(format!("{}: the program {} does not exist", choice.kind, said.display()))
        };
    }
    let own = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    if own.file_name().is_some_and(|name| name == "leno") {
        return Ok(own);
    }
    Err(format!("{}: say which leno runs the pods: {}+leno=PROGRAM", choice.kind, choice.kind))
}

/// `leno-proxy` and `leno-control` beside it, or where programs are.
fn beside(leno: &Path, name: &str) -> Option<PathBuf> {
    let near = leno.parent().map(|place| place.join(name)).filter(|program| program.is_file());
    near.or_else(|| find_program(name))
}

/// `leno-proxy` of this choice.
#[must_use]
pub fn proxy(choice: &Choice) -> Option<PathBuf> {
    beside(&home(choice).ok()?, "leno-proxy")
}

/// What Leno itself lacks.
#[must_use]
pub fn missing(_choice: &Choice) -> Option<String> {
    None
}

/// What `leno up` lacks for this choice: every mesh needs `leno-proxy`, which applies the capture rules.
#[must_use]
pub fn missing_home(choice: &Choice) -> Option<String> {
    let leno = match home(choice) {
        Ok(leno) => leno,
        Err(mistake) => return Some(mistake),
    };
    let needed = match choice.kind {
        Kind::None => &[][..],
        kind if kind.has_control() => &["leno-proxy", "leno-control"],
        _ => &["leno-proxy"],
    };
    let lacking = needed.iter().find(|name| beside(&leno, name).is_none())?;
    Some(format!(
        "{}: {lacking} is neither beside {} nor in PATH; cargo build --release -p leno-proxy -p leno-control",
        choice.kind,
        leno.display()
    ))
}
