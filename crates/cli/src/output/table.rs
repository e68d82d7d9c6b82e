//! Tables of text, and how they become narrow. Pure.

/// Rows under headings in lines of at most so many characters, as long as [`FIGURE_MIN`] allows. What says least goes first: the prefix of headings,
/// then a namespace that all names of a column have. Then names are cut, headings that are longer than their cells, names once more, and
/// figures last.
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
    let cells = widths_of(&vec![""; headings.len()], &rows);
    let are_names: Vec<bool> = (0..headings.len()).map(|at| has_names(&rows, at)).collect();
    for step in [Cut::Names, Cut::Headings, Cut::ShortNames, Cut::Figures] {
        let least = |at: usize| match (step, are_names[at]) {
            (Cut::Names, true) => CELL_MIN.max(headings[at].len()),
            (Cut::Headings, true) => CELL_MIN,
            (Cut::Headings, false) => cells[at].max(FIGURE_MIN),
            (Cut::ShortNames, true) => NAME_MIN,
            (Cut::Figures, _) => FIGURE_MIN,
            (Cut::Names | Cut::ShortNames, false) => usize::MAX,
        };
        while !fits(&widths) {
            let candidates = (0..widths.len()).filter(|at| widths[*at] > least(*at));
            let Some(at) = candidates.max_by_key(|at| widths[*at]) else { break };
            widths[at] -= 1;
        }
    }
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(&widths) {
            *cell = cut(cell, *width);
        }
    }
    let cut_headings = headings.iter().zip(&widths);
    let cut_headings: Vec<String> =
        cut_headings.map(|(text, width)| cut_end(text, *width)).collect();
    whole_table(&cut_headings.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

/// What is cut while a table is too wide.
#[derive(Clone, Copy)]
enum Cut {
    Names,
    Headings,
    ShortNames,
    Figures,
}

fn widths_of(headings: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |(at, heading): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([heading.chars().count()]).max().unwrap_or(0)
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

/// Names keep at least so much when a table is made narrower.
const CELL_MIN: usize = 8;
/// Names and figures keep so much where that is not enough.
const NAME_MIN: usize = 5;
const FIGURE_MIN: usize = 4;

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

/// At most so many characters, with `…` in the place of the end.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
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
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let headings: Vec<String> = headings.iter().map(ToString::to_string).collect();
    std::iter::once(&headings).chain(rows).map(|row| line(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check(16, "prod…de  prod…ge");
        check(0, "pr…e  pr…e");
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
        check(&address, 25, &["P50   NAME    IP", "1 ms  prod…1  10.244.0.12"]);
        check(&address, 20, &["P50   NAME   IP", "1 ms  pro…1  10.2…12"]);
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

    /// No name, however long, makes a table wider than a terminal.
    #[test]
    fn tables_of_long_names_fit() {
        let long = |word: &str| format!("{word}-{}", "x".repeat(62 - word.len()));
        let named = |word: &str| format!("{}/{}", long("shop"), long(word));
        let (name, path) = (named("web"), "/api/v1/orders/*/items".to_owned());
        let check = |headings: &str, row: &[&str], columns: usize| {
            let headings: Vec<&str> = headings.split('|').collect();
            let row: Vec<String> = row.iter().map(ToString::to_string).collect();
            assert_eq!(headings.len(), row.len());
            let text = table_within(&headings, &[row], columns);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{columns} columns:\n{text}");
        };
        let (n, p) = (name.as_str(), path.as_str());
        let ip = "10.244.100.12";
        let ps = [n, n, ip, "yes (2/2)", "Running", "0", "leno", "12.8 MiB", n];
        check("NAMESPACE|NAME|IP|READY|STATUS|RESTARTS|MESH|PROXY|IDENTITY", &ps, 80);
        let ps = [n, n, "no (0/2)", "Running", "0", "leno", "0.1.0 (not ready)", "47h left", n];
        check("NAMESPACE|NAME|READY|STATUS|RESTARTS|MESH|PROXY|CERTIFICATE|IDENTITY", &ps, 80);
        let top = [n, n, "OPTIONS", p, "1000000", "100.0 %", "100.3 ms", "8000.7 ms", "100.5 ms"];
        check("CLIENT|SERVER|METHOD|ROUTE OR PATH|COUNT|SUCCESS|BEST|WORST|LAST", &top, 80);
        let stat =
            [n, n, "10/10", "9/10", "100.00 %", "10000.0", "100 ms", "100 ms", "100 ms", "100"];
        check(
            "NAMESPACE|NAME|MESHED|APPLIED|SUCCESS|RPS|LATENCY_P50|LATENCY_P95|LATENCY_P99|TCP_CONN",
            &stat,
            80,
        );
        let edge = [n, "outbound", n, n, "yes", "1000000", "100.00 %", n, "100"];
        for columns in [80, 100] {
            check(
                "SEEN BY|DIRECTION|CLIENT|SERVER|MTLS|REQUESTS|SUCCESS|SERVICE|CONNECTIONS",
                &edge,
                columns,
            );
        }
    }
}
