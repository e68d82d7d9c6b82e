//! `leno bench load`: requests to one URL, or several. The flags are those that users of fortio and oha have in their
//! fingers; fortio's words with one dash are read by [`familiar`], and [`plan`](mod@plan) says what flags mean.

pub(crate) mod familiar;
pub(crate) mod plan;

use crate::bench::{EXIT_INTERRUPTED, EXIT_INVALID};
use crate::output;
use anyhow::Context as _;
use clap::Args as ClapArgs;
use leno_bench::load::view::{self, View};
use leno_bench::load::{csv, fortio, hlog};
use leno_load::outcome::Outcome;
use leno_load::plan::Plan;
use leno_load::{interrupt, summary};
use leno_runtime::duration;
use leno_runtime::progress::{Line, Medium};
use plan::{count, reuse};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is asked for; the same for one load and for the search of a rate.
#[derive(Debug, ClapArgs)]
pub(crate) struct Asked {
    /// http://host:port/path, https://…, grpc://host:port/Service/Method, grpcs://…, tcp://host:port, tls://…; several
    /// with their weights: 10*http://a/ 5*http://b/
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// URL is a file with one URL per line, with optional weights
    #[arg(long)]
    pub(crate) urls_from_file: bool,
    /// Several hosts: keep a connection to each host (keep), or close one and open another (reconnect)
    #[arg(help_heading = "Connections", long, value_name = "WORD", default_value = "keep")]
    pub(crate) host_change: String,
    /// Concurrent connections
    #[arg(
        help_heading = "Load",
        short = 'c',
        long,
        value_name = "NUMBER",
        default_value_t = 50,
        allow_negative_numbers = true
    )]
    pub(crate) connections: usize,
    /// Total number of requests, also as 10k or 2m; without -z there is no time limit
    #[arg(help_heading = "Load", short = 'n', long = "count", visible_alias = "requests", value_name = "NUMBER", value_parser = count, allow_hyphen_values = true)]
    pub(crate) count: Option<u64>,
    /// Duration: 10s, 1m30s, 500ms [default: 10s, unless -n is given]
    #[arg(help_heading = "Load", short = 'z', long, short_alias = 't', value_name = "TIME", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) duration: Option<Duration>,
    /// Requests per second, independent of the answers; 0: each connection sends when its last request is answered. A rate that
    /// changes is 0s:100,30s:1000
    #[arg(
        help_heading = "Load",
        short = 'q',
        long = "qps",
        visible_alias = "rate",
        value_name = "RATE",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub(crate) rate: String,
    /// Distribution of requests in time: uniform, poisson or burst; for a changing rate: steps or ramp
    #[arg(help_heading = "Load", long, value_name = "WORD", value_delimiter = ',')]
    pub(crate) arrival: Vec<String>,
    /// Evenly spread (the default); with --profile fortio, connections start one after the other
    #[arg(help_heading = "Load", long)]
    pub(crate) uniform: bool,
    /// With --profile fortio: vary each wait by up to a tenth, at random
    #[arg(help_heading = "Load", long)]
    pub(crate) jitter: bool,
    /// Skip a request that finds all connections busy when it is due, and count it as shed
    #[arg(help_heading = "Load", long)]
    pub(crate) nocatchup: bool,
    /// Method [default: GET, with a body POST]
    #[arg(help_heading = "Request", short = 'm', long, short_alias = 'X', value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Header field, `name: value`; may be repeated
    #[arg(
        help_heading = "Request",
        short = 'H',
        long = "header",
        value_name = "FIELD",
        allow_hyphen_values = true
    )]
    pub(crate) headers: Vec<String>,
    /// Header field content-type
    #[arg(help_heading = "Request", short = 'T', long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// Header field accept
    #[arg(help_heading = "Request", short = 'A', long, value_name = "TYPES")]
    pub(crate) accept: Option<String>,
    /// Header field host, instead of the URL's
    #[arg(help_heading = "Request", long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Header field authorization, from USER:PASSWORD
    #[arg(help_heading = "Request", long, value_name = "USER:PASSWORD")]
    pub(crate) basic_auth: Option<String>,
    /// Body of each request
    #[arg(
        help_heading = "Request",
        short = 'd',
        long = "body",
        value_name = "TEXT",
        conflicts_with = "body_file",
        allow_hyphen_values = true
    )]
    pub(crate) body: Option<String>,
    /// File with the body of each request
    #[arg(help_heading = "Request", short = 'D', long = "body-file", value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
    /// Size of the body of each request, in bytes; with gRPC the size of field 2 of the message
    #[arg(help_heading = "Request", long, value_name = "BYTES", conflicts_with_all = ["body", "body_file"])]
    pub(crate) payload_size: Option<usize>,
    /// Open a connection for each request
    #[arg(help_heading = "Connections", long)]
    pub(crate) disable_keepalive: bool,
    /// Replace a connection after a random number of requests between LEAST and MOST
    #[arg(help_heading = "Connections", long, value_name = "LEAST:MOST", value_parser = reuse)]
    pub(crate) connection_reuse: Option<(u64, u64)>,
    /// Timeout of an answer
    #[arg(help_heading = "Load", long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(crate) timeout: Duration,
    /// Duration of the same load before the measurement; it is not part of the figures
    #[arg(help_heading = "Load", long, visible_alias = "warm-up", value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    pub(crate) warmup: Duration,
    /// HTTP/2: with prior knowledge, or by ALPN
    #[arg(help_heading = "Protocol", long, conflicts_with = "grpc")]
    pub(crate) http2: bool,
    /// 1.1 or 2
    #[arg(help_heading = "Protocol", long, value_name = "VERSION")]
    pub(crate) http_version: Option<String>,
    /// gRPC, one call per request
    #[arg(help_heading = "Protocol", long)]
    pub(crate) grpc: bool,
    /// gRPC to fortio's server: call its Ping if the URL has no path
    #[arg(help_heading = "Protocol", long, conflicts_with_all = ["http2", "grpc_stream"])]
    pub(crate) ping: bool,
    /// gRPC bidirectional streams, one for each concurrent request; one message each way per request
    #[arg(help_heading = "Protocol", long, conflicts_with_all = ["http2", "grpc"])]
    pub(crate) grpc_stream: bool,
    /// gRPC streams: messages on a stream before the next one is opened
    #[arg(help_heading = "Protocol", long, value_name = "NUMBER", requires = "grpc_stream")]
    pub(crate) stream_messages: Option<u64>,
    /// HTTP/2 and gRPC: concurrent requests on each connection
    #[arg(
        help_heading = "Load",
        short = 's',
        long,
        short_alias = 'p',
        value_name = "NUMBER",
        default_value_t = 1
    )]
    pub(crate) streams: usize,
    /// TLS: do not verify the server's certificate
    #[arg(help_heading = "TLS", short = 'k', long)]
    pub(crate) insecure: bool,
    /// TLS: PEM file with trusted CA certificates
    #[arg(help_heading = "TLS", long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// TLS: PEM file with the client's certificate chain, and its key unless --key is given
    #[arg(help_heading = "TLS", long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// TLS: PEM file with the client's key
    #[arg(help_heading = "TLS", long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// TLS: server name to send and to verify
    #[arg(help_heading = "TLS", long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// Use only IPv4 addresses
    #[arg(help_heading = "Connections", long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use only IPv6 addresses
    #[arg(help_heading = "Connections", long)]
    pub(crate) ipv6: bool,
    /// Threads that send requests [default: one on up to two cores, otherwise one per core]
    #[arg(help_heading = "Load generator", long, value_name = "NUMBER")]
    pub(crate) threads: Option<usize>,
    /// Limit of requests in flight; further due requests are skipped and counted as shed
    #[arg(help_heading = "Load generator", long, value_name = "NUMBER", default_value_t = 20_000)]
    pub(crate) max_in_flight: usize,
    /// Seed of random arrivals
    #[arg(help_heading = "Load generator", long, value_name = "NUMBER", default_value_t = 42)]
    pub(crate) seed: u64,
    /// Tool whose behaviour is reproduced, with its bias: honest, wrk2, wrk2-kinvolk, fortio, oha-closed
    #[arg(help_heading = "Load generator", long, value_name = "NAME", default_value = "honest")]
    pub(crate) profile: String,
    /// Busy-wait for this time before a request is due: less lateness, more CPU; 50us is a good value if there are enough cores
    #[arg(help_heading = "Load generator", long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    pub(crate) spin: Duration,
    /// Limit of the generator's own lateness (p99.9); beyond it the result is invalid, unless it is below 5 % of the median
    /// response; 0: no limit
    #[arg(help_heading = "Load generator", long, value_name = "TIME", default_value = "100us", value_parser = duration::parse)]
    pub(crate) lateness_max: Duration,
    /// Labels to store in the result
    #[arg(help_heading = "Output", long, value_name = "TEXT", default_value = "")]
    pub(crate) labels: String,
    /// No progress: neither the status line on a terminal, nor lines now and then elsewhere
    #[arg(help_heading = "Output", long, visible_alias = "quiet")]
    pub(crate) no_tui: bool,
    /// Type of the terminal; a dumb one has no status line
    #[arg(long, hide = true, env = "TERM", hide_env = true)]
    term: Option<String>,
    #[command(flatten)]
    _anyway: Anyway,
}

