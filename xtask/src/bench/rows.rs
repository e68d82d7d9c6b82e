//! What was promised, row by row, and whether it holds. Of every figure here, less is better.

use super::memory::{Control, Memory};
use super::results::{Estimate, Load, Results};
use crate::budgets::Budgets;

/// Everything measured; what was left out is absent.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) quick: Option<Results>,
    /// The rates of `quick`, for longer.
    pub(super) steady: Option<Results>,
    pub(super) bodies: Option<Results>,
    pub(super) tcp: Option<Results>,
    pub(super) memory: Option<Memory>,
    pub(super) control: Option<Control>,
    /// MiB of the stripped program.
    pub(super) binary: Option<f64>,
}

impl Measured {
    /// The short form has the rates of `quick` alone.
    pub(super) fn at_rates(&self) -> Option<&Results> {
        self.steady.as_ref().or(self.quick.as_ref())
    }
}

/// Where a figure is found.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// CPU of both proxies for a request, as a multiple of a peer's.
    Cpu(Scenario, Load, &'static str),
    /// Latency above a peer's, in milliseconds.
    Latency(Load, &'static str, &'static str),
    /// Latency added to that without proxies, as a multiple of what a peer adds.
    Added(Load, &'static str, &'static str),
    /// Neither a ratio nor a peer's business.
    Plain(fn(&Measured) -> Option<f64>),
}

/// Which run a figure is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    Quick,
    Steady,
    Bodies,
    Tcp,
}

/// A figure with a promise.
pub(super) struct Row {
    /// Its section in `budgets.toml`.
    pub(super) section: &'static str,
    pub(super) what: &'static str,
    pub(super) digits: usize,
    pub(super) source: Source,
}

const CPU: &str = "proxy.cpu_us_per_req";
pub(super) const SATURATED: Load = Load { name: "saturated", rate: None };
pub(super) const FAST: Load = Load { name: "steady", rate: Some(2000) };
pub(super) const SLOW: Load = Load { name: "steady", rate: Some(500) };
pub(super) const CONNECTIONS: Load = Load { name: "connection-per-request", rate: None };
pub(super) const GRPC: Load = Load { name: "grpc", rate: None };
pub(super) const DOWN: Load = Load { name: "down", rate: None };
pub(super) const BOTH: Load = Load { name: "both", rate: None };
pub(super) const LARGE: Load = Load { name: "large-max", rate: None };

const fn row(section: &'static str, what: &'static str, digits: usize, source: Source) -> Row {
    Row { section, what, digits, source }
}

/// All of them, in the order of the table.
pub(super) const ROWS: [Row; 21] = {
    use Scenario::{Bodies, Quick, Steady, Tcp};
    use Source::{Added, Cpu, Latency, Plain};
    [
        row(
            "bench.saturated",
            "CPU per request, saturated, x HAProxy",
            2,
            Cpu(Quick, SATURATED, "haproxy"),
        ),
        row(
            "bench.saturated-envoy",
            "CPU per request, saturated, x Envoy",
            2,
            Cpu(Quick, SATURATED, "envoy"),
        ),
        row(
            "bench.steady-2000",
            "CPU per request at 2,000/s, x HAProxy",
            2,
            Cpu(Steady, FAST, "haproxy"),
        ),
        row(
            "bench.steady-500",
            "CPU per request at 500/s, x HAProxy",
            2,
            Cpu(Steady, SLOW, "haproxy"),
        ),
        row("bench.grpc", "CPU per gRPC call, x HAProxy", 2, Cpu(Quick, GRPC, "haproxy")),
        row(
            "bench.connection",
            "CPU, a connection per request, x HAProxy",
            2,
            Cpu(Quick, CONNECTIONS, "haproxy"),
        ),
        row(
            "bench.p50-2000",
            "p50 at 2,000/s, ms above HAProxy's",
            3,
            Latency(FAST, "p50_ms", "haproxy"),
        ),
        row(
            "bench.p99-2000",
            "p99 at 2,000/s, ms above HAProxy's",
            3,
            Latency(FAST, "p99_ms", "haproxy"),
        ),
        row(
            "bench.p50-500",
            "p50 at 500/s, ms above HAProxy's",
            3,
            Latency(SLOW, "p50_ms", "haproxy"),
        ),
        row(
            "bench.p99-500",
            "p99 at 500/s, ms above HAProxy's",
            3,
            Latency(SLOW, "p99_ms", "haproxy"),
        ),
        row(
            "bench.p99-2000-envoy",
            "p99 added at 2,000/s, x Envoy's",
            2,
            Added(FAST, "p99_ms", "envoy"),
        ),
        row(
            "bench.p99-500-envoy",
            "p99 added at 500/s, x Envoy's",
            2,
            Added(SLOW, "p99_ms", "envoy"),
        ),
        row(
            "bench.body-both",
            "CPU per GiB, 1 MiB both ways, x HAProxy",
            2,
            Cpu(Bodies, BOTH, "haproxy"),
        ),
        row(
            "bench.body-down",
            "CPU per GiB, 1 MiB down, x HAProxy",
            2,
            Cpu(Bodies, DOWN, "haproxy"),
        ),
        row("bench.tcp", "CPU per GiB, opaque TCP, x HAProxy", 2, Cpu(Tcp, LARGE, "haproxy")),
        row(
            "bench.memory-idle",
            "proxy idle, MiB",
            1,
            Plain(|all| Some(all.memory.as_ref()?.idle)),
        ),
        row(
            "bench.memory-load",
            "proxy after load, MiB",
            1,
            Plain(|all| Some(all.memory.as_ref()?.after_load)),
        ),
        row(
            "bench.memory-connection",
            "an idle client connection, KiB",
            2,
            Plain(|all| Some(all.memory.as_ref()?.connection)),
        ),
        row("program.leno-proxy", "proxy's program, stripped, MiB", 2, Plain(|all| all.binary)),
        row(
            "bench.control-memory",
            "control plane idle, MiB",
            1,
            Plain(|all| Some(all.control.as_ref()?.memory)),
        ),
        row(
            "bench.control-millicores",
            "control plane idle, millicores",
            2,
            Plain(|all| Some(all.control.as_ref()?.millicores)),
        ),
    ]
};

