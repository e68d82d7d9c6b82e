//! Flags become a plan, in the engine's words. Every message names the flag.

use crate::bench::load::Asked;
use anyhow::{Context as _, bail, ensure};
use leno_load::client::grpc;
use leno_load::client::target::tcp_round;
use leno_load::plan::{Choice, Family, Plan, Profile, Tls, basic_authorization};
use leno_load::protocol::Protocol;
use leno_load::schedule::own::Manner;
use leno_load::schedule::{Arrival, Rate, Schedule};
use leno_runtime::duration;
use std::path::Path;
use std::time::Duration;

/// Length of a load of which neither number nor length is given.
const DURATION: Duration = Duration::from_secs(10);
/// Busy-waiting longer than this would only waste CPU.
const SPIN_MAX: Duration = Duration::from_millis(1);
/// Places that a list may have: each has its request in memory.
const PLACES_MAX: usize = 10_000;
/// What fortio's own server answers pings at.
const PING_PATH: &str = "/fgrpc.PingServer/Ping";
/// The field of its message that may have any length.
const PING_FIELD: u8 = 3;

/// What is asked for.
pub(crate) fn plan(asked: &Asked) -> anyhow::Result<Plan> {
    plan_at(asked, &asked.rate)
}

/// The same at another rate.
pub(crate) fn plan_at(asked: &Asked, rate: &str) -> anyhow::Result<Plan> {
    let mut choices = choices(asked)?;
    let mut plan = Plan::new(choices[0].url.clone());
    plan.protocol = protocol(asked, plan.protocol)?;
    if matches!(plan.protocol, Protocol::GrpcUnary | Protocol::GrpcStream) {
        for choice in &mut choices {
            if asked.ping && choice.url.path == "/" {
                choice.url.path = PING_PATH.to_owned();
            }
            ensure!(choice.url.path != "/", "{}: gRPC needs a path, /Service/Method", choice.url);
        }
    }
    plan.url = choices[0].url.clone();
    plan.urls = if choices.len() > 1 { choices } else { Vec::new() };
    plan.host_change =
        asked.host_change.parse().map_err(|error| anyhow::anyhow!("--host-change: {error}"))?;
    plan.family = match (asked.ipv4, asked.ipv6) {
        (true, _) => Some(Family::V4),
        (_, true) => Some(Family::V6),
        _ => None,
    };
    plan.body = body(asked, plan.protocol)?;
    plan.method = match &asked.method {
        Some(method) => method.clone(),
        None => if plan.body.is_empty() { "GET" } else { "POST" }.to_owned(),
    };
    plan.headers = headers(asked)?;
    plan.schedule = schedule(rate, &asked.arrival)?;
    plan.connections = asked.connections;
    plan.streams = asked.streams;
    plan.max_in_flight = asked.max_in_flight;
    profile(asked, &mut plan)?;
    ensure!(asked.streams > 0, "--streams must be at least 1");
    ensure!(asked.max_in_flight > 0, "--max-in-flight must be at least 1");
    plan.tls = Tls {
        insecure: asked.insecure,
        ca: asked.cacert.clone(),
        cert: asked.cert.clone(),
        key: asked.key.clone(),
        server_name: asked.server_name.clone(),
    };
    plan.count = asked.count;
    let fallback = if asked.count.is_none() { Some(DURATION) } else { None };
    plan.duration = asked.duration.or(fallback);
    ensure!(plan.duration != Some(Duration::ZERO), "-z: the duration must be greater than 0");
    plan.stream_messages = asked.stream_messages;
    plan.keep_alive = !asked.disable_keepalive;
    plan.connection_requests = asked.connection_reuse;
    plan.timeout = asked.timeout;
    plan.warm_up = asked.warmup;
    plan.threads = threads(asked.threads)?;
    plan.seed = asked.seed;
    ensure!(asked.spin <= SPIN_MAX, "--spin must be at most 1ms");
    plan.spin = asked.spin;
    plan.lateness_max = Some(asked.lateness_max).filter(|limit| !limit.is_zero());
    plan.labels = asked.labels.clone();
    Ok(plan)
}

