//! `leno bench load`: requests to one URL. The flags are those that users of fortio and oha have in their fingers.

use crate::bench::EXIT_INVALID;
use crate::output;
use anyhow::{Context as _, bail, ensure};
use clap::Args as ClapArgs;
use leno_bench::load::client::grpc;
use leno_bench::load::outcome::Outcome;
use leno_bench::load::plan::{Plan, Profile, Protocol, Tls};
use leno_bench::load::schedule::{Arrival, Rate, Schedule};
use leno_bench::load::url::Url;
use leno_bench::load::view::View;
use leno_bench::load::{self, interrupt, summary};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Length of a load of which neither number nor length is given.
const DURATION: Duration = Duration::from_secs(10);
/// Longer than this is no waking time.
const SPIN_MAX: Duration = Duration::from_millis(1);

#[derive(Debug, ClapArgs)]
pub(crate) struct Load {
    /// http://host:port/path, https://…, grpc://host:port/Service/Method, grpcs://…, tcp://host:port, tls://…
    pub(crate) url: String,
    /// Connections at once
    #[arg(short = 'c', long, value_name = "NUMBER", default_value_t = 50)]
    pub(crate) connections: usize,
    /// Requests in all; without -z, as long as that takes
    #[arg(short = 'n', long = "count", visible_alias = "requests", value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
    /// How long: 10s, 1m30s, 500ms [default: 10s, unless -n is given]
    #[arg(short = 'z', long, short_alias = 't', value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// Requests per second, whatever happens to them; 0: each connection as fast as it is answered. A rate that
    /// changes is written as 0s:100,30s:1000
    #[arg(
        short = 'q',
        long = "qps",
        visible_alias = "rate",
        value_name = "RATE",
        default_value = "0"
    )]
    pub(crate) rate: String,
    /// How requests are spread: uniform, poisson or burst; and how a rate changes between its points: steps or ramp
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    pub(crate) arrival: Vec<String>,
    /// Method [default: GET, with a body POST]
    #[arg(short = 'm', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Header field, `name: value`; again for more
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub(crate) headers: Vec<String>,
    /// Body of each request
    #[arg(short = 'd', long = "body", value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// File with the body of each request
    #[arg(short = 'D', long = "body-file", value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
    /// Body of each request by its size only, in bytes; with gRPC a message whose field 2 has so many
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["body", "body_file"])]
    pub(crate) payload_size: Option<usize>,
    /// A connection for each request
    #[arg(long)]
    pub(crate) disable_keepalive: bool,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) timeout: Duration,
    /// Made likewise before, and left out of every figure
    #[arg(long, visible_alias = "warm-up", value_name = "TIME", default_value = "0s", value_parser = time)]
    pub(crate) warmup: Duration,
    /// HTTP/2: with prior knowledge, or agreed upon in the TLS handshake
    #[arg(long, conflicts_with = "grpc")]
    pub(crate) http2: bool,
    /// gRPC, one call per request
    #[arg(long)]
    pub(crate) grpc: bool,
    /// gRPC, one bidirectional stream for each request at once, one message each way per request
    #[arg(long, conflicts_with_all = ["http2", "grpc"])]
    pub(crate) grpc_stream: bool,
    /// gRPC streams: messages on a stream before the next one is opened
    #[arg(long, value_name = "NUMBER", requires = "grpc_stream")]
    pub(crate) stream_messages: Option<u64>,
    /// HTTP/2 and gRPC: requests at once on each connection
    #[arg(short = 's', long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) streams: usize,
    /// TLS: take any certificate of the server
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// TLS: PEM file of who may have signed the server's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// TLS: PEM file with our certificate chain
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// TLS: PEM file with our key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// TLS: the name to ask for and to verify
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// Threads that make requests [default: one on up to two cores, else one per core]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<usize>,
    /// Requests due and not yet answered beyond which more are shed, and counted
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000)]
    pub(crate) max_in_flight: usize,
    /// Of random arrivals
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    pub(crate) seed: u64,
    /// Whose behaviour is reproduced, with its bias: honest, wrk2, fortio, oha-closed
    #[arg(long, value_name = "NAME", default_value = "honest")]
    pub(crate) profile: String,
    /// Stay awake for so long before a request is due: less lateness, more CPU; 50us where cores are to spare
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    pub(crate) spin: Duration,
    /// Lateness of the generator itself (p99.9) beyond which figures are invalid, unless it is below 5 % of the median
    /// response; 0: never
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = time)]
    pub(crate) lateness_max: Duration,
    /// Free words that are kept in the result
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) labels: String,
    /// Write the outcome as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HdrHistogram log, a line for each second
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    /// Write a line of CSV for each second
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write what `fortio report` shows
    #[arg(long, value_name = "FILE")]
    pub(crate) fortio_json: Option<PathBuf>,
    /// No live view; there is none either where standard error is no terminal
    #[arg(long)]
    pub(crate) no_tui: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Load) -> anyhow::Result<ExitCode> {
    let plan = plan(&arguments)?;
    let interrupted = interrupt::watch()?;
    let title = format!("{}, {} connections", plan.url, plan.connections);
    let mut view = if arguments.no_tui { None } else { View::on_terminal(&title) };
    let outcome = load::run(&plan, |progress| {
        if let Some(view) = &mut view {
            view.show(progress);
        }
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    drop(view);
    write(&arguments, &outcome)?;
    if outcome.invalid_reasons.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(EXIT_INVALID))
}

/// Writes what was asked for: the summary, unless JSON takes its place on standard output.
fn write(arguments: &Load, outcome: &Outcome) -> anyhow::Result<()> {
    write_files(arguments, outcome)?;
    let Some(path) = &arguments.json else {
        return Ok(output::print(&summary::text(outcome))?);
    };
    let json = serde_json::to_string_pretty(outcome)?;
    if path.as_os_str() == "-" {
        output::print(&format!("{json}\n"))?;
        outcome.invalid_reasons.iter().for_each(|reason| eprintln!("leno: invalid: {reason}"));
        return Ok(());
    }
    std::fs::write(path, json).with_context(|| format!("--json {}", path.display()))?;
    Ok(output::print(&summary::text(outcome))?)
}

/// The same in the words of other tools.
fn write_files(arguments: &Load, outcome: &Outcome) -> anyhow::Result<()> {
    type Form = fn(&Outcome) -> String;
    let forms: [(&str, &Option<PathBuf>, Form); 3] = [
        ("--hlog", &arguments.hlog, load::hlog::write),
        ("--csv", &arguments.csv, load::csv::seconds),
        ("--fortio-json", &arguments.fortio_json, load::fortio::write),
    ];
    for (flag, path, form) in forms {
        if let Some(path) = path {
            std::fs::write(path, form(outcome))
                .with_context(|| format!("{flag} {}", path.display()))?;
        }
    }
    Ok(())
}

/// What is asked for, in the engine's words. Every message names the flag.
fn plan(arguments: &Load) -> anyhow::Result<Plan> {
    let url: Url = arguments.url.parse().map_err(anyhow::Error::msg)?;
    let mut plan = Plan::new(url);
    if arguments.http2 {
        plan.protocol = Protocol::Http2;
    } else if arguments.grpc {
        plan.protocol = Protocol::GrpcUnary;
    } else if arguments.grpc_stream {
        plan.protocol = Protocol::GrpcStream;
    }
    plan.body = body(arguments, plan.protocol)?;
    plan.method = match &arguments.method {
        Some(method) => method.clone(),
        None => if plan.body.is_empty() { "GET" } else { "POST" }.to_owned(),
    };
    for field in &arguments.headers {
        let (name, value) = field
            .split_once(':')
            .with_context(|| format!("-H {field:?}: a header field is written as name: value"))?;
        plan.headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let profile: Profile =
        arguments.profile.parse().map_err(|error| anyhow::anyhow!("--profile: {error}"))?;
    plan.profile = profile;
    plan.schedule = schedule(&arguments.rate, &arguments.arrival)?;
    let closed = plan.schedule == Schedule::Closed;
    if closed && matches!(profile, Profile::Wrk2 | Profile::Fortio) {
        bail!("--profile {}: -q RATE is missing", profile.name());
    }
    ensure!(arguments.streams > 0, "--streams: at least one");
    ensure!(arguments.max_in_flight > 0, "--max-in-flight: at least one");
    plan.tls = Tls {
        insecure: arguments.insecure,
        ca: arguments.cacert.clone(),
        cert: arguments.cert.clone(),
        key: arguments.key.clone(),
        server_name: arguments.server_name.clone(),
    };
    plan.count = arguments.count;
    let fallback = if arguments.count.is_none() { Some(DURATION) } else { None };
    plan.duration = arguments.duration.or(fallback);
    ensure!(plan.duration != Some(Duration::ZERO), "-z: more than nothing");
    plan.connections = arguments.connections;
    plan.streams = arguments.streams;
    plan.stream_messages = arguments.stream_messages;
    plan.keep_alive = !arguments.disable_keepalive;
    plan.timeout = arguments.timeout;
    plan.warm_up = arguments.warmup;
    plan.threads = threads(arguments.threads)?;
    plan.max_in_flight = arguments.max_in_flight;
    plan.seed = arguments.seed;
    ensure!(arguments.spin <= SPIN_MAX, "--spin: at most 1ms");
    plan.spin = arguments.spin;
    plan.lateness_max = Some(arguments.lateness_max).filter(|limit| !limit.is_zero());
    plan.labels = arguments.labels.clone();
    Ok(plan)
}

fn threads(wanted: Option<usize>) -> anyhow::Result<usize> {
    ensure!(wanted != Some(0), "--threads: at least one");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(wanted.unwrap_or(if cores <= 2 { 1 } else { cores }))
}

fn body(arguments: &Load, protocol: Protocol) -> anyhow::Result<Vec<u8>> {
    if let Some(path) = &arguments.body_file {
        return std::fs::read(path).with_context(|| format!("-D {}", path.display()));
    }
    if let Some(size) = arguments.payload_size {
        return Ok(match protocol {
            Protocol::GrpcUnary | Protocol::GrpcStream => grpc::ping(size),
            Protocol::Http1 | Protocol::Http2 | Protocol::Tcp => vec![b'x'; size],
        });
    }
    Ok(arguments.body.clone().unwrap_or_default().into_bytes())
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
            _ => bail!("--arrival {word:?}: it is none of uniform, poisson, burst, steps, ramp"),
        }
    }
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|rate| rate.is_finite());
    let rate = if rate.contains(':') {
        let points: Option<Vec<(f64, f64)>> = rate
            .split(',')
            .map(|point| {
                let (at, rate) = point.split_once(':')?;
                Some((time(at.trim()).ok()?.as_secs_f64(), number(rate)?))
            })
            .collect();
        let points = points.with_context(|| {
            format!("-q {rate:?}: a changing rate is written as 0s:100,30s:1000")
        })?;
        if ramp { Rate::Ramp(points) } else { Rate::Steps(points) }
    } else {
        let rate = number(rate).with_context(|| format!("-q {rate:?}: no number"))?;
        ensure!(!changing, "--arrival steps and ramp need points: -q 0s:100,30s:1000");
        if rate == 0.0 {
            ensure!(words.is_empty(), "--arrival: -q RATE is missing");
            return Ok(Schedule::Closed);
        }
        Rate::Constant(rate)
    };
    if let Some(mistake) = rate.mistake() {
        bail!("-q: {mistake}");
    }
    Ok(Schedule::Open { arrival, rate })
}

