//! What a person reads: promise beside figure, then the memory behind them.

use super::memory::Memory;
use super::results::Estimate;
use super::rows::{Budget, Row, Verdict, is_sure, judged};

/// One line of the table.
pub(super) struct Line<'r> {
    pub(super) row: &'r Row,
    pub(super) budget: Budget,
    pub(super) measured: Option<Estimate>,
}

impl Line<'_> {
    /// Whether it holds.
    pub(super) fn verdict(&self) -> Verdict {
        judged(self.budget, self.measured)
    }
}

/// Promise beside figure.
pub(super) fn promises(lines: &[Line]) -> String {
    let mut text = line(["FIGURE", "MUST", "AIM", "OLD", "NEW", "95 % INTERVAL", "VERDICT"]);
    for each in lines {
        let number = |value: Option<f64>| {
            value.map_or("-".to_owned(), |value| {
                format!("{value:.digits$}", digits = each.row.digits)
            })
        };
        let Budget { must, aim, last } = each.budget;
        let interval = each.measured.and_then(|measured| measured.interval);
        let interval =
            interval.map(|[low, high]| format!("{} to {}", number(Some(low)), number(Some(high))));
        let verdict = match each.verdict() {
            Verdict::Unknown => "NOT MEASURED",
            Verdict::Missed => "MISSED",
            Verdict::Met => "met",
            Verdict::Aimed => "met, and the aim",
            Verdict::Short => "short of the aim",
        };
        let unsure = if is_sure(each.budget, each.measured) { "" } else { " (within noise)" };
        text += &line([
            each.row.what,
            &number(must),
            &number(aim),
            &number(last),
            &number(each.measured.map(|measured| measured.value)),
            &interval.unwrap_or_default(),
            &format!("{verdict}{unsure}"),
        ]);
    }
    text
}

fn line([what, must, aim, last, new, interval, verdict]: [&str; 7]) -> String {
    format!("{what:<41}{must:>6}{aim:>7}{last:>8}{new:>8}  {interval:<17}{verdict}")
        .trim_end()
        .to_owned()
        + "\n"
}

/// Memory of each mesh that was measured here; `leno bench run` has printed all other figures behind the ratios.
pub(super) fn memory(memories: &[(&str, Memory)]) -> String {
    let mut text = format!("{:<41}", "MEMORY, OF THIS MACHINE AND HOUR");
    for (mesh, _) in memories {
        text += &format!("{mesh:>13}");
    }
    type Figure = fn(&Memory) -> f64;
    let rows: [(&str, Figure); 3] = [
        ("proxy idle, MiB", |memory| memory.idle),
        ("proxy after load, MiB", |memory| memory.after_load),
        ("an idle client connection, KiB", |memory| memory.connection),
    ];
    for (what, of) in rows {
        text += &format!("\n{what:<41}");
        for (_, memory) in memories {
            text += &format!("{:>13.2}", of(memory));
        }
    }
    text + "\n"
}
