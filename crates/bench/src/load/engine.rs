//! Threads that bring schedule, client and recorder together.

use crate::load::outcome::Outcome;
use crate::load::plan::Plan;
use crate::load::progress::Progress;
use std::ops::ControlFlow;

pub(crate) fn run(
    _plan: &Plan,
    _observer: impl FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> anyhow::Result<Outcome> {
    anyhow::bail!("the load engine is not built yet")
}
