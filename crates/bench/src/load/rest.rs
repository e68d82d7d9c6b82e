//! Loads on demand in the words of fortio's REST interface: `/fortio/rest/run`, `/fortio/rest/status`, `/fortio/rest/stop`.
//!
//! What tools that drive fortio (Flagger among them) send is understood, from the query or from JSON; what comes back is
//! fortio's JSON. Requests are made as [`leno_load::run`] makes them: latency counts from when a request was due.
//! Requests that fortio would silently ignore are rejected. The caller opens the listener.

mod asked;

use crate::load::fortio;
use asked::Asked;
use leno_load::outcome::Outcome;
use leno_load::plan::Plan;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Where it all is.
pub const PREFIX: &str = "/fortio/rest/";
/// Loads at once.
const RUNNING_MAX: usize = 8;
/// Results that are kept for those who did not wait for them.
const KEPT_MAX: usize = 32;

/// What to answer: a status and JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    pub body: Value,
}

impl Reply {
    fn new(status: u16, body: Value) -> Self {
        Self { status, body }
    }

    fn refused(message: impl std::fmt::Display) -> Self {
        Self::new(400, json!({ "error": true, "message": message.to_string() }))
    }
}

/// Loads that run, and the last ones that have ended.
#[derive(Debug, Default)]
pub struct Runs {
    all: Arc<Mutex<BTreeMap<u64, Run>>>,
    last: AtomicU64,
}

#[derive(Debug)]
struct Run {
    url: String,
    halt: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    /// Fortio's JSON, or what went wrong.
    ended: Option<Result<Value, String>>,
}

impl Runs {
    /// Answers one request; `path` without [`PREFIX`].
    pub async fn answer(&self, path: &str, query: &str, body: &[u8]) -> Reply {
        let asked = match Asked::read(query, body) {
            Ok(asked) => asked,
            Err(mistake) => return Reply::refused(mistake),
        };
        match path {
            "run" => self.run(&asked).await,
            "status" => match asked.run_id() {
                Ok(id) => self.status(id),
                Err(mistake) => Reply::refused(mistake),
            },
            "stop" => match asked.run_id() {
                Ok(id) => self.stop(id),
                Err(mistake) => Reply::refused(mistake),
            },
            _ => Reply::new(404, json!({ "error": true, "message": "run, status or stop" })),
        }
    }

    async fn run(&self, asked: &Asked) -> Reply {
        let plan = match asked.plan() {
            Ok(plan) => plan,
            Err(mistake) => return Reply::refused(mistake),
        };
        let (id, ended) = match self.start(plan) {
            Ok(started) => started,
            Err(reply) => return reply,
        };
        if asked.is_async() {
            let body = json!({ "message": "started", "RunID": id, "Count": 1, "started": id });
            return Reply::new(200, body);
        }
        match ended.await {
            Ok(Ok(result)) => Reply::new(200, result),
            Ok(Err(message)) => Reply::refused(message),
            Err(_) => Reply::new(500, json!({ "error": true, "message": "the load panicked" })),
        }
    }

    /// Starts a load in a thread of its own; answers its number, and where its result will come.
    fn start(&self, plan: Plan) -> Result<(u64, oneshot::Receiver<Result<Value, String>>), Reply> {
        let mut all = lock(&self.all);
        if all.values().filter(|run| run.ended.is_none()).count() >= RUNNING_MAX {
            let message = format!("{RUNNING_MAX} loads are running already");
            return Err(Reply::new(503, json!({ "error": true, "message": message })));
        }
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (halt, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let run = Run {
            url: plan.url.to_string(),
            halt: Arc::clone(&halt),
            answered: Arc::clone(&answered),
            ended: None,
        };
        all.insert(id, run);
        drop(all);
        let (tell, ended) = oneshot::channel();
        let all = Arc::clone(&self.all);
        let named = std::thread::Builder::new().name(format!("rest-{id}"));
        let started = named.spawn(move || {
            let outcome = leno_load::run(&plan, |progress| {
                answered.store(progress.counts.completed, Ordering::Relaxed);
                if halt.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            let result = outcome.map_err(|error| format!("{error:#}")).map(|one| result(id, &one));
            let mut all = lock(&all);
            if let Some(run) = all.get_mut(&id) {
                run.ended = Some(result.clone());
            }
            forget(&mut all);
            // Who did not wait asks later.
            let _told = tell.send(result);
        });
        if started.is_err() {
            lock(&self.all).remove(&id);
            let message = "could not start a thread for another load";
            return Err(Reply::new(503, json!({ "error": true, "message": message })));
        }
        Ok((id, ended))
    }

    /// One load, or all of them.
    fn status(&self, id: Option<u64>) -> Reply {
        let all = lock(&self.all);
        let statuses: BTreeMap<String, Value> = all
            .iter()
            .filter(|(known, _)| id.is_none_or(|id| id == **known))
            .map(|(known, run)| (known.to_string(), run.status(*known)))
            .collect();
        Reply::new(200, json!({ "Statuses": statuses }))
    }

    /// Ends one load, or all of them, with what they have until then.
    fn stop(&self, id: Option<u64>) -> Reply {
        let all = lock(&self.all);
        let running = all
            .iter()
            .filter(|(known, run)| run.ended.is_none() && id.is_none_or(|id| id == **known));
        let count = running.map(|(_, run)| run.halt.store(true, Ordering::Relaxed)).count();
        let body = json!({
            "message": "stopping",
            "RunID": id.unwrap_or_default(),
            "Count": count,
            "stopped": count,
        });
        Reply::new(200, body)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        lock(&self.all).values().for_each(|run| run.halt.store(true, Ordering::Relaxed));
    }
}

impl Run {
    fn status(&self, id: u64) -> Value {
        let state = match (&self.ended, self.halt.load(Ordering::Relaxed)) {
            (Some(Ok(_)), _) => "done",
            (Some(Err(_)), _) => "failed",
            (None, true) => "stopping",
            (None, false) => "running",
        };
        let mut status = json!({
            "RunID": id,
            "State": state,
            "URL": self.url,
            "Answered": self.answered.load(Ordering::Relaxed),
        });
        match &self.ended {
            Some(Ok(result)) => status["Result"] = result.clone(),
            Some(Err(message)) => status["message"] = json!(message),
            None => {}
        }
        status
    }
}

/// Fortio's JSON, and why its figures may not be quoted, which fortio has no word for.
fn result(id: u64, outcome: &Outcome) -> Value {
    // It was written here, so it can be read.
    let mut result: Value = serde_json::from_str(&fortio::write(outcome)).unwrap_or_default();
    result["RunID"] = json!(id);
    result["InvalidReasons"] = json!(outcome.invalid_reasons);
    result
}

/// Drops the oldest results beyond those that are kept.
fn forget(all: &mut BTreeMap<u64, Run>) {
    let ended: Vec<u64> =
        all.iter().filter(|(_, run)| run.ended.is_some()).map(|(id, _)| *id).collect();
    for id in &ended[..ended.len().saturating_sub(KEPT_MAX)] {
        all.remove(id);
    }
}

fn lock(all: &Mutex<BTreeMap<u64, Run>>) -> MutexGuard<'_, BTreeMap<u64, Run>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
