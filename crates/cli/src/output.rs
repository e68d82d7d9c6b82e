//! Standard output is what was asked for, standard error is talk.

use crate::args::Format;
use serde::Serialize;
use std::io::{self, Write};

/// Whether the reader of our output has closed it, which is not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Rows under headings, in columns as wide as their widest cell.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let headings: Vec<String> = headings.iter().map(ToString::to_string).collect();
    std::iter::once(&headings).chain(rows).map(|row| line(row)).collect()
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
    out.write_all(verdicts(text).as_bytes())?;
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
    fn units() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(8.5 * 1024.0 * 1024.0), "8.5 MiB");
    }
}