/// All places, at least one.
fn choices(asked: &Asked) -> anyhow::Result<Vec<Choice>> {
    let mut choices = Vec::new();
    for word in &asked.urls {
        if asked.urls_from_file {
            choices.extend(choices_of_file(Path::new(word))?);
        } else {
            choices.push(choice(word).map_err(anyhow::Error::msg)?);
        }
    }
    ensure!(!choices.is_empty(), "--urls-from-file: the file has no URL");
    ensure!(
        choices.len() <= PLACES_MAX,
        "too many URLs: {}, and at most {PLACES_MAX} are allowed",
        choices.len()
    );
    Ok(choices)
}

/// One place in a line; what follows `#` at its beginning, and empty lines, are passed over.
fn choices_of_file(path: &Path) -> anyhow::Result<Vec<Choice>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--urls-from-file {}", path.display()))?;
    let lines = text.lines().map(str::trim).enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            choice(line)
                .map_err(|error| anyhow::anyhow!("{}:{}: {error}", path.display(), number + 1))
        })
        .collect()
}

/// `http://a/`, or with a weight `3*http://a/`.
fn choice(text: &str) -> Result<Choice, String> {
    let (weight, url) = match text.split_once('*') {
        Some((weight, url)) if !weight.is_empty() && weight.bytes().all(|b| b.is_ascii_digit()) => {
            (weight, url)
        }
        _ => ("1", text),
    };
    let weight = weight.parse().ok().filter(|weight| *weight > 0);
    let weight =
        weight.ok_or_else(|| format!("{text:?} is not a valid weight: use a number from 1"))?;
    Ok(Choice { url: url.trim().parse()?, weight })
}

fn protocol(asked: &Asked, of_url: Protocol) -> anyhow::Result<Protocol> {
    let said = match asked.http_version.as_deref() {
        None => None,
        Some("1.1") => Some(Protocol::Http1),
        Some("2") => Some(Protocol::Http2),
        Some(other) => bail!("--http-version {other:?} is not valid: use 1.1 or 2"),
    };
    let wanted = if asked.grpc_stream {
        Protocol::GrpcStream
    } else if asked.grpc || asked.ping {
        Protocol::GrpcUnary
    } else if asked.http2 {
        Protocol::Http2
    } else {
        return Ok(said.unwrap_or(of_url));
    };
    ensure!(
        said != Some(Protocol::Http1),
        "--http-version 1.1 and {} exclude each other",
        wanted.name()
    );
    Ok(wanted)
}

/// The fields that were given, and those that have flags of their own.
fn headers(asked: &Asked) -> anyhow::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    for field in &asked.headers {
        let (name, value) = field
            .split_once(':')
            .with_context(|| format!("-H {field:?} is not a header field: use NAME: VALUE"))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let authorization = asked.basic_auth.as_deref().map(basic_authorization);
    for (name, value) in [
        ("content-type", &asked.content_type),
        ("accept", &asked.accept),
        ("host", &asked.host),
        ("authorization", &authorization),
    ] {
        headers.extend(value.clone().map(|value| (name.to_owned(), value)));
    }
    Ok(headers)
}

/// Whose behaviour, and what fortio's switches make of it.
fn profile(asked: &Asked, plan: &mut Plan) -> anyhow::Result<()> {
    plan.profile = asked.profile.parse().map_err(|error| anyhow::anyhow!("--profile: {error}"))?;
    let closed = plan.schedule == Schedule::Closed;
    if closed && plan.profile.has_own_schedules() {
        bail!("--profile {} needs -q RATE", plan.profile.name());
    }
    plan.manner =
        Manner { uniform: asked.uniform, jitter: asked.jitter, no_catch_up: asked.nocatchup };
    if plan.profile == Profile::Fortio {
        return Ok(());
    }
    ensure!(
        !asked.jitter,
        "--jitter is only valid with --profile fortio; other profiles do not send on all connections at once, and --arrival poisson is random"
    );
    if asked.uniform
        && let Schedule::Open { arrival, .. } = &plan.schedule
    {
        let name = arrival.name();
        ensure!(*arrival == Arrival::Uniform, "--uniform and --arrival {name} exclude each other");
    }
    if asked.nocatchup {
        // What finds no free connection when it is due is not made later.
        plan.max_in_flight = plan.max_in_flight.min(plan.connections.saturating_mul(plan.streams));
    }
    Ok(())
}

