//! Flags of the commands that look at a running mesh, on this machine or in a cluster.

use super::home::{ClusterFlags, Scope};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};

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
    #[arg(short = 't', long, visible_alias = "time-window", value_name = "TIME", default_value = "1s", value_parser = seconds)]
    pub(crate) window: f64,
    /// Show hops with the identities of both sides instead, as `leno edges` does
    #[arg(long, conflicts_with = "target")]
    pub(crate) edges: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Logs {
    /// Pod by name, unique prefix of its name, or deploy/NAME; `control` is the control plane
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
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) since: Option<f64>,
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

/// Seconds from `2`, `0.5`, `10s`, `1m`, `2h`.
fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    let number: f64 =
        number.parse().map_err(|_| "use a duration such as 10s, 1m or 0.5".to_owned())?;
    let seconds = number * unit;
    if seconds.is_finite() && seconds > 0.0 {
        Ok(seconds)
    } else {
        Err("the duration must be greater than 0".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("2", Some(2.0)),
            ("0.5", Some(0.5)),
            ("10s", Some(10.0)),
            ("1m", Some(60.0)),
            ("1.5h", Some(5400.0)),
            ("0", None),
            ("-1s", None),
            ("inf", None),
            ("s", None),
            ("1d", None),
            ("", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
