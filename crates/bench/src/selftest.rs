//! `leno bench selftest`: the instrument measures what is known, on this machine, and says whether it finds it.
//!
//! The servers are its own ([`server`]) and say themselves how long they took, so a busy machine makes a figure larger,
//! not the test wrong. What can be decided without a clock is a unit test of schedule and recorder instead.

pub mod server;

use leno_load::client::{Answer, Exchange};
use leno_load::histogram::Histogram;
use leno_load::outcome::Outcome;
use leno_load::plan::Plan;
use leno_load::recorder::{Collected, Shard};
use leno_load::schedule::{Arrival, Rate, Schedule};
use leno_load::summary::latency;
use server::{Behaviour, Server};
use std::ops::ControlFlow;
use std::time::Duration;

/// Latencies of the known distribution: share of requests, milliseconds.
pub const STEPS: [(f64, u64); 5] = [(0.5, 5), (0.3, 12), (0.15, 30), (0.045, 70), (0.005, 150)];
/// A histogram's own error.
const HISTOGRAM_ERROR: f64 = 0.001;
/// What the way to the server and back, and being woken, may add on a machine that does nothing else.
const WAY_MIN: Duration = Duration::from_millis(1);

/// What it may be at most: twice as much is allowed below, and has to be less than the smallest of the steps' distances.
const WAY_MAX: Duration = Duration::from_millis(3);

/// How long the parts of the test take.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Requests per second of the distribution's test.
    pub distribution_rate: f64,
    pub distribution_length: Duration,
    /// Requests per second of the stall's test.
    pub stall_rate: f64,
    pub stall_length: Duration,
    /// How long the server stands still.
    pub stall: Duration,
    /// Length of what needs no more than to be seen.
    pub short: Duration,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            distribution_rate: 1_000.0,
            distribution_length: Duration::from_secs(4),
            stall_rate: 2_000.0,
            stall_length: Duration::from_secs(5),
            stall: Duration::from_millis(1_400),
            short: Duration::from_secs(1),
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: String,
    /// What it must be.
    pub expected: String,
    /// What it was.
    pub seen: String,
    /// Whether that is the same.
    pub pass: bool,
}

impl Check {
    fn new(name: impl Into<String>, expected: String, seen: String, pass: bool) -> Self {
        Self { name: name.into(), expected, seen, pass }
    }
}

/// Looks at everything.
///
/// Before each part, `next` gets its name and the time that is left.
///
/// # Errors
/// This machine has no port, no thread or no reactor for it.
pub fn run(
    parameters: &Parameters,
    mut next: impl FnMut(&str, Duration),
) -> anyhow::Result<Vec<Check>> {
    let Parameters { short, distribution_length, stall_length, .. } = *parameters;
    let mut left = short * 5 / 2 + distribution_length + stall_length;
    let mut part = |name: &str, length: Duration| {
        next(name, left);
        left = left.saturating_sub(length);
    };
    part("CPU per request", short);
    let mut checks = cost(parameters)?;
    part("lateness of the generator", short);
    let way = way(parameters, &mut checks)?;
    part("known distribution", distribution_length);
    checks.extend(distribution(parameters, way)?);
    part("stall", stall_length);
    checks.extend(stall(parameters)?);
    checks.push(merged());
    part("saturation", short / 2);
    checks.push(saturation(parameters)?);
    Ok(checks)
}

fn plan(server: &Server, length: Duration) -> anyhow::Result<Plan> {
    let url = format!("http://{}/", server.address).parse().map_err(anyhow::Error::msg)?;
    let mut plan = Plan::new(url);
    (plan.connections, plan.duration, plan.lateness_max) = (32, Some(length), None);
    Ok(plan)
}

fn paced(server: &Server, length: Duration, rate: f64) -> anyhow::Result<Plan> {
    let mut plan = plan(server, length)?;
    plan.schedule = Schedule::Open { arrival: Arrival::Uniform, rate: Rate::Constant(rate) };
    Ok(plan)
}

fn outcome(plan: &Plan) -> anyhow::Result<Outcome> {
    leno_load::run(plan, |_| ControlFlow::Continue(()))
}

