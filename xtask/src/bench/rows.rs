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
const SATURATED: Load = Load { name: "saturated", rate: None };
const FAST: Load = Load { name: "steady", rate: Some(2000) };
const SLOW: Load = Load { name: "steady", rate: Some(500) };
const CONNECTIONS: Load = Load { name: "connection-per-request", rate: None };
const GRPC: Load = Load { name: "grpc", rate: None };
const DOWN: Load = Load { name: "down", rate: None };
const BOTH: Load = Load { name: "both", rate: None };
const LARGE: Load = Load { name: "large-max", rate: None };

const fn cpu(
    section: &'static str,
    what: &'static str,
    scenario: Scenario,
    load: Load,
    peer: &'static str,
) -> Row {
    Row { section, what, digits: 2, source: Source::Cpu(scenario, load, peer) }
}

const fn latency(
    section: &'static str,
    what: &'static str,
    load: Load,
    metric: &'static str,
) -> Row {
    Row { section, what, digits: 3, source: Source::Latency(load, metric, "haproxy") }
}

const fn added(section: &'static str, what: &'static str, load: Load) -> Row {
    Row { section, what, digits: 2, source: Source::Added(load, "p99_ms", "envoy") }
}

const fn plain(
    section: &'static str,
    what: &'static str,
    digits: usize,
    figure: fn(&Measured) -> Option<f64>,
) -> Row {
    Row { section, what, digits, source: Source::Plain(figure) }
}

/// All of them, in the order of the table.
pub(super) const ROWS: [Row; 21] = {
    use Scenario::{Bodies, Quick, Steady, Tcp};
    const SATURATED_HAPROXY: &str = "CPU per request, saturated, x HAProxy";
    const SATURATED_ENVOY: &str = "CPU per request, saturated, x Envoy";
    const CONNECTION: &str = "CPU, a connection per request, x HAProxy";
    const BODY_BOTH: &str = "CPU per GiB, 1 MiB both ways, x HAProxy";
    [
        cpu("bench.saturated", SATURATED_HAPROXY, Quick, SATURATED, "haproxy"),
        cpu("bench.saturated-envoy", SATURATED_ENVOY, Quick, SATURATED, "envoy"),
        cpu("bench.steady-2000", "CPU per request at 2,000/s, x HAProxy", Steady, FAST, "haproxy"),
        cpu("bench.steady-500", "CPU per request at 500/s, x HAProxy", Steady, SLOW, "haproxy"),
        cpu("bench.grpc", "CPU per gRPC call, x HAProxy", Quick, GRPC, "haproxy"),
        cpu("bench.connection", CONNECTION, Quick, CONNECTIONS, "haproxy"),
        latency("bench.p50-2000", "p50 at 2,000/s, ms above HAProxy's", FAST, "p50_ms"),
        latency("bench.p99-2000", "p99 at 2,000/s, ms above HAProxy's", FAST, "p99_ms"),
        latency("bench.p50-500", "p50 at 500/s, ms above HAProxy's", SLOW, "p50_ms"),
        latency("bench.p99-500", "p99 at 500/s, ms above HAProxy's", SLOW, "p99_ms"),
        added("bench.p99-2000-envoy", "p99 added at 2,000/s, x Envoy's", FAST),
        added("bench.p99-500-envoy", "p99 added at 500/s, x Envoy's", SLOW),
        cpu("bench.body-both", BODY_BOTH, Bodies, BOTH, "haproxy"),
        cpu("bench.body-down", "CPU per GiB, 1 MiB down, x HAProxy", Bodies, DOWN, "haproxy"),
        cpu("bench.tcp", "CPU per GiB, opaque TCP, x HAProxy", Tcp, LARGE, "haproxy"),
        plain("bench.memory-idle", "proxy idle, MiB", 1, |all| Some(all.memory.as_ref()?.idle)),
        plain("bench.memory-load", "proxy after load, MiB", 1, |all| {
            Some(all.memory.as_ref()?.after_load)
        }),
        plain("bench.memory-connection", "an idle client connection, KiB", 2, |all| {
            Some(all.memory.as_ref()?.connection)
        }),
        plain("program.leno-proxy", "proxy's program, stripped, MiB", 2, |all| all.binary),
        plain("bench.control-memory", "control plane idle, MiB", 1, |all| {
            Some(all.control.as_ref()?.memory)
        }),
        plain("bench.control-millicores", "control plane idle, millicores", 2, |all| {
            Some(all.control.as_ref()?.millicores)
        }),
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