/// Words of oha that say what is so anyway.
#[derive(Debug, ClapArgs)]
struct Anyway {
    #[arg(long, hide = true)]
    no_color: bool,
    #[arg(long, hide = true)]
    latency_correction: bool,
    #[arg(long, hide = true)]
    disable_compression: bool,
    #[arg(long, hide = true)]
    no_pre_lookup: bool,
    #[arg(long, hide = true)]
    stats_success_breakdown: bool,
    #[arg(short = 'w', long, hide = true)]
    wait_ongoing_requests_after_deadline: bool,
    #[arg(long, hide = true, value_name = "NUMBER")]
    fps: Option<u32>,
    /// No effect: redirects are never followed
    #[arg(long, hide = true, value_name = "NUMBER", value_parser = ["0"])]
    redirect: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Load {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// Write the result as JSON to a file; - is standard output
    #[arg(
        help_heading = "Output",
        long,
        short = 'o',
        visible_alias = "output",
        value_name = "FILE"
    )]
    pub(crate) json: Option<PathBuf>,
    /// The same as --json -
    #[arg(help_heading = "Output", short = 'j', conflicts_with = "json")]
    pub(crate) json_out: bool,
    /// Output format; only json is supported
    #[arg(long, hide = true, value_parser = ["json"])]
    output_format: Option<String>,
    /// Write an HdrHistogram log to a file, one line per second
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    /// Write CSV to a file, one line per second
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write fortio's JSON to a file, for `fortio report`; - is standard output
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    pub(crate) fortio_json: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(arguments: &Load) -> anyhow::Result<ExitCode> {
    let plan = plan::plan(&arguments.asked)?;
    let interrupted = interrupt::watch_or_end()?;
    let outcome = watched(&plan, &arguments.asked, None, &interrupted)?;
    write(arguments, &outcome)?;
    if interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    if outcome.invalid_reasons.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(EXIT_INVALID))
}