/// What a request costs the generator, as fast as it goes.
fn cost(parameters: &Parameters) -> anyhow::Result<Vec<Check>> {
    let server = Server::start(Behaviour::Instant)?;
    let outcome = outcome(&plan(&server, parameters.short)?)?;
    let rate = outcome.counts.completed as f64 / outcome.duration_s.max(1e-9);
    let seen = format!("{:.1} us, {rate:.0}/s", outcome.generator.cpu_us_per_req);
    let pass = outcome.counts.completed > 0 && outcome.counts.errors.is_empty();
    Ok(vec![Check::new("CPU per request, closed loop", "any".into(), seen, pass)])
}

/// How long the way to a server and back takes, at the rate of the distribution's test; and how late the timer is.
fn way(parameters: &Parameters, checks: &mut Vec<Check>) -> anyhow::Result<u64> {
    let server = Server::start(Behaviour::Instant)?;
    let outcome = outcome(&paced(&server, parameters.short, parameters.distribution_rate)?)?;
    let late = |share| latency(outcome.hist.lateness.quantile(share) as f64);
    let seen = format!("p50 {}, p99 {}, p99.9 {}", late(0.5), late(0.99), late(0.999));
    let due = (parameters.distribution_rate * parameters.short.as_secs_f64()).round() as u64;
    let pass = outcome.counts.offered == due;
    checks.push(Check::new(
        "lateness of the generator",
        format!("any, of {due} requests"),
        seen,
        pass,
    ));
    let way = outcome.hist.service.quantile(0.99);
    // On a machine that is busier than that nothing below would tell one step from the next.
    let (most, seen) = (latency(WAY_MAX.as_nanos() as f64), latency(way as f64));
    let near = way <= WAY_MAX.as_nanos() as u64;
    checks.push(Check::new("way there and back, p99", format!("at most {most}"), seen, near));
    Ok(way)
}

/// Every percentile of a known distribution is found.
fn distribution(parameters: &Parameters, way: u64) -> anyhow::Result<Vec<Check>> {
    let server = Server::start(Behaviour::Steps)?;
    let rate = parameters.distribution_rate;
    let mut plan = paced(&server, parameters.distribution_length, rate)?;
    // As many as are needed for none to wait: that is not what is looked at.
    plan.connections = ((rate / 4.0) as usize).max(16);
    let outcome = outcome(&plan)?;
    let told = server.told();
    let allowed = way.saturating_mul(2).max(WAY_MIN.as_nanos() as u64);
    let worst = deviation(&told, &outcome.hist.service, allowed);
    let mut checks: Vec<Check> = [0.25, 0.65, 0.9, 0.97]
        .iter()
        .map(|share| {
            let (known, found) =
                (told.quantile(*share) as f64, outcome.hist.service.quantile(*share) as f64);
            let name = format!("known distribution, p{}", share * 100.0);
            let pass = within(told.quantile(*share), told.quantile(*share), found as u64, allowed);
            Check::new(name, latency(known), latency(found), pass)
        })
        .collect();
    let seen = format!("{} of {} beyond it", worst.0, worst.1);
    let expected = format!("0.1 % and {} for the way", latency(allowed as f64));
    checks.push(Check::new("every percentile from 1 to 99", expected, seen, worst.0 == 0));
    let same = outcome.counts.completed == told.count();
    let (known, found) = (told.count().to_string(), outcome.counts.completed.to_string());
    checks.push(Check::new("answers counted", known, found, same));
    Ok(checks)
}

/// How many percentiles from 1 to 99 are further apart than a histogram's error and the way, and of how many.
fn deviation(told: &Histogram, found: &Histogram, way: u64) -> (usize, usize) {
    let percentiles = 1..=99;
    let wrong = percentiles.clone().filter(|percent| {
        // Where the distribution jumps, one request more or less decides: half a percent to each side is the same.
        let at = |shift: f64| told.quantile((f64::from(*percent) / 100.0 + shift).clamp(0.0, 1.0));
        !within(at(-0.005), at(0.005), found.quantile(f64::from(*percent) / 100.0), way)
    });
    (wrong.count(), percentiles.count())
}

