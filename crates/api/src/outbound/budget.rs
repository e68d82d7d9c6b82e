//! Retry budgets of destinations, which linkerd's messages have no field for: a list beside the routes.

use crate::{WireError, parts};
use leno_model::limit::ENDPOINTS_MAX;
use leno_model::retry::RetryBudget;
use leno_model::route::{Backend, BackendKind};
use std::collections::HashMap;
use std::time::Duration;

/// How many retries a destination may get.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RetryBudgetMessage {
    /// As a balancer of the policy has it.
    #[prost(string, tag = "1")]
    pub destination: String,
    /// Retries among so many requests, in percent.
    #[prost(uint32, tag = "2")]
    pub percent: u32,
    /// Both are counted over this time.
    #[prost(uint32, tag = "3")]
    pub interval_millis: u32,
    /// Retries that need no requests.
    #[prost(uint32, tag = "4")]
    pub count: u32,
    /// So many in this time.
    #[prost(uint32, tag = "5")]
    pub count_interval_millis: u32,
}

/// By destination.
pub(super) type Budgets<'a> = HashMap<&'a str, RetryBudget>;

pub(super) fn read(messages: &[RetryBudgetMessage]) -> Result<Budgets<'_>, WireError> {
    parts::at_most(messages.len(), ENDPOINTS_MAX, "own.budgets")?;
    let one = |message: &RetryBudgetMessage| {
        let budget = RetryBudget {
            percent: message.percent,
            interval: Duration::from_millis(u64::from(message.interval_millis)),
            count: message.count,
            count_interval: Duration::from_millis(u64::from(message.count_interval_millis)),
        };
        let wrong =
            |(field, why)| WireError::invalid("own.budgets", format_args!("{field}: {why}"));
        budget.check().map_err(wrong)?;
        Ok(budget)
    };
    messages.iter().map(|message| Ok((message.destination.as_str(), one(message)?))).collect()
}

/// Gives a backend its budget.
pub(super) fn complete(budgets: &Budgets<'_>, mut backend: Backend) -> Backend {
    if let BackendKind::Balance(balance) = &mut backend.kind {
        balance.retry_budget = budgets.get(&*balance.destination).copied();
    }
    backend
}

/// Notes the budget of a backend, once for each destination.
pub(super) fn collect(budgets: &mut Vec<RetryBudgetMessage>, backend: &Backend) {
    let BackendKind::Balance(balance) = &backend.kind else { return };
    let Some(budget) = balance.retry_budget else { return };
    if budgets.iter().any(|known| known.destination == *balance.destination) {
        return;
    }
    let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    budgets.push(RetryBudgetMessage {
        destination: balance.destination.to_string(),
        percent: budget.percent,
        interval_millis: millis(budget.interval),
        count: budget.count,
        count_interval_millis: millis(budget.count_interval),
    });
}
