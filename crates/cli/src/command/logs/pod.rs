//! Logs as the API server passes them on.

use super::Wanted;
use crate::args::Logs;
use crate::home::ClusterHome;
use crate::output;
use anyhow::bail;
use futures_util::stream::{FuturesUnordered, TryStreamExt};
use leno_kube::cluster::Part;

/// Each log that is followed is a connection to the API server and one to a kubelet.
const FOLLOWED_MAX: usize = 64;

pub(super) fn print(home: &ClusterHome, wanted: &[Wanted], logs: &Logs) -> anyhow::Result<()> {
    if logs.follow && wanted.len() > FOLLOWED_MAX {
        bail!(
            "these are {} logs, and at most {FOLLOWED_MAX} can be followed at once",
            wanted.len()
        );
    }
    if logs.follow {
        output::end_at_interrupt()?;
    }
    home.runtime().block_on(async {
        if logs.follow {
            let all: FuturesUnordered<_> =
                wanted.iter().map(|one| follow(home, one, logs)).collect();
            return all.try_collect().await;
        }
        for one in wanted {
            follow(home, one, logs).await?;
        }
        Ok(())
    })
}

async fn follow(home: &ClusterHome, wanted: &Wanted, logs: &Logs) -> anyhow::Result<()> {
    let part = Part {
        container: wanted.container.clone(),
        follow: logs.follow,
        tail_lines: logs.tail,
        // The server counts whole seconds, at least one.
        since_seconds: logs.since.map(|since| since.as_millis().div_ceil(1000).max(1) as u64),
        previous: logs.previous,
        timestamps: logs.timestamps,
    };
    let line = |line: &str| -> anyhow::Result<()> {
        Ok(output::print(&format!("{}{line}\n", wanted.prefix))?)
    };
    home.cluster().log(&wanted.namespace, &wanted.pod, &part, line).await
}