/// Whether what was found lies between these, a histogram's error on both sides and the way above.
fn within(low: u64, high: u64, found: u64, way: u64) -> bool {
    let found = found as f64;
    found >= low as f64 * (1.0 - HISTOGRAM_ERROR)
        && found <= (high as f64 + way as f64) * (1.0 + HISTOGRAM_ERROR)
}

/// The response that this share of requests does not exceed, in seconds, where a server stood still for `stall` seconds
/// of `length`: who came in its first moment waited for all of it, who came in its last for nothing.
#[must_use]
pub fn stalled(stall: f64, length: f64, share: f64) -> f64 {
    (stall - (1.0 - share) * length).max(0.0)
}

/// A server that stands still is seen as those who came meanwhile saw it.
fn stall(parameters: &Parameters) -> anyhow::Result<Vec<Check>> {
    let length = parameters.stall_length;
    let behaviour = Behaviour::Stall { after: length / 4, length: parameters.stall };
    let server = Server::start(behaviour)?;
    let outcome = outcome(&paced(&server, length, parameters.stall_rate)?)?;
    let stood = server.stood().as_secs_f64();
    let hist = &outcome.hist;
    let mut checks: Vec<Check> = [0.8, 0.9, 0.99]
        .iter()
        .map(|share| {
            let expected = stalled(stood, length.as_secs_f64(), *share);
            let seen = hist.response.quantile(*share) as f64 / 1e9;
            let near = (seen - expected).abs() <= 0.1 * stood;
            let name = format!("stall of {stood:.2} s, response p{}", share * 100.0);
            Check::new(name, format!("{expected:.2} s ± 10 %"), format!("{seen:.2} s"), near)
        })
        .collect();
    let service = hist.service.quantile(0.99) as f64 / 1e9;
    let name = "the same from the send, which forgives it, p99".to_owned();
    let expected = format!("below {:.2} s", stood / 4.0);
    checks.push(Check::new(name, expected, format!("{service:.4} s"), service < stood / 4.0));
    Ok(checks)
}

/// Parts add up to the whole, bit for bit.
fn merged() -> Check {
    const PARTS: usize = 5;
    let (mut one, mut collected) = (Shard::default(), Collected::new(PARTS));
    let mut parts = vec![Shard::default(); PARTS];
    for number in 0..100_000_u64 {
        let took = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
        let (sent, end) = (number, number + took);
        let result = Ok(Answer { status: 200, grpc_status: 0, bytes_in: 1 });
        let exchange = Exchange { sent, first_byte: end, end, bytes_out: 0, result };
        one.add(&exchange, sent, sent);
        parts[number as usize % PARTS].add(&exchange, sent, sent);
    }
    for (thread, part) in parts.iter().enumerate() {
        collected.add(thread, 0, part);
    }
    let (_, hist, _) = collected.finish(None);
    let bits = |histogram: &Histogram| histogram.encode();
    let same = bits(&hist.response) == bits(&one.hist.response)
        && bits(&hist.service) == bits(&one.hist.service)
        && bits(&hist.ttfb) == bits(&one.hist.ttfb)
        && bits(&hist.lateness) == bits(&one.hist.lateness);
    let seen = if same { "same bits" } else { "different" };
    Check::new(format!("{PARTS} recorders and one"), "same bits".into(), seen.into(), same)
}

/// A generator that cannot keep up says so.
fn saturation(parameters: &Parameters) -> anyhow::Result<Check> {
    let server = Server::start(Behaviour::Instant)?;
    let plan = paced(&server, parameters.short / 2, 3_000_000.0)?;
    let outcome = outcome(&plan)?;
    let seen = outcome.invalid_reasons.first().cloned().unwrap_or_else(|| "valid".into());
    let pass = !outcome.invalid_reasons.is_empty();
    Ok(Check::new("3,000,000/s from one thread", "invalid".into(), seen, pass))
}

#[cfg(test)]
mod tests;