/// `10s`, `1m30s`, `500ms`, `100us`, `1.5s`; a bare number is seconds.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: 500ms, 10s, 1m30s, 2h");
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" | "" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
        seconds += number * unit;
    }
    let known = !text.trim().is_empty() && seconds <= 365.0 * 86_400.0;
    if known { Duration::try_from_secs_f64(seconds).map_err(|_| wrong()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        load: Load,
    }

    fn planned(line: &str) -> Result<Plan, String> {
        let line = Line::try_parse_from(std::iter::once("load").chain(line.split(' ')));
        let line = line.map_err(|error| error.to_string())?;
        plan(&line.load).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn lines_that_people_type() {
        let of = |line: &str| planned(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let plan = of("http://a/");
        assert_eq!((plan.schedule, plan.duration), (Schedule::Closed, Some(DURATION)));
        let plan = of("-c 8 -n 100 --disable-keepalive http://a/");
        assert_eq!((plan.connections, plan.count, plan.duration), (8, Some(100), None));
        assert!(!plan.keep_alive);
        let plan = of("-q 2000 -z 1m30s -m PUT -d x -H a:b --warmup 5s http://a/");
        let rate = Rate::Constant(2000.0);
        assert_eq!(plan.schedule, Schedule::Open { arrival: Arrival::Uniform, rate });
        assert_eq!(
            (plan.duration, plan.warm_up),
            (Some(Duration::from_secs(90)), Duration::from_secs(5))
        );
        assert_eq!((plan.method.as_str(), plan.body.as_slice()), ("PUT", b"x".as_slice()));
        let plan = of("-q 0s:10,2s:20 --arrival poisson,ramp -t 5 --payload-size 3 http://a/");
        let rate = Rate::Ramp(vec![(0.0, 10.0), (2.0, 20.0)]);
        assert_eq!(plan.schedule, Schedule::Open { arrival: Arrival::Poisson, rate });
        assert_eq!((plan.duration, plan.method.as_str()), (Some(Duration::from_secs(5)), "POST"));
        assert_eq!(of("grpc://a:1/S/M -s 8").protocol, Protocol::GrpcUnary);
        assert_eq!(of("http://a/ --http2").protocol, Protocol::Http2);
    }

    #[test]
    fn mistakes_name_the_flag() {
        for (line, begin) in [
            ("-q x http://a/", "-q "),
            ("-q -5 http://a/", "error: unexpected argument '-5'"),
            ("-q 0s:0 http://a/", "-q"),
            ("-q 0s:x http://a/", "-q"),
            ("-q 5 --arrival ramp http://a/", "--arrival"),
            ("-q 5 --arrival odd http://a/", "--arrival"),
            ("--arrival poisson http://a/", "--arrival"),
            ("--profile wrk2 http://a/", "--profile"),
            ("--profile no http://a/", "--profile"),
            ("-H x http://a/", "-H"),
            ("-D /no/such http://a/", "-D"),
            ("-z 5x http://a/", "error: invalid value '5x' for '--duration"),
            ("--threads 0 http://a/", "--threads"),
            ("ftp://a/", "\"ftp://a/\""),
        ] {
            let error = planned(line).expect_err(line);
            assert!(error.starts_with(begin), "{line}: {error}");
        }
    }
}
