//! `cargo xtask pages`: documents that programs print, and whether what is written is what they print today.

use crate::{command, docs};
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;

/// A page, the program whose words it holds, and how to ask for them.
const PAGES: [(&str, &str, &[&str]); 1] = [("docs/configuration.md", "leno-proxy", &["--help"])];

/// All of it comes from a table in the code.
const ERRORS: &str = "docs/errors.md";

const BEGIN: &str = "<!-- printed: begin -->\n```text\n";
const END: &str = "```\n<!-- printed: end -->\n";

/// Checks the pages, or writes them again. The programs of the everyday build are asked.
pub(crate) fn run(write: bool) -> Result<()> {
    let directory = command::target_directory()?.join("debug");
    for (page, program, words) in PAGES {
        let path = directory.join(program);
        if !path.exists() {
            bail!("{} is not built: cargo build", path.display());
        }
        let printed = command::output(Command::new(&path).args(words))?;
        let text = fs::read_to_string(page)?;
        let fresh = filled(&text, &printed).with_context(|| format!("{page} has no marks"))?;
        if fresh == text {
            eprintln!("{page} is fresh");
        } else if write {
            fs::write(page, fresh)?;
            eprintln!("{page} is written again");
        } else {
            bail!("{page} is stale: cargo xtask pages write");
        }
    }
    let fresh = docs::printed::errors()?;
    match fs::read_to_string(ERRORS).is_ok_and(|text| text == fresh) {
        true => eprintln!("{ERRORS} is fresh"),
        false if write => {
            fs::write(ERRORS, fresh)?;
            eprintln!("{ERRORS} is written again");
        }
        false => bail!("{ERRORS} is stale: cargo xtask pages write"),
    }
    let printed = docs::printed::pages(&directory)?.len();
    eprintln!("{printed} pages of the site can be printed");
    Ok(())
}

/// The page with other words between its marks.
fn filled(text: &str, printed: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}\n{END}{after}", printed.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks() {
        let text = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(filled(&text, "new\n\n"), Some(format!("a\n{BEGIN}new\n{END}b\n")));
        assert_eq!(filled("a", "b"), None);
    }
}