impl Row {
    /// What it is now, if it was measured.
    pub(super) fn measured(&self, all: &Measured) -> Option<Estimate> {
        let results = |scenario| match scenario {
            Scenario::Quick => all.quick.as_ref(),
            Scenario::Steady => all.at_rates(),
            Scenario::Bodies => all.bodies.as_ref(),
            Scenario::Tcp => all.tcp.as_ref(),
        };
        let steady = results(Scenario::Steady);
        match self.source {
            Source::Cpu(scenario, load, peer) => results(scenario)?.ratio(load, CPU, "leno", peer),
            Source::Latency(load, metric, peer) => steady?.difference(load, metric, "leno", peer),
            Source::Added(load, metric, peer) => {
                let added = |mesh| steady?.difference(load, metric, mesh, "none");
                Some((added("leno")?.value / added(peer)?.value).into())
            }
            Source::Plain(figure) => figure(all).map(Estimate::from),
        }
    }

    /// Whether a run with these meshes can say anything about it; `short` leaves bodies and TCP out.
    pub(super) fn is_asked(&self, meshes: &[&str], short: bool) -> bool {
        match self.source {
            Source::Cpu(scenario, _, peer) => {
                meshes.contains(&peer)
                    && !(short && matches!(scenario, Scenario::Bodies | Scenario::Tcp))
            }
            Source::Latency(_, _, peer) | Source::Added(_, _, peer) => meshes.contains(&peer),
            Source::Plain(_) => true,
        }
    }

    /// The key of the last figure in its section.
    pub(super) fn last_key(&self) -> &'static str {
        if self.section.starts_with("program.") { "mebibytes" } else { "last" }
    }

    /// What `budgets.toml` says of it.
    pub(super) fn budget(&self, budgets: &Budgets) -> Budget {
        let must = if self.section.starts_with("program.") { "mebibytes_max" } else { "must" };
        let number = |key| budgets.number(self.section, key);
        Budget { must: number(must), aim: number("aim"), last: number(self.last_key()) }
    }
}

/// What was promised of a figure, and what it was when it was last written down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    pub(super) must: Option<f64>,
    pub(super) aim: Option<f64>,
    pub(super) last: Option<f64>,
}

/// Whether a promise holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was to be measured and was not.
    Unknown,
    /// Above what it must be.
    Missed,
    /// What it must be.
    Met,
    /// What it is to become.
    Aimed,
    /// Nothing must be; it is not yet what it is to become.
    Short,
}

/// Judges the value itself; whether its interval holds the limit too is [`is_sure`]'s to say.
pub(super) fn judged(budget: Budget, measured: Option<Estimate>) -> Verdict {
    let Some(Estimate { value, .. }) = measured.filter(|measured| measured.value.is_finite())
    else {
        return Verdict::Unknown;
    };
    match budget {
        Budget { must: Some(must), .. } if value > must => Verdict::Missed,
        Budget { aim: Some(aim), .. } if value <= aim => Verdict::Aimed,
        Budget { must: Some(_), .. } => Verdict::Met,
        Budget { must: None, .. } => Verdict::Short,
    }
}

/// Whether all of the interval is on the same side of what must be.
pub(super) fn is_sure(budget: Budget, measured: Option<Estimate>) -> bool {
    let (Some(must), Some(Estimate { interval: Some([low, high]), .. })) = (budget.must, measured)
    else {
        return true;
    };
    low > must || high <= must
}

#[cfg(test)]
mod tests {
    use super::{Budget, Verdict, is_sure, judged};
    use crate::bench::results::Estimate;

    #[test]
    fn promises_are_judged() {
        use Verdict::{Aimed, Met, Missed, Short, Unknown};
        //    must       aim         value and interval              verdict  sure
        check(Some(0.7), Some(0.55), Some((0.71, None)), Missed, true);
        check(Some(0.7), Some(0.55), Some((0.70, None)), Met, true);
        check(Some(0.7), Some(0.55), Some((0.55, None)), Aimed, true);
        check(Some(0.7), None, Some((0.1, None)), Met, true);
        check(None, Some(0.5), Some((0.6, None)), Short, true);
        check(None, Some(0.5), Some((0.5, None)), Aimed, true);
        check(Some(0.0), None, Some((-0.1, Some([-0.2, 0.0]))), Met, true);
        check(Some(0.0), None, Some((-0.1, Some([-0.3, 0.1]))), Met, false);
        check(Some(0.0), None, Some((0.1, Some([-0.3, 0.5]))), Missed, false);
        check(Some(0.0), None, Some((0.1, Some([0.05, 0.5]))), Missed, true);
        check(Some(0.7), Some(0.55), None, Unknown, true);
        check(Some(0.7), None, Some((f64::NAN, None)), Unknown, true);
    }

    #[track_caller]
    fn check(
        must: Option<f64>,
        aim: Option<f64>,
        measured: Option<(f64, Option<[f64; 2]>)>,
        verdict: Verdict,
        sure: bool,
    ) {
        let budget = Budget { must, aim, last: None };
        let measured = measured.map(|(value, interval)| Estimate { value, interval });
        assert_eq!(judged(budget, measured), verdict, "{measured:?} of {budget:?}");
        assert_eq!(is_sure(budget, measured), sure, "{measured:?} of {budget:?}");
    }
}
