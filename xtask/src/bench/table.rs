//! What a person reads: promise beside figure, then the figures behind the ratios.

use super::memory::Memory;
use super::results::{Estimate, Load, Results};
use super::rows::{
    BOTH, Budget, CONNECTIONS, DOWN, FAST, GRPC, LARGE, Measured, Row, SATURATED, SLOW, Verdict,
    is_sure, judged,
};
use std::fmt::Write as _;

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

/// The figures behind the ratios: of this machine and this hour.
pub(super) fn machine(all: &Measured, meshes: &[&str], memories: &[(&str, Memory)]) -> String {
    let mut text = format!("{:<54}", "OF THIS MACHINE AND HOUR");
    for mesh in meshes {
        let _never_fails = write!(text, "{mesh:>13}");
    }
    text.push('\n');
    let mut add = |what: &str, value: &dyn Fn(&str) -> Option<f64>, digits: usize| {
        let values: Vec<Option<f64>> = meshes.iter().map(|mesh| value(mesh)).collect();
        if values.iter().all(Option::is_none) {
            return;
        }
        let _never_fails = write!(text, "{what:<54}");
        for value in values {
            let shown = value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
            let _never_fails = write!(text, "{shown:>13}");
        }
        text.push('\n');
    };
    for (results, load, said) in [
        (all.quick.as_ref(), SATURATED, "saturated"),
        (all.at_rates(), FAST, "at 2,000/s"),
        (all.at_rates(), SLOW, "at 500/s"),
        (all.quick.as_ref(), GRPC, "gRPC"),
        (all.quick.as_ref(), CONNECTIONS, "a connection each"),
    ] {
        let cpu = |mesh: &str| cpu(results, load, mesh);
        add(&format!("CPU of both proxies, us/request, {said}"), &cpu, 1);
    }
    // A GiB is 1,024 answers of a MiB, or 512 exchanges of a MiB each way.
    for (results, load, said, exchanges) in [
        (&all.bodies, BOTH, "1 MiB both ways", 512.0),
        (&all.bodies, DOWN, "1 MiB down", 1024.0),
        (&all.tcp, LARGE, "opaque TCP", 512.0),
    ] {
        let seconds = |mesh: &str| Some(cpu(results.as_ref(), load, mesh)? * exchanges / 1e6);
        add(&format!("CPU of both proxies, s/GiB, {said}"), &seconds, 2);
    }
    for (load, said) in
        [(SATURATED, "saturated"), (GRPC, "gRPC"), (CONNECTIONS, "a connection each")]
    {
        add(
            &format!("answers/s, {said}"),
            &|mesh| value(all.quick.as_ref(), load, mesh, ["rps", ""]),
            0,
        );
    }
    for (load, said) in [(FAST, "2,000/s"), (SLOW, "500/s")] {
        for percentile in ["p50", "p99"] {
            let latency = |mesh: &str| value(all.at_rates(), load, mesh, ["merged", percentile]);
            add(&format!("{percentile} at {said}, ms"), &latency, 3);
        }
    }
    let memory =
        |mesh: &str| memories.iter().find(|(name, _)| *name == mesh).map(|(_, memory)| memory);
    add("proxy idle, MiB", &|mesh| Some(memory(mesh)?.idle), 1);
    add("proxy after load, MiB", &|mesh| Some(memory(mesh)?.after_load), 1);
    add("an idle client connection, KiB", &|mesh| Some(memory(mesh)?.connection), 2);
    text
}

fn cpu(results: Option<&Results>, load: Load, mesh: &str) -> Option<f64> {
    value(results, load, mesh, ["resources", "proxy.cpu_us_per_req"])
}

fn value(results: Option<&Results>, load: Load, mesh: &str, keys: [&str; 2]) -> Option<f64> {
    results?.figure(load, mesh, keys).map(|estimate| estimate.value)
}
