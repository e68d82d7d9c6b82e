//! Where the instructions are: the functions with most of them, by themselves and with all they call.

use super::Counted;
use crate::command;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::process::Command;

/// How many functions of each kind are worth a look.
const ROWS: usize = 30;
/// Longer names are cut.
const NAME_CHARACTERS: usize = 110;

/// Prints both lists of a profile.
///
/// # Errors
/// When `callgrind_annotate` does not read it.
pub(super) fn print(figure: &Counted) -> Result<()> {
    let Counted { exchange, side, each, .. } = figure;
    let what = exchange.what;
    for (title, inclusive) in [("by themselves", "no"), ("with all they call", "yes")] {
        println!("\n{what}, {side}: {each:.0} instructions; functions {title}\n");
        let mut annotate = Command::new("callgrind_annotate");
        annotate.args(["--auto=no", "--threshold=100", "--show-percs=no"]);
        annotate.arg(format!("--inclusive={inclusive}")).arg(&figure.profile);
        let text = command::output(&mut annotate).context("Debian: valgrind")?;
        for (name, count) in most(&text, inclusive == "yes").into_iter().take(ROWS) {
            let each_time = count as f64 / f64::from(exchange.count);
            let share = each_time / each * 100.0;
            let name: String = name.chars().take(NAME_CHARACTERS).collect();
            println!("{each_time:>9.0} {share:>5.1} %  {name}");
        }
    }
    println!("\nCallers and callees: callgrind_annotate --tree=both {}", figure.profile.display());
    Ok(())
}

/// Functions and their counts, most first. `callgrind_annotate` has a line for each file that a function's inlined code
/// comes from: these belong together. With what they call, the largest one is the function.
fn most(text: &str, inclusive: bool) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in text.lines().filter_map(function) {
        let sum = counts.entry(name).or_default();
        *sum = if inclusive { count.max(*sum) } else { *sum + count };
    }
    let mut counts: Vec<_> =
        counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// `  1,234  file:function [object]`.
fn function(line: &str) -> Option<(&str, u64)> {
    let (count, rest) = line.trim_start().split_once(' ')?;
    let count = count.replace(',', "").parse().ok()?;
    let rest = rest.trim_start();
    // A function's own name may have `::` in it, a path none.
    let colon = rest
        .match_indices(':')
        .map(|(at, _)| at)
        .find(|at| !rest[at + 1..].starts_with(':') && !rest[..*at].ends_with(':'))?;
    let name = &rest[colon + 1..];
    Some((name.rsplit_once(" [").map_or(name, |(name, _)| name), count))
}

#[cfg(test)]
mod tests {
    use super::most;

    const TEXT: &str = "\
Profile data file 'x' (creator: callgrind-3.19.0)
--------
Ir
--------
47,213,865  PROGRAM TOTALS
1,922,000  src/a.rs:leno::head::push
572,000  /rustc/1/mod.rs:leno::head::push [/t/leno-proxy]
730,000  ./a/../b.S:memcpy [/lib/libc.so.6]
";

    #[test]
    fn code_of_many_files_is_one_function() {
        //     with what they call
        check(false, &[("leno::head::push", 2_494_000), ("memcpy", 730_000)]);
        check(true, &[("leno::head::push", 1_922_000), ("memcpy", 730_000)]);
    }

    #[track_caller]
    fn check(inclusive: bool, expected: &[(&str, u64)]) {
        let expected: Vec<(String, u64)> =
            expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(most(TEXT, inclusive), expected);
    }
}
