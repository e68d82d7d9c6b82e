//! Where scenarios are found and results are kept.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use time::macros::format_description;

/// The file that a result is in.
pub(crate) const RESULT: &str = "result.json";

/// The file of a scenario: a path, or the name of one in `./scenarios` or beside the program.
///
/// # Errors
/// There is none; the message says where it was looked for, and which there are.
pub(crate) fn scenario(named: &Path) -> anyhow::Result<PathBuf> {
    if named.is_file() {
        return Ok(named.to_owned());
    }
    let places = places();
    let is_name = named.components().count() == 1;
    if is_name {
        let stem = named.with_extension("yaml");
        if let Some(found) =
            places.iter().map(|place| place.join(&stem)).find(|file| file.is_file())
        {
            return Ok(found);
        }
    }
    let mut known: Vec<String> = places.iter().flat_map(|place| names(place)).collect();
    known.sort();
    known.dedup();
    let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let looked = if is_name { format!("; looked in {}", looked.join(", ")) } else { String::new() };
    bail!("no scenario {}{looked}; there are: {there}", named.display())
}

/// Directories with scenarios, the nearest first.
fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("scenarios")];
    let program = std::env::current_exe().ok();
    if let Some(beside) = program.as_deref().and_then(Path::parent) {
        // Beside the program, where a package installs it, and in a checkout from `target/PROFILE`.
        for place in ["scenarios", "../share/leno/scenarios", "../../scenarios"] {
            places.push(beside.join(place));
        }
    }
    places.retain(|place| place.is_dir());
    places
}

/// Names of the scenarios in a directory.
fn names(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    files.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
}

/// `2026-11-21T09-12-03-quick`.
pub(crate) fn campaign_name(id: &str) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]-[minute]-[second]");
    let now = OffsetDateTime::now_utc().format(&format).unwrap_or_default();
    format!("{now}-{id}")
}

/// A directory for a new result. An old result is not overwritten.
///
/// # Errors
/// It cannot be made, or has a result already.
pub(crate) fn output(out: Option<&Path>, campaign: &str) -> anyhow::Result<PathBuf> {
    let directory = out.map_or_else(|| Path::new("results").join(campaign), Path::to_owned);
    if directory.join(RESULT).exists() {
        bail!("{} has a result already: choose another --out", directory.display());
    }
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

/// The command that does it again, of the words after the program's name. It has no `--out`: there is a result by then,
/// and it would be refused.
pub(crate) fn again(words: &[String]) -> String {
    let mut kept = vec!["leno"];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--out" {
            let _directory = words.next();
        } else if !word.starts_with("--out=") {
            kept.push(word);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_runtime::file::write_durably;

    #[test]
    fn a_result_is_replaced_whole_and_never_overwritten_by_another_campaign() {
        let directory = tempfile::tempdir().expect("a directory");
        let out = output(Some(&directory.path().join("a")), "x").expect("made");
        write_durably(&out.join(RESULT), b"1", 0o644).expect("written");
        write_durably(&out.join(RESULT), b"2", 0o644).expect("written");
        assert_eq!(std::fs::read(out.join(RESULT)).expect("read"), b"2");
        assert_eq!(std::fs::read_dir(&out).expect("listed").count(), 1);
        let refused = output(Some(&out), "y").expect_err("there is a result");
        assert!(refused.to_string().contains("has a result already"), "{refused}");
    }

    #[test]
    fn a_command_that_does_it_again_goes_elsewhere() {
        let check = |words: &str, expected: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(again(&words), expected);
        };
        check("bench run quick --seed 7", "leno bench run quick --seed 7");
        check("bench run --out a quick --seed 7", "leno bench run quick --seed 7");
        check("bench run quick --seed 7 --out=a", "leno bench run quick --seed 7");
        check("bench run out --mesh none --out a", "leno bench run out --mesh none");
        check("bench run quick --out", "leno bench run quick");
    }

    #[test]
    fn an_unknown_scenario_is_answered_with_those_that_are_known() {
        let error = scenario(Path::new("no-such-scenario")).expect_err("there is none").to_string();
        assert!(error.starts_with("no scenario no-such-scenario; looked in "), "{error}");
        let error = scenario(Path::new("dir/none.yaml")).expect_err("there is none").to_string();
        assert!(error.starts_with("no scenario dir/none.yaml; there are: "), "{error}");
        assert!(campaign_name("quick").ends_with("-quick"));
    }
}
