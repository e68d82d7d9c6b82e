//! Flags of the commands that look at a running mesh, on this machine or in a cluster.

use super::home::{ClusterFlags, Scope};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use leno_runtime::duration;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table, for people
    #[default]
    Table,
    /// A table with more columns
    Wide,
    /// JSON for programs; docs/cli.md describes it
    Json,
    /// The same as YAML
    Yaml,
    /// Kind and name, one per line
    Name,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Shown {
    #[command(flatten)]
    pub(crate) scope: Scope,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Repeat the output until Ctrl-C
    #[arg(short = 'w', long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Stat {
    /// One row for each object of a kind (deploy, sts, ds, job, rs, po, svc, ns), or for one: deploy/web, or deploy web [default: pods, in both directions]
    #[arg(value_name = "KIND[/NAME]", num_args = 0..=2)]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    /// Length of the measurement: 2, 0.5, 10s, 1m
    #[arg(short = 't', long, visible_alias = "time-window", value_name = "TIME", default_value = "1s", value_parser = window)]
    pub(crate) window: Duration,
    /// Show hops with the identities of both sides instead, as `leno edges` does
    #[arg(long, conflicts_with = "target")]
    pub(crate) edges: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Routes {
    /// The requests to svc/web, or the requests that deploy/web, pod/web-1 or ns/shop sends [default: all selected pods]
    #[arg(value_name = "KIND/NAME", num_args = 0..=2)]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    /// Length of the measurement: 2, 0.5, 10s, 1m
    #[arg(short = 't', long, visible_alias = "time-window", value_name = "TIME", default_value = "1s", value_parser = window)]
    pub(crate) window: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Logs {
    /// Pod by name, unique prefix of its name, or deploy/NAME; `control` is the control plane, `up` is `leno up` itself
    #[arg(required_unless_present = "selector", conflicts_with = "selector")]
    pub(crate) pod: Option<String>,
    #[command(flatten)]
    pub(crate) scope: Scope,
    /// Container [default: in a cluster the proxy, on one machine all]
    #[arg(short = 'c', long)]
    pub(crate) container: Option<String>,
    /// Follow the log
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// The log of the proxy
    #[arg(long, conflicts_with = "container")]
    pub(crate) proxy: bool,
    /// Only the last lines
    #[arg(long, value_name = "LINES")]
    pub(crate) tail: Option<u64>,
    /// Only lines since: 30s, 10m, 1h (in a cluster)
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) since: Option<Duration>,
    /// Names of pod and container before each line
    #[arg(long)]
    pub(crate) prefix: bool,
    /// Time before each line (in a cluster)
    #[arg(long)]
    pub(crate) timestamps: bool,
    /// The log of the container before its last restart (in a cluster)
    #[arg(short = 'p', long)]
    pub(crate) previous: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Diagnostics {
    #[command(subcommand)]
    pub(crate) verb: DiagnosticsVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiagnosticsVerb {
    /// Show the endpoints that the control plane returns for a name: web.default.svc.cluster.local:80
    Endpoints(Endpoints),
    /// Show the policy that the control plane sends to proxies, for a port of a pod (inbound) or of a Service (outbound)
    Policy(Policy),
    /// Print the metrics of proxies, in Prometheus format
    ProxyMetrics(ProxyMetrics),
    /// Print the metrics of the control plane, in Prometheus format
    ControllerMetrics(ControllerMetrics),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Endpoints {
    /// NAME.NAMESPACE.svc.cluster.local:PORT, or IP:PORT
    #[arg(required = true, value_name = "AUTHORITY")]
    pub(crate) authorities: Vec<String>,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Policy {
    /// pod/NAME or deploy/NAME: the inbound policy. svc/NAME, NAME.NAMESPACE.svc.cluster.local or an IP address: the policy of its clients
    pub(crate) target: String,
    /// Port of the pod or Service
    pub(crate) port: u16,
    /// Namespace of the target, if its name has none
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Namespace of the clients [default: the target's]
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) from: Option<String>,
    /// Output format: json, otherwise YAML
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ProxyMetrics {
    /// Pod by name, unique prefix of its name, or deploy/NAME for all its pods [default: all selected pods]
    pub(crate) pod: Option<String>,
    #[command(flatten)]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ControllerMetrics {
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

/// The help shows a number of seconds without a unit, so that stays possible here.
fn window(text: &str) -> Result<Duration, String> {
    let window = duration::parse_or_seconds(text)?;
    if window.is_zero() {
        Err("the duration must be greater than 0".to_owned())
    } else {
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        for (text, milliseconds) in [
            ("2", Some(2000)),
            ("0.5", Some(500)),
            ("1m", Some(60_000)),
            ("0", None),
            ("-1s", None),
        ] {
            assert_eq!(window(text).ok(), milliseconds.map(Duration::from_millis), "{text}");
        }
    }
}
