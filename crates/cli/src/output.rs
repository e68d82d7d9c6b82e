//! Standard output is what was asked for, standard error is talk.

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

/// The same in lines of at most so many characters, as long as headings and [`CELL_MIN`] allow. What all cells of a column have in common
/// goes first: the prefix of headings, then the namespace of names. Then names are cut, and figures last.
pub(crate) fn table_within(headings: &[&str], rows: &[Vec<String>], columns: usize) -> String {
    let (mut headings, mut rows) = (headings.to_vec(), rows.to_vec());
    let gaps = 2 * headings.len().saturating_sub(1);
    let fits = |widths: &[usize]| widths.iter().sum::<usize>() + gaps <= columns;
    let mut widths = widths_of(&headings, &rows);
    for at in 0..headings.len() {
        if fits(&widths) {
            break;
        }
        headings[at] = headings[at].rsplit('_').next().unwrap_or_default();
        widths = widths_of(&headings, &rows);
    }
    // In all columns at once: one name with its namespace beside one without it would look like two kinds of names.
    if !fits(&widths) {
        (0..headings.len()).for_each(|column| without_namespace(&mut rows, column));
        widths = widths_of(&headings, &rows);
    }
    let are_names: Vec<bool> = (0..headings.len()).map(|at| has_names(&rows, at)).collect();
    for only_names in [true, false] {
        while !fits(&widths) {
            let can_shrink = |at: &usize| {
                (are_names[*at] || !only_names) && widths[*at] > CELL_MIN.max(headings[*at].len())
            };
            let candidates = (0..widths.len()).filter(can_shrink);
            let Some(at) = candidates.max_by_key(|at| widths[*at]) else { break };
            widths[at] -= 1;
        }
    }
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(&widths) {
            *cell = cut(cell, *width);
        }
    }
    whole_table(&headings, &rows)
}

fn widths_of(headings: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |(at, heading): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([heading.len()]).max().unwrap_or(0)
    };
    headings.iter().enumerate().map(widest).collect()
}

/// Whether the column has words that can be cut; cut figures and addresses say nothing.
fn has_names(rows: &[Vec<String>], column: usize) -> bool {
    let letters = |cell: &String| cell.chars().filter(|c| c.is_alphabetic()).count();
    let mut cells = rows.iter().filter_map(|row| row.get(column));
    cells.any(|cell| cell.chars().count() > CELL_MIN && letters(cell) > CELL_MIN / 2)
}

/// Where the namespace of the last word begins and ends: `shop/` of `Server shop/web`. Paths have none.
fn namespace(cell: &str) -> Option<std::ops::Range<usize>> {
    let begin = cell.rfind(' ').map_or(0, |at| at + 1);
    let end = begin + cell[begin..].rfind('/')? + 1;
    cell[begin..].starts_with(char::is_alphabetic).then_some(begin..end)
}

/// Leaves out the namespace of a column's cells, where all that have one have the same.
fn without_namespace(rows: &mut [Vec<String>], column: usize) {
    let cells = rows.iter().filter_map(|row| row.get(column));
    let mut found = cells.filter_map(|cell| Some(&cell[namespace(cell)?]));
    let Some(first) = found.next() else { return };
    if !found.all(|one| one == first) {
        return;
    }
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        if let Some(range) = namespace(cell) {
            cell.replace_range(range, "");
        }
    }
}

/// Cells keep at least so much when a table is made narrower.
const CELL_MIN: usize = 8;

/// At most so many characters, with `…` in the place of the middle: the ends of pod names differ.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let tail = kept / 3;
    let head = characters[..kept - tail].iter();
    head.chain(&['…']).chain(&characters[characters.len() - tail..]).collect()
}

