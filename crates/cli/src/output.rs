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

/// Writes to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
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
    fn units() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(8.5 * 1024.0 * 1024.0), "8.5 MiB");
    }
}
