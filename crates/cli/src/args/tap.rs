//! Flags of `leno tap`.

use super::home::{ClusterFlags, Scope};
use clap::{Args as ClapArgs, ValueEnum};
use leno_runtime::{duration, http_status};
use std::time::Duration;

#[derive(Debug, ClapArgs)]
pub(crate) struct Tap {
    /// Whose requests: deploy/web, pod/web-1, ns/shop, or svc/web for the requests of all its clients [default: all selected pods]
    #[arg(value_name = "KIND/NAME", num_args = 0..=2)]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: TapFormat,
    /// End after this number of requests
    #[arg(long, value_name = "REQUESTS")]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) tap: Tap,
}

/// Which requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, ClapArgs)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// Only requests to: svc/api, deploy/api, pod/api-1, ns/shop; `namespace/` may come before the name
    #[arg(long, value_name = "KIND/NAME")]
    pub(crate) to: Option<String>,
    /// Only paths that begin with this
    #[arg(long, value_name = "PREFIX")]
    pub(crate) path: Option<String>,
    /// Only this method
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Only these statuses: 404, 5xx, 500-503
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<String>,
    /// Only requests that took this time or longer: 100ms, 2s
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) slow: Option<Duration>,
    /// Only requests that failed: status 5xx, a failed gRPC status, or an ending that is not complete
    #[arg(long)]
    pub(crate) failed: bool,
    /// Show this request header too; can be repeated; headers that carry secrets are refused
    #[arg(long = "header", value_name = "NAME")]
    pub(crate) headers: Vec<String>,
    /// Limit of requests per second from each proxy; further ones are dropped and counted
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_rate: u32,
}

/// Checked here, so that not every proxy refuses it.
fn status(text: &str) -> Result<String, String> {
    http_status::parse(text).map(|_| text.to_owned())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TapFormat {
    /// One line for each request
    #[default]
    Line,
    /// The same with whole identities, endpoint, route, attempts, time split and trace
    Wide,
    /// One JSON object for each request; docs/tap.md describes it
    Json,
}
