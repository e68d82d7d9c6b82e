//! Flags of the commands that look at a running mesh, on this machine or in a cluster.

use super::home::{ClusterFlags, Scope};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// More columns
    Wide,
    /// For programs; docs/cli.md is the contract
    Json,
    /// The same in YAML
    Yaml,
    /// Kind and name, one on each line
    Name,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Shown {
    #[command(flatten)]
    pub(crate) scope: Scope,
    /// How to print
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Print again and again until Ctrl-C
    #[arg(short = 'w', long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Stat {
    /// Rows for each of a kind (deploy, sts, ds, job, rs, po, svc, ns) or for one: deploy/web, or deploy web. Without it, pods in both directions
    #[arg(value_name = "KIND[/NAME]", num_args = 0..=2)]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    /// How long to look: 2, 0.5, 10s, 1m
    #[arg(short = 't', long, visible_alias = "time-window", value_name = "TIME", default_value = "1s", value_parser = seconds)]
    pub(crate) window: f64,
    /// Show hops with the identities of both sides instead
    #[arg(long, conflicts_with = "target")]
    pub(crate) edges: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Logs {
    /// Pod by name, unique beginning of its name, or deploy/NAME; `control` is the control plane
    #[arg(required_unless_present = "selector", conflicts_with = "selector")]
    pub(crate) pod: Option<String>,
    #[command(flatten)]
    pub(crate) scope: Scope,
    /// Which container. Otherwise in a cluster the proxy's, on one machine all
    #[arg(short = 'c', long)]
    pub(crate) container: Option<String>,
    /// Go on with what is written
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// What the proxy wrote
    #[arg(long, conflicts_with = "container")]
    pub(crate) proxy: bool,
    /// The last lines only
    #[arg(long, value_name = "LINES")]
    pub(crate) tail: Option<u64>,
    /// What was written since: 30s, 10m, 1h (cluster)
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) since: Option<f64>,
    /// Pod and container before each line
    #[arg(long)]
    pub(crate) prefix: bool,
    /// The time before each line (cluster)
    #[arg(long)]
    pub(crate) timestamps: bool,
    /// Of the container's last run, before it was started again (cluster)
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
    /// Where the control plane sends requests for a name: web.default.svc.cluster.local:80
    Endpoints(Endpoints),
    /// What the control plane tells proxies: who may reach a pod's port, or how clients treat a Service's port
    Policy(Policy),
    /// What proxies count, as Prometheus reads it
    ProxyMetrics(ProxyMetrics),
    /// What the control plane counts, as Prometheus reads it
    ControllerMetrics(ControllerMetrics),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Endpoints {
    /// NAME.NAMESPACE.svc.cluster.local:PORT, or IP:PORT
    #[arg(required = true, value_name = "AUTHORITY")]
    pub(crate) authorities: Vec<String>,
    /// How to print
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Policy {
    /// pod/NAME or deploy/NAME: who may come in. svc/NAME, NAME.NAMESPACE.svc.cluster.local or an IP address: how clients go there
    pub(crate) target: String,
    /// Port of the pod or Service
    pub(crate) port: u16,
    /// Namespace of the target, where it names none
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Namespace of the clients; that of the target otherwise
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) from: Option<String>,
    /// How to print: json, or YAML for all else
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ProxyMetrics {
    /// Pod by name, unique beginning of its name, or deploy/NAME for all its pods; all pods in scope otherwise
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
    let number: f64 = number.parse().map_err(|_| "a time like 10s, 1m or 0.5".to_owned())?;
    let seconds = number * unit;
    if seconds.is_finite() && seconds > 0.0 {
        Ok(seconds)
    } else {
        Err("more than nothing".to_owned())
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