fn threads(wanted: Option<usize>) -> anyhow::Result<usize> {
    ensure!(wanted != Some(0), "--threads must be at least 1");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(wanted.unwrap_or(if cores <= 2 { 1 } else { cores }))
}

fn body(asked: &Asked, protocol: Protocol) -> anyhow::Result<Vec<u8>> {
    if let Some(path) = &asked.body_file {
        return std::fs::read(path).with_context(|| format!("-D {}", path.display()));
    }
    if let Some(size) = asked.payload_size {
        return Ok(match protocol {
            _ if asked.ping => grpc::field(PING_FIELD, size),
            Protocol::GrpcUnary | Protocol::GrpcStream => grpc::ping(size),
            Protocol::Tcp => tcp_round(size),
            Protocol::Http1 | Protocol::Http2 => vec![b'x'; size],
        });
    }
    Ok(asked.body.clone().unwrap_or_default().into_bytes())
}

/// Rate and spread: `100`, or `0s:100,30s:1000`; `uniform`, `poisson,ramp`, …
fn schedule(rate: &str, words: &[String]) -> anyhow::Result<Schedule> {
    let (mut arrival, mut ramp, mut changing) = (Arrival::Uniform, false, false);
    for word in words {
        match word.as_str() {
            "uniform" => arrival = Arrival::Uniform,
            "poisson" => arrival = Arrival::Poisson,
            "burst" => arrival = Arrival::Burst,
            "steps" => changing = true,
            "ramp" => (ramp, changing) = (true, true),
            _ => bail!("--arrival {word:?}: it is not one of uniform, poisson, burst, steps, ramp"),
        }
    }
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|rate| rate.is_finite());
    let rate = if rate.contains(':') {
        let points: Option<Vec<(f64, f64)>> = rate
            .split(',')
            .map(|point| {
                let (at, rate) = point.split_once(':')?;
                Some((duration::parse(at.trim()).ok()?.as_secs_f64(), number(rate)?))
            })
            .collect();
        let points = points.with_context(|| {
            format!("-q {rate:?} is not a changing rate: write it as 0s:100,30s:1000")
        })?;
        if ramp { Rate::Ramp(points) } else { Rate::Steps(points) }
    } else {
        // -1 is fortio's word for it.
        let known = if matches!(rate, "max" | "-1") { Some(0.0) } else { number(rate) };
        let rate = known.with_context(|| format!("-q {rate:?} is not a number"))?;
        ensure!(!changing, "--arrival steps and ramp need points: -q 0s:100,30s:1000");
        if rate == 0.0 {
            ensure!(words.is_empty(), "--arrival needs -q RATE");
            return Ok(Schedule::Closed);
        }
        Rate::Constant(rate)
    };
    if let Some(mistake) = rate.mistake() {
        bail!("-q: {mistake}");
    }
    Ok(Schedule::Open { arrival, rate })
}

/// `500`, `10k`, `2m`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a number such as 500, 10k or 2m");
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = match lower.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => lower.strip_suffix('m').map_or((lower.as_str(), 1), |digits| (digits, 1_000_000)),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

/// `1:10`, or `5`.
pub(crate) fn reuse(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("{text:?} is not LEAST:MOST with numbers from 1");
    let (least, most) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let (least, most) = number(least).zip(number(most)).ok_or_else(wrong)?;
    if least <= most { Ok((least, most)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;
