//! Pages of the reference that come from programs and from tables in the code.
//!
//! - A page for each verb: `leno VERB --help`.
//! - Annotations: the vocabulary of `leno-inject`.
//! - Variables: `leno-proxy --help`, with an example of each ([`variables`]).
//!
//! `docs/errors.md` comes from the table of `crates/proxy/src/ending.rs`, and is kept in the repository.

use super::variables::{self, Variable, cell, variables_of};
use crate::command;
use anyhow::{Context as _, Result, ensure};
use leno_inject::annotation::{self, To, VOCABULARY, Word};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const ENDINGS: &str = "crates/proxy/src/ending.rs";

/// A page of the site, by its path there.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) is_verb: bool,
}

impl Page {
    fn new(path: &str, title: &str, text: String) -> Self {
        Self { path: path.to_owned(), title: title.to_owned(), text, is_verb: false }
    }
}

/// All of them. `programs` is the folder of the everyday build.
///
/// # Errors
/// When a program is not built, or its text or a table cannot be read.
pub(crate) fn pages(programs: &Path) -> Result<Vec<Page>> {
    for program in ["leno", "leno-proxy"] {
        let path = programs.join(program);
        ensure!(path.exists(), "{} is not built: cargo build", path.display());
    }
    let mut pages = Vec::new();
    verbs(&programs.join("leno"), &[], &mut pages)?;
    ensure!(pages.len() > 10, "leno --help lists {} verbs", pages.len());
    let help = command::output(Command::new(programs.join("leno-proxy")).arg("--help"))?;
    let variables = variables_of(&help);
    ensure!(variables.len() > 20, "leno-proxy --help lists {} variables", variables.len());
    let text_of_variables = variables::page(&variables, &programs.join("leno-proxy"))?;
    pages.push(Page::new("reference/variables.md", "Variables", text_of_variables));
    let text = annotations_page(&variables);
    pages.push(Page::new("reference/annotations.md", "Annotations", text));
    Ok(pages)
}

/// `docs/errors.md`, as the table of endings has it now.
///
/// # Errors
/// When the table cannot be read.
pub(crate) fn errors() -> Result<String> {
    let source = fs::read_to_string(ENDINGS).context(ENDINGS)?;
    let endings = endings(&source);
    ensure!(endings.len() > 20, "{ENDINGS} has {} rows", endings.len());
    Ok(errors_page(&endings))
}

/// The pages of a verb's verbs, of all depths.
fn verbs(program: &Path, above: &[&str], pages: &mut Vec<Page>) -> Result<()> {
    let help = command::output(Command::new(program).args(above).arg("--help"))?;
    if !above.is_empty() {
        let title = format!("leno {}", above.join(" "));
        let text = format!(
            "# `{title}`\n\nThe output of `{title} --help`. [All verbs](../../cli.md) have a text \
             with examples and the JSON of `-o json`.\n\n```text\n{}\n```\n",
            help.trim_end()
        );
        let path = format!("reference/verbs/{}.md", above.join("-"));
        pages.push(Page { path, title, text, is_verb: true });
    }
    for verb in listed(&help) {
        verbs(program, &[above, &[verb]].concat(), pages)?;
    }
    Ok(())
}

/// Verbs in a help text: entries of two blanks and a word in lower case, outside of arguments and options. `help` prints only help.
fn listed(help: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_list = false;
    for line in help.lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            is_list = !["Arguments:", "Options:", "Examples:"].contains(&line)
                && !line.to_lowercase().contains("options");
        }
        let entry = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        let Some((word, meaning)) = entry.and_then(|entry| entry.split_once("  ")) else {
            continue;
        };
        let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        let is_verb = is_word && !word.starts_with('-') && word != "help" && !meaning.is_empty();
        if is_list && is_verb {
            found.push(word);
        }
    }
    found
}

