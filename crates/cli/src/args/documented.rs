//! Every `leno` command in a code block of the documentation is a command line that `leno` accepts. Many of these commands need a cluster, so
//! no test runs them.

use super::Args;
use clap::Parser as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Documents below a folder.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
}

/// Commands in the code blocks of a document, as words. A line that ends with `\` goes on in the next one.
fn commands(document: &str) -> Vec<Vec<String>> {
    let (mut found, mut is_shell, mut is_open) = (Vec::new(), false, false);
    for line in document.replace("\\\n", " ").lines() {
        let text = line.trim();
        if let Some(language) = text.strip_prefix("```") {
            is_open = !is_open;
            is_shell = is_open && ["", "sh"].contains(&language);
        } else if is_shell {
            found.extend(words(text.trim_start_matches("$ ")).into_iter().filter_map(of_leno));
        }
    }
    found
}

/// The commands of a line in words, as a shell reads them: `|`, `&`, `;` and `>` end one, `#` ends the line.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    for next in line.chars() {
        match (quote, next) {
            (Some(mark), _) if mark == next => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(next),
            (None, '\'' | '"') => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '&' | ';' | '>') => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            (None, _) => word.get_or_insert_default().push(next),
        }
    }
    words.extend(word);
    commands.push(words);
    commands
}

/// A command of `leno` or `sudo leno`, by any path; not one with a placeholder for what everybody knows.
fn of_leno(mut words: Vec<String>) -> Option<Vec<String>> {
    if words.first().is_some_and(|word| word == "sudo") {
        words.remove(0);
    }
    let is_ours = words.first().is_some_and(|word| word == "leno" || word.ends_with("/leno"));
    (is_ours && !words.iter().any(|word| word.contains('…'))).then_some(words)
}

#[test]
fn documented_commands_are_accepted() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![project.join("README.md")];
    documents(&project.join("docs"), &mut files);
    documents(&project.join("examples"), &mut files);
    let (mut count, mut wrong) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("a document");
        for words in commands(&text) {
            count += 1;
            let line = words.join(" ");
            let translated = crate::bench::load::familiar::translate(
                words.into_iter().map(Into::into).collect(),
            );
            let refused = match translated {
                Ok(spoken) => {
                    let refused = Args::try_parse_from(spoken.words).err();
                    // --help and --version are errors of another kind.
                    refused.filter(clap::Error::use_stderr).map(|error| error.to_string())
                }
                Err(error) => Some(error),
            };
            wrong.extend(refused.map(|why| format!("{}: {line}: {why}", file.display())));
        }
    }
    assert!(count > 80, "{count} commands are found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_of_a_document() {
    let document = "```sh\nsudo target/release/leno up -f 'a b' > x | leno -o \"json\" & # leno\nls | leno ps \\\n  -A\n```\n\
        ```text\nleno says\n```\nleno down\n";
    let found: Vec<String> = commands(document).iter().map(|words| format!("{words:?}")).collect();
    assert_eq!(
        found,
        [
            r#"["target/release/leno", "up", "-f", "a b"]"#,
            r#"["leno", "-o", "json"]"#,
            r#"["leno", "ps", "-A"]"#,
        ]
    );
}
