//! Standard output is what was asked for, standard error is talk.

mod table;

pub(crate) use table::{cut, cut_end, table_within, whole_table, with_sentences};

use crate::args::Format;
use serde::Serialize;
use std::io::{self, Write};

/// Whether the reader of our output has closed it, which is not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Rows under headings. Where standard output is a terminal, the widest columns are cut until a line fits.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    match terminal_columns() {
        Some(columns) => table_within(headings, rows, columns),
        None => whole_table(headings, rows),
    }
}

/// The whole table where a wide one is asked for, else one that fits the terminal.
pub(crate) fn shown(headings: &[&str], rows: &[Vec<String>], wide: bool) -> String {
    if wide { whole_table(headings, rows) } else { table(headings, rows) }
}

/// Columns of the terminal; `None` where standard output is not one.
pub(crate) fn terminal_columns() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    (width.0 > 0).then(|| usize::from(width.0))
}

/// The text for a terminal: a line that is too long goes on below, under the beginning of what it says. Words stay whole, so that names can
/// be copied.
pub(crate) fn wrapped(text: &str) -> String {
    match terminal_columns() {
        Some(columns) => wrapped_within(text, columns),
        None => text.to_owned(),
    }
}

/// The same in lines of at most so many characters, longer words excepted.
fn wrapped_within(text: &str, columns: usize) -> String {
    let mut all = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let hang = hang(line).min(columns / 2);
        let mut used = 0;
        for (number, word) in line.split(' ').enumerate() {
            let length = word.chars().count();
            if number > 0 && used + 1 + length > columns && used >= hang {
                all.truncate(all.trim_end_matches(' ').len());
                all.push('\n');
                all.extend(std::iter::repeat_n(' ', hang));
                used = hang;
            } else if number > 0 {
                all.push(' ');
                used += 1;
            }
            all.push_str(word);
            used += length;
        }
        all.push_str(end);
    }
    all
}

/// Where the text of a line goes on below: under the value behind a label, or two columns deeper than the line.
fn hang(line: &str) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let label = line[indent..].find("  ").map(|at| indent + at);
    let value = label.map(|at| line.len() - line[at..].trim_start_matches(' ').len());
    value.map_or(indent + 2, |at| line[..at].chars().count())
}

/// The text for programs, if the format is one of theirs.
pub(crate) fn structured(format: Format, value: &impl Serialize) -> anyhow::Result<Option<String>> {
    Ok(match format {
        Format::Json => Some(format!("{}\n", serde_json::to_string_pretty(value)?)),
        // By way of JSON, so that both have the same fields.
        Format::Yaml => Some(serde_saphyr::to_string(&serde_json::to_value(value)?)?),
        Format::Table | Format::Wide | Format::Name => None,
    })
}

/// From now on Ctrl-C ends the program well, and not in the middle of what is printed.
pub(crate) fn end_at_interrupt() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wait = move || {
        let _signal = runtime.block_on(leno_runtime::signal::terminate());
        let _whole = io::stdout().lock();
        std::process::exit(0);
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait)?;
    Ok(())
}

/// Writes to standard output as it is: logs of applications keep their colours.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes [`verdicts`] to standard output.
pub(crate) fn print_verdicts(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(verdicts(&wrapped(text)).as_bytes())?;
    out.flush()
}

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[1;31m";
const RESET: &str = "\x1b[0m";

/// The text in the colour of failures, for `anstream`, which removes colours where they are not wanted.
pub(crate) fn failed(text: &str) -> String {
    format!("{RED}{text}{RESET}")
}

/// Lines of verdicts (`√ …`, `FAIL …`, `file:1:2: error: …`) with their marks in colour.
fn verdicts(text: &str) -> String {
    const MARKS: [(&str, &str); 7] = [
        ("√", GREEN),
        ("ok ", GREEN),
        ("‼", YELLOW),
        (" warning: ", YELLOW),
        ("×", RED),
        ("FAIL ", RED),
        (" error: ", RED),
    ];
    let painted = text.split_inclusive('\n').map(|line| {
        let is_mark = |mark: &str| match mark.starts_with(' ') {
            // After the place in a file.
            true => line.find(mark).filter(|at| line[..*at].ends_with(':')),
            false => line.starts_with(mark).then_some(0).or_else(|| {
                line.strip_prefix("Status check results are ")
                    .filter(|rest| rest.starts_with(mark))
                    .map(|rest| line.len() - rest.len())
            }),
        };
        let found = MARKS.iter().find_map(|(mark, color)| Some((is_mark(mark)?, mark, color)));
        found.map_or_else(
            || line.to_owned(),
            |(at, mark, color)| {
                let (before, after) = (&line[..at], &line[at + mark.len()..]);
                format!("{before}{color}{mark}{RESET}{after}")
            },
        )
    });
    painted.collect()
}

/// Bytes in the unit in which a person compares them.
pub(crate) fn bytes(count: f64) -> String {
    match count {
        count if count >= 1024.0 * 1024.0 * 1024.0 => {
            format!("{:.1} GiB", count / (1024.0 * 1024.0 * 1024.0))
        }
        count if count >= 1024.0 * 1024.0 => format!("{:.1} MiB", count / (1024.0 * 1024.0)),
        count if count >= 1024.0 => format!("{:.1} KiB", count / 1024.0),
        count => format!("{count:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let rows = [vec!["a".into(), "1".into()], vec!["long".into(), String::new()]];
        assert_eq!(table(&["NAME", "N"], &rows), "NAME  N\na     1\nlong\n");
    }

    #[test]
    fn marks_of_verdicts_have_colours() {
        for (line, expected) in [
            ("√ fine\n", "\x1b[32m√\x1b[0m fine\n"),
            ("    √ not a mark\n", "    √ not a mark\n"),
            ("FAIL  nft: not found", "\x1b[1;31mFAIL \x1b[0m nft: not found"),
            ("Status check results are ×\n", "Status check results are \x1b[1;31m×\x1b[0m\n"),
            ("a.yaml:1:2: error: x: error: y", "a.yaml:1:2:\x1b[1;31m error: \x1b[0mx: error: y"),
            ("a: b error: c", "a: b error: c"),
            ("", ""),
        ] {
            assert_eq!(verdicts(line), expected, "{line:?}");
        }
    }

    #[test]
    fn long_lines_go_on_below() {
        let check = |line: &str, expected: &[&str]| {
            let text = wrapped_within(&format!("{line}\n"), 24);
            assert_eq!(text.lines().collect::<Vec<_>>(), expected);
            assert!(text.ends_with('\n'));
        };
        check("Pod shop/web", &["Pod shop/web"]);
        check("  state   one two three four", &["  state   one two three", "          four"]);
        check("× a check that failed here", &["× a check that failed", "  here"]);
        let name = "spiffe://cluster.local/ns/shop/sa/web";
        check(&format!("  id   {name}, ready"), &[&format!("  id   {name},"), "       ready"]);
        check(&format!("  id {name}"), &["  id", &format!("    {name}")]);
        check("", &[""]);
    }

    #[test]
    fn units() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(8.5 * 1024.0 * 1024.0), "8.5 MiB");
    }
}