/// Rows under headings, whose last column has sentences: within so many characters, they go on in further lines.
pub(crate) fn with_sentences(
    headings: &[&str],
    rows: &[Vec<String>],
    columns: Option<usize>,
) -> String {
    /// Sentences in a narrower column are hard to read; they begin on a line of their own.
    const WIDTH_MIN: usize = 30;
    const INDENT: usize = 4;
    let Some(columns) = columns else { return whole_table(headings, rows) };
    let last = headings.len() - 1;
    let short: Vec<Vec<String>> = rows.iter().map(|row| row[..last].to_vec()).collect();
    let widths = widths_of(&headings[..last], &short);
    let before: usize = widths.iter().map(|width| width + 2).sum();
    let is_beside = before + WIDTH_MIN <= columns;
    if is_beside {
        let wrapped: Vec<Vec<String>> = rows
            .iter()
            .flat_map(|row| {
                let lines = broken(&row[last], columns - before);
                lines.into_iter().enumerate().map(|(number, line)| {
                    let blank = || vec![String::new(); last];
                    let mut cells = if number == 0 { row[..last].to_vec() } else { blank() };
                    cells.push(line);
                    cells
                })
            })
            .collect();
        return whole_table(headings, &wrapped);
    }
    let table = table_within(&headings[..last], &short, columns);
    let mut text = String::new();
    for (number, line) in table.lines().enumerate() {
        text.push_str(line);
        text.push('\n');
        let row = number.checked_sub(1).and_then(|number| rows.get(number));
        for line in row.iter().flat_map(|row| broken(&row[last], columns.max(2 * INDENT) - INDENT))
        {
            text.push_str(&format!("{:INDENT$}{line}\n", ""));
        }
    }
    text
}

/// Lines of at most so many characters, broken between words; a longer word has a line of its own.
fn broken(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(last) if line == 0 => last.push_str(word),
            Some(last) if line + 1 + word.chars().count() <= columns => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Rows under headings, in columns as wide as their widest cell.
pub(crate) fn whole_table(headings: &[&str], rows: &[Vec<String>]) -> String {
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
    fn narrow_columns() {
        let rows = [vec!["productpage-v1-7d9c5b6f4-abcde".into(), "default/productpage".into()]];
        let check = |columns: usize, expected: &str| {
            let text = table_within(&["POD", "CLIENT"], &rows, columns);
            assert_eq!(text.lines().nth(1), Some(expected), "{columns}");
        };
        check(60, "productpage-v1-7d9c5b6f4-abcde  default/productpage");
        check(44, "productpage-v1-7d9c5b6f4-abcde  productpage");
        check(40, "productpage-v1-7d9…f4-abcde  productpage");
        check(22, "produc…cde  produc…age");
        check(0, "produ…de  produ…ge");
    }

    #[test]
    fn sentences_go_on_in_further_lines() {
        let rows =
            [vec!["Warning".into(), "Pod web".into(), "the command is missing; add it".into()]];
        let check = |columns, expected: &str| {
            assert_eq!(with_sentences(&["TYPE", "OBJECT", "MESSAGE"], &rows, columns), expected);
        };
        check(
            None,
            "TYPE     OBJECT   MESSAGE\nWarning  Pod web  the command is missing; add it\n",
        );
        check(
            Some(48),
            "TYPE     OBJECT   MESSAGE\nWarning  Pod web  the command is missing; add it\n",
        );
        check(
            Some(30),
            "TYPE     OBJECT\nWarning  Pod web\n    the command is missing;\n    add it\n",
        );
        assert_eq!(broken("a bb ccc dddd", 4), ["a bb", "ccc", "dddd"]);
    }

    #[test]
    fn what_narrow_tables_leave_out() {
        let check = |cells: &[&[&str]], columns: usize, expected: &[&str]| {
            let row = |cells: &&[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
            let rows: Vec<Vec<String>> = cells.iter().map(row).collect();
            let headings = &["LATENCY_P50", "NAME", "IP"][..cells[0].len()];
            let text = table_within(headings, &rows, columns);
            assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{cells:?}");
        };
        check(&[&["1 ms", "shop/web"]], 19, &["P50   NAME", "1 ms  shop/web"]);
        check(&[&["1 ms", "Server shop/web"]], 17, &["P50   NAME", "1 ms  Server web"]);
        // Names of several namespaces, and paths, are cut.
        let two: [&[&str]; 2] = [&["1 ms", "shop/checkout"], &["1 ms", "data/postgres"]];
        check(&two, 16, &["P50   NAME", "1 ms  shop/c…out", "1 ms  data/p…res"]);
        check(&[&["1 ms", "/api/v1/users"]], 16, &["P50   NAME", "1 ms  /api/v…ers"]);
        // Addresses stay whole.
        let address: [&[&str]; 1] = [&["1 ms", "productpage-v1", "10.244.0.12"]];
        check(&address, 27, &["P50   NAME      IP", "1 ms  produ…v1  10.244.0.12"]);
    }

    #[test]
    fn units() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(8.5 * 1024.0 * 1024.0), "8.5 MiB");
    }
}