fn annotations_page(variables: &[Variable<'_>]) -> String {
    let mut text = String::from(
        "# Annotations\n\nAnnotations of a pod, or of its Namespace for all of its pods. The prefix is \
         `config.leno.dev/`. Leno also reads names with a mark in the last column under linkerd's prefix \
         `config.linkerd.io/`. A value on the pod wins over the value on its Namespace. An unknown name under \
         Leno's prefix, or a malformed value, is an error. [Injection](../kubernetes.md#annotations) has the rules.\n\n\
         | annotation | meaning and values | example | default | sets | linkerd |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for word in VOCABULARY {
        let example = example(word).map_or_else(String::new, |value| format!("`\"{value}\"`"));
        let (sets, default) = destination(word, variables);
        let linkerd = if word.linkerd { "yes" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {example} | {default} | {sets} | {linkerd} |",
            word.name,
            cell(word.meaning)
        );
    }
    text
}

/// What an annotation sets, and the value without it.
fn destination(word: &Word, variables: &[Variable<'_>]) -> (String, String) {
    match word.to {
        To::Variable(name) => {
            let default = variables.iter().find(|variable| variable.name == name);
            (format!("`{name}`"), default.map_or_else(String::new, Variable::shown_default))
        }
        To::Control => {
            let default = match word.name {
                "default-inbound-policy" => "`all-unauthenticated`",
                "http2-upgrade" => "`false`",
                _ => "none",
            };
            ("the control plane's answer".to_owned(), default.to_owned())
        }
        To::Image | To::PullPolicy => ("the container".to_owned(), "the chart's value".to_owned()),
        To::Resource(kind, of) => {
            (format!("`resources.{kind}.{of}`"), "the chart's value".to_owned())
        }
    }
}

/// The first piece of code in the meaning that the annotation accepts as a value.
fn example(word: &Word) -> Option<&'static str> {
    let key = format!("{}{}", annotation::PREFIXES[0], word.name);
    let named = |_: &str| Some(3306);
    let is_good = |value: &&str| {
        let one = || [(key.as_str(), *value)];
        // Some names are for Namespaces only.
        [annotation::read(one(), [], &named), annotation::read([], one(), &named)]
            .iter()
            .any(Result::is_ok)
    };
    word.meaning.split('`').skip(1).step_by(2).find(is_good)
}

/// A row of the table of endings.
struct Ending<'a> {
    status: &'a str,
    grpc: &'a str,
    fault: &'a str,
    flag: &'a str,
    text: &'a str,
}

/// Rows `Name: status, grpc, fault, level, "errno",` and `"flag", "text";` on the next line.
fn endings(source: &str) -> Vec<Ending<'_>> {
    let mut found = Vec::new();
    let table = source.split_once("\nendings! {").map_or("", |(_, rest)| rest);
    let lines: Vec<&str> = table.lines().take_while(|line| *line != "}").map(str::trim).collect();
    for (index, line) in lines.iter().enumerate() {
        let head = line.split_once(": ").filter(|_| !line.starts_with("///"));
        let texts =
            lines.get(index + 1).and_then(|line| line.strip_prefix('"')?.strip_suffix("\";"));
        let (Some((_, head)), Some((flag, text))) =
            (head, texts.and_then(|texts| texts.split_once("\", \"")))
        else {
            continue;
        };
        let fields: Vec<&str> = head.split(", ").collect();
        if let [status, grpc, fault, ..] = fields[..] {
            found.push(Ending { status, grpc, fault, flag, text });
        }
    }
    found
}

const ERRORS: &str = "\
# Errors of the proxy

<!-- `cargo xtask pages write` writes this page from crates/proxy/src/ending.rs. -->

When a proxy answers a request itself, the header `l5d-proxy-error` has the reason. Details of the
case may follow there. The word is the label `error` of `response_total`,
`inbound_http_errors_total` and `outbound_http_errors_total` ([metrics](metrics.md)), and `ending`
in the proxy's log. gRPC clients get the code of the column gRPC.
[Debug a 502 or 503](tasks/debug-502-503.md) goes from the symptom to the cause.

| status | word | gRPC | what happened | what to do |
| --: | --- | --- | --- | --- |
";

fn errors_page(endings: &[Ending<'_>]) -> String {
    let mut text = ERRORS.to_owned();
    let mut rows: Vec<&Ending<'_>> = endings.iter().filter(|row| row.flag != "complete").collect();
    rows.sort_by_key(|row| (row.status, row.flag));
    for row in rows {
        let look = match row.fault {
            "App" => "look at the server's log",
            "Mesh" => "look at the configuration of the mesh: `leno check`",
            "Peer" => "look at the client",
            _ => "look at the limits of this proxy",
        };
        let Ending { status, grpc, flag, text: said, .. } = row;
        // The texts have the form "what happened; what to do".
        let (happened, to_do) = said.split_once("; ").unwrap_or((said, look));
        let (happened, to_do) = (cell(happened), cell(to_do));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {status} | `{flag}` | {grpc} | {happened} | {to_do} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_of_a_help_text() {
        let help = "A mesh\n\nUsage: leno <COMMAND>\n\nCommands:\n  up     Run manifests\n  down   End\n          it\n\n\
            Cluster:\n  install  Print\n  help   Print help\n\nOptions:\n  -h, --help  Print help\n  all    no verb\n";
        assert_eq!(listed(help), ["up", "down", "install"]);
    }

    /// A page of the reference has all rows of the table.
    #[test]
    fn every_ending_is_found() {
        let source = include_str!("../../../crates/proxy/src/ending.rs");
        let rows =
            source.lines().filter(|line| line.starts_with("        \"") && line.ends_with("\";"));
        assert_eq!(endings(source).len(), rows.count());
        let page = errors_page(&endings(source));
        assert!(
            page.contains(
                "| 503 | `no_endpoints` | Unavailable | the service has no endpoints | check"
            ),
            "{page}"
        );
    }

    #[test]
    fn every_annotation_has_an_example() {
        let without: Vec<&str> = VOCABULARY
            .iter()
            .filter(|word| example(word).is_none())
            .map(|word| word.name)
            .collect();
        assert!(without.is_empty(), "write a value as `code` into the meaning of {without:?}");
    }
}
