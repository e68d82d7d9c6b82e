//! Flags of `leno check`.

use super::home::ClusterFlags;
use clap::{Args as ClapArgs, ValueEnum};
use std::time::Duration;

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Findings {
    /// All checks
    #[default]
    Table,
    /// Only warnings and errors
    Short,
    /// JSON for programs; docs/cli.md describes it
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Check whether the mesh can be installed in the cluster
    #[arg(long)]
    pub(crate) pre: bool,
    /// Also check every proxy
    #[arg(long, conflicts_with = "pre")]
    pub(crate) proxy: bool,
    /// Only pods of this namespace
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Findings,
    /// Repeat checks that can still pass, for at most this time: 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = wait)]
    pub(crate) wait: Duration,
    /// Check what this machine needs for `leno up`, also if a cluster is configured
    #[arg(long, conflicts_with_all = ["pre", "proxy", "namespace", "kubeconfig", "context", "user"])]
    pub(crate) machine: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

impl Check {
    /// Whether a flag means a cluster.
    pub(crate) fn means_cluster(&self) -> bool {
        self.pre || self.proxy || self.namespace.is_some() || self.cluster.are_given()
    }
}

/// `30s`, `5m`, or seconds.
fn wait(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let number: u32 =
        number.parse().map_err(|_| format!("{text:?} is not a duration such as 30s or 5m"))?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::wait;
    use std::time::Duration;

    #[test]
    fn times_to_wait() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("30s", Some(30)),
            ("5m", Some(300)),
            ("7", Some(7)),
            ("x", None),
            ("1h", None),
        ] {
            assert_eq!(wait(text).ok(), expected.map(Duration::from_secs), "{text}");
        }
    }
}
