//! The command line. The help text beside each flag is the documentation.

use crate::plan::span::Span;
use crate::plan::step::{Step, Target};
use crate::plan::wait::Wait;
use crate::plan::{Fail, Plan, TcpMode};
use clap::{Args, Parser, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;

/// A service node that scenarios configure: answers, waits, calls others, fails on command.
#[derive(Debug, Parser)]
#[command(name = "leno-worker", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Serves when absent.
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) serve: Serve,
}

/// What else it can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Send requests at a steady rate and print what came back as one line of JSON.
    Client(Client),
}

/// Flags of a serving worker.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Who answers: the value of `x-worker`.
    #[arg(long, default_value = "worker")]
    pub(crate) name: String,
    /// Which replica answers: the value of `x-worker-pod`.
    #[arg(long, env = "POD_NAME")]
    pub(crate) pod: Option<String>,
    /// Address of every port.
    #[arg(long, default_value = "::")]
    pub(crate) address: IpAddr,
    /// Port for HTTP/1, HTTP/2 with prior knowledge and gRPC; 0 chooses one. Repeatable.
    #[arg(long, value_name = "PORT")]
    pub(crate) http: Vec<u16>,
    /// The same as --http, under a name that says what it is for.
    #[arg(long, value_name = "PORT")]
    pub(crate) grpc: Vec<u16>,
    /// Port for TCP, with what it does: echo, banner, sink or source (else what the plan says). Repeatable.
    #[arg(long, value_name = "PORT[=MODE]", value_parser = tcp_port)]
    pub(crate) tcp: Vec<(u16, Option<TcpMode>)>,
    /// Port for UDP: each datagram goes back to where it came from. Repeatable.
    #[arg(long, value_name = "PORT")]
    pub(crate) udp: Vec<u16>,
    /// Port for GET and PUT /plan, PUT /ready, GET /stats and POST /crash.
    #[arg(long, value_name = "PORT")]
    pub(crate) admin: Option<u16>,
    #[command(flatten)]
    pub(crate) plan: Planning,
    /// After SIGTERM: say "not ready" and go on serving for so long before closing the listeners.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    pub(crate) shutdown_wait: Span,
    /// Then: finish open requests within this limit; exit code 1 when it cuts any.
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub(crate) drain_max: Span,
    /// Level, or a list of `target=level`.
    #[arg(long, default_value = "warn")]
    pub(crate) log: String,
}

/// Where the plan comes from; the single flags are for the action of `*`.
#[derive(Debug, Args)]
pub(crate) struct Planning {
    /// YAML or JSON file.
    #[arg(long = "plan", value_name = "FILE", conflicts_with = "plan_json")]
    pub(crate) plan_file: Option<PathBuf>,
    /// The plan itself, YAML or JSON.
    #[arg(long, value_name = "TEXT")]
    pub(crate) plan_json: Option<String>,
    /// Wait before answering.
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Span>,
    /// Call this first. Repeatable: one after the other.
    #[arg(long = "call", value_name = "URL", value_parser = Step::get)]
    pub(crate) calls: Vec<Step>,
    /// Fail so often, from 0 to 1, with 503.
    #[arg(long, value_name = "RATIO")]
    pub(crate) fail_ratio: Option<f64>,
    /// Answer with this status.
    #[arg(long)]
    pub(crate) status: Option<u16>,
    /// Answer with so many bytes.
    #[arg(long, value_name = "BYTES", conflicts_with = "text")]
    pub(crate) body_bytes: Option<u64>,
    /// Answer with this text.
    #[arg(long)]
    pub(crate) text: Option<String>,
}

/// Flags of the load driver.
#[derive(Debug, Args)]
pub(crate) struct Client {
    /// http://, h2c://, grpc:// (with /package.Service/Method), tcp:// or udp://; several are taken in turn.
    #[arg(long = "url", value_name = "URL", required = true, value_parser = target)]
    pub(crate) urls: Vec<(String, Target)>,
    /// Speak gRPC to http:// URLs.
    #[arg(long)]
    pub(crate) grpc: bool,
    /// Requests a second, evenly spread; 0: as fast as the answers come.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) rate: f64,
    /// Stop after this time; without it and --requests: at SIGTERM.
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) duration: Option<Span>,
    /// Stop after so many.
    #[arg(long)]
    pub(crate) requests: Option<u64>,
    /// At most so many at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// Of each request.
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(crate) timeout: Span,
    /// HTTP method.
    #[arg(long, default_value = "GET")]
    pub(crate) method: http::Method,
    /// Send so many bytes.
    #[arg(long, default_value_t = 0)]
    pub(crate) body_bytes: u64,
    /// `name: value`, with every request. Repeatable.
    #[arg(long = "header", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Open a connection for each request.
    #[arg(long)]
    pub(crate) no_keepalive: bool,
    /// Print a line each time this has passed, besides the one at the end.
    #[arg(long, value_name = "TIME")]
    pub(crate) report: Option<Span>,
}

