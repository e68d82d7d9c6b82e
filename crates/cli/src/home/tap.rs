//! Lines of several taps at once, on the calling thread.

use super::{Member, TapLine};
use anyhow::ensure;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Duration;

/// What the taps of all proxies share.
pub(super) struct Shared<'a, 'b> {
    line: RefCell<&'a mut TapLine<'b>>,
    outcome: RefCell<Option<anyhow::Result<()>>>,
}

impl<'a, 'b> Shared<'a, 'b> {
    pub(super) fn new(line: &'a mut TapLine<'b>) -> Self {
        Self { line: RefCell::new(line), outcome: RefCell::new(None) }
    }

    /// Takes a line of this proxy, and answers whether to go on.
    pub(super) fn line(&self, member: &Member, text: &str) -> bool {
        let ended = match (self.line.borrow_mut())(member, text) {
            Ok(ControlFlow::Continue(())) => return true,
            Ok(ControlFlow::Break(())) => Ok(()),
            Err(error) => Err(error),
        };
        self.outcome.replace(Some(ended));
        false
    }

    /// Runs the taps until no more lines are wanted, all have ended, or the time is over.
    pub(super) async fn run<'m, E: std::fmt::Display>(
        &self,
        taps: impl Iterator<Item = (&'m Member, impl Future<Output = Result<(), E>>)>,
        time: Option<Duration>,
    ) -> anyhow::Result<()> {
        match time {
            Some(time) => tokio::time::timeout(time, self.run_all(taps)).await.unwrap_or(Ok(())),
            None => self.run_all(taps).await,
        }
    }

    async fn run_all<'m, E: std::fmt::Display>(
        &self,
        taps: impl Iterator<Item = (&'m Member, impl Future<Output = Result<(), E>>)>,
    ) -> anyhow::Result<()> {
        let named = taps.map(|(member, tap)| async move { (member, tap.await) });
        let mut running: FuturesUnordered<_> = named.collect();
        let (all, mut failed) = (running.len(), 0);
        while let Some((member, ended)) = running.next().await {
            if let Some(outcome) = self.outcome.take() {
                return outcome;
            }
            if let Err(error) = ended {
                failed += 1;
                eprintln!("leno: {}/{}: {error}", member.namespace, member.name);
            }
        }
        ensure!(failed < all, "none of {all} proxies could be tapped");
        Ok(())
    }
}