/// Makes the plan's requests, with a status line where one can be seen, until they are made or somebody wants an end.
pub(crate) fn watched(
    plan: &Plan,
    asked: &Asked,
    title: Option<&str>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let (title, kind) = (title.unwrap_or_default(), asked.term.as_deref());
    let mut view = if asked.no_tui { None } else { View::on_terminal(title, kind) };
    let medium = if asked.no_tui || view.is_some() { Medium::Nowhere } else { Medium::Pipe };
    let (mut lines, began) = (Line::new(std::io::stderr(), medium), Instant::now());
    leno_load::run(plan, |progress| {
        match &mut view {
            Some(view) => view.show(progress),
            None => lines.show(&view::line(title, progress), began.elapsed()),
        }
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
}

/// Writes what was asked for: the summary, unless JSON takes its place on standard output.
fn write(arguments: &Load, outcome: &Outcome) -> anyhow::Result<()> {
    type Form = fn(&Outcome) -> String;
    let json: Form = |outcome| {
        // An outcome of numbers and texts is JSON without fail.
        serde_json::to_string_pretty(outcome).unwrap_or_default() + "\n"
    };
    let standard = PathBuf::from("-");
    let wants_json = arguments.json_out || arguments.output_format.is_some();
    let own = arguments.json.as_ref().or(wants_json.then_some(&standard));
    let forms: [(&str, Option<&PathBuf>, Form); 4] = [
        ("--hlog", arguments.hlog.as_ref(), hlog::write),
        ("--csv", arguments.csv.as_ref(), csv::seconds),
        ("--fortio-json", arguments.fortio_json.as_ref(), fortio::write),
        ("--json", own, json),
    ];
    let mut is_taken = false;
    for (flag, path, form) in forms {
        let Some(path) = path else { continue };
        if path == Path::new("-") {
            output::print(&form(outcome))?;
            is_taken = true;
        } else {
            std::fs::write(path, form(outcome))
                .with_context(|| format!("{flag} {}", path.display()))?;
        }
    }
    if !is_taken {
        return Ok(output::print(&summary::text(outcome))?);
    }
    outcome.invalid_reasons.iter().for_each(|reason| eprintln!("leno: invalid: {reason}"));
    Ok(())
}