impl Planning {
    /// The plan with the single flags laid over it.
    ///
    /// # Errors
    /// Every mistake in it.
    pub(crate) fn read(&self) -> Result<Plan, Vec<String>> {
        let text = match (&self.plan_file, &self.plan_json) {
            (Some(file), _) => std::fs::read_to_string(file)
                .map_err(|error| vec![format!("{}: {error}", file.display())])?,
            (None, Some(text)) => text.clone(),
            (None, None) => String::new(),
        };
        let mut plan = crate::plan::parse(&text)?;
        let given = self.wait.is_some()
            || !self.calls.is_empty()
            || self.fail_ratio.is_some()
            || self.status.is_some()
            || self.body_bytes.is_some()
            || self.text.is_some();
        if given {
            let action = plan.on.entry("*".to_string()).or_default();
            action.wait = self.wait.map(Wait::Fixed).or_else(|| action.wait.take());
            action.calls.extend(self.calls.iter().cloned());
            if let Some(ratio) = self.fail_ratio {
                action.fail = Some(Fail { ratio, ..action.fail.take().unwrap_or_default() });
            }
            action.answer.status = self.status.unwrap_or(action.answer.status);
            action.answer.bytes = self.body_bytes.or(action.answer.bytes);
            action.answer.text = self.text.clone().or_else(|| action.answer.text.take());
        }
        // Once more, for what the flags have added.
        plan.check()?;
        Ok(plan)
    }
}

fn tcp_port(text: &str) -> Result<(u16, Option<TcpMode>), String> {
    let (port, mode) = match text.split_once('=') {
        Some((port, mode)) => (port, Some(<TcpMode as clap::ValueEnum>::from_str(mode, false)?)),
        None => (text, None),
    };
    Ok((port.parse().map_err(|_| format!("{port:?} is not a port"))?, mode))
}

fn target(text: &str) -> Result<(String, Target), String> {
    Ok((text.to_string(), Target::parse(text)?))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is `name: value`")?;
    let (name, value) = (name.trim().to_string(), value.trim().to_string());
    http::HeaderName::try_from(&name).map_err(|error| error.to_string())?;
    http::HeaderValue::try_from(&value).map_err(|error| error.to_string())?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_laid_over_the_plan() {
        check(&[], "{}");
        check(&["--wait", "5ms"], r#"{"wait":"5ms"}"#);
        check(
            &["--plan-json", "on: {'*': {wait: 1s, answer: {text: a}}}", "--status", "201"],
            r#"{"wait":"1s","status":201,"text":"a"}"#,
        );
        check(&["--fail-ratio", "0.5", "--body-bytes", "9"], r#"{"fail":0.5,"bytes":9}"#);
        check(&["--call", "http://a"], r#"{"calls":[{"url":"http://a"}]}"#);
        check(&["--fail-ratio", "2"], "on \"*\": fail: ratio 2 is not between 0 and 1");
    }

    #[track_caller]
    fn check(flags: &[&str], expected: &str) {
        let arguments = Arguments::parse_from(["leno-worker"].iter().chain(flags));
        let seen = match arguments.serve.plan.read() {
            Ok(plan) => plan.on.get("*").map_or("{}".to_string(), show),
            Err(wrong) => wrong.join("; "),
        };
        assert_eq!(seen, expected);
    }

    /// Only what differs from an empty action.
    fn show(action: &crate::plan::Action) -> String {
        let mut shown = serde_json::Map::new();
        let mut put = |name: &str, value: serde_json::Value| {
            if !value.is_null() {
                shown.insert(name.to_string(), value);
            }
        };
        let answer = &action.answer;
        put("wait", serde_json::to_value(&action.wait).unwrap());
        if !action.calls.is_empty() {
            put("calls", serde_json::to_value(&action.calls).unwrap());
        }
        put("fail", action.fail.as_ref().map(|fail| fail.ratio).into());
        put("status", (answer.status != 200).then_some(answer.status).into());
        put("text", answer.text.clone().into());
        put("bytes", answer.bytes.into());
        let order = ["wait", "calls", "fail", "status", "text", "bytes"];
        let parts =
            order.iter().filter_map(|name| Some(format!("\"{name}\":{}", shown.get(*name)?)));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn ports_with_a_mode() {
        assert_eq!(tcp_port("9000"), Ok((9000, None)));
        assert_eq!(tcp_port("0=banner"), Ok((0, Some(TcpMode::Banner))));
        assert!(tcp_port("x").is_err());
        assert!(tcp_port("1=x").is_err());
    }
}
