//! One thing's stream: open it, follow it, resume it, for as long as anybody wants it.

use super::applied::{Applied, Report};
use super::channels::Place;
use super::desk::Desk;
use super::status::{Counted, Speaking};
use super::topic::{ControlChannel, Topic};
use super::{Shared, Unavailable};
use leno_api::WireError;
use leno_runtime::random::Random;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::{Code, Status as GrpcStatus};

/// How a stream came to its end.
enum Ending {
    /// The control plane ended it in order.
    Ended,
    /// It broke, or could not be opened.
    Failed(String),
    /// The control plane says that there is nothing to say, and asking again at once would not help.
    Refused(GrpcStatus),
}

/// Ready when the thing is not wanted any more.
pub(super) async fn run<K: Topic, C: ControlChannel>(
    key: K::Key,
    (channel, place): (C, Place),
    mut desk: Desk<K::State>,
    shared: Arc<Shared>,
) {
    let _entry = Counted::new(shared.status.clone(), K::figure);
    let random = Random::from_entropy();
    let settings = &shared.settings;
    if let Some(saved) = shared.memory.as_ref().and_then(|memory| memory.recall::<K>(&key)) {
        desk.keep_saved(saved, shared.status.clone());
        // What is known to be gone is not waited for.
        if shared.status.last_failure().is_some() {
            desk.restore();
        }
    }
    // Streams in a row that ended before they were steady.
    let mut unsteady: u32 = 0;
    loop {
        let began = Instant::now();
        let Some(ending) =
            follow::<K, C>(&key, (channel.clone(), &place.applied), &mut desk, &shared).await
        else {
            return left::<K>(&key, &desk, &shared);
        };
        if began.elapsed() >= settings.discovery_steady_min {
            unsteady = 0;
        }
        let refused = matches!(ending, Ending::Refused(_));
        let attempt = match &ending {
            // The first is resumed at once; a control plane that keeps ending streams is not asked in a hot loop.
            Ending::Ended => unsteady.checked_sub(1),
            Ending::Failed(_) | Ending::Refused(_) => Some(unsteady),
        };
        let delay = attempt.map_or(Duration::ZERO, |attempt| {
            settings.discovery_backoff.delay(attempt, random.unit())
        });
        unsteady = unsteady.saturating_add(1);
        note::<K>(&key, ending, &mut desk, &shared);
        tokio::select! {
            () = desk.attend(refused) => return left::<K>(&key, &desk, &shared),
            () = sleep(delay) => {}
        }
    }
}

/// The thing is not wanted any more. What was never used stays in the snapshot that it came from.
fn left<K: Topic>(key: &K::Key, desk: &Desk<K::State>, shared: &Shared) {
    if let Some(memory) = shared.memory.as_ref().filter(|_| desk.current().is_some()) {
        memory.forget::<K>(key);
    }
}

/// Counts and logs how a stream ended; an existing state does not change.
fn note<K: Topic>(key: &K::Key, ending: Ending, desk: &mut Desk<K::State>, shared: &Shared) {
    let awaited = K::awaited(key);
    if !matches!(ending, Ending::Ended) {
        desk.restore();
    }
    match ending {
        Ending::Ended => {
            shared.status.ended.fetch_add(1, Relaxed);
            tracing::debug!(awaited, "the control plane ended a stream");
        }
        Ending::Failed(failure) => {
            tracing::debug!(awaited, failure, "a stream of the control plane failed");
            shared.status.failed(&failure);
        }
        Ending::Refused(status) => {
            shared.status.refusals.fetch_add(1, Relaxed);
            let (code, message) = (status.code(), Arc::<str>::from(status.message()));
            tracing::debug!(
                awaited,
                ?code,
                message = &*message,
                "the control plane rejected a request"
            );
            desk.refuse(Unavailable::Refused { awaited, code, message });
        }
    }
}

/// Follows one stream to its end; `None` when the thing is not wanted any more.
async fn follow<K: Topic, C: ControlChannel>(
    key: &K::Key,
    (channel, applied): (C, &Applied),
    desk: &mut Desk<K::State>,
    shared: &Arc<Shared>,
) -> Option<Ending> {
    let first_by = Instant::now() + shared.settings.discovery_first_message_max;
    let silent =
        || Ending::Failed("a stream of the control plane sent no first message in time".into());
    let opened = tokio::select! {
        () = desk.attend(false) => return None,
        () = sleep_until(first_by) => return Some(silent()),
        opened = K::open(key.clone(), shared.workload.clone(), channel) => match opened {
            Ok(opened) => opened,
            Err(status) => return Some(Ending::of(status)),
        },
    };
    let mut stream = opened.messages;
    let mut report = opened.stream.map(|id| Report::new(applied, id, K::HAS_CHANGES));
    let mut speaking: Option<Speaking> = None;
    // Whether the state is from this stream: only then is a message a change to it.
    let mut ours = false;
    let mut unserved = Vec::new();
    loop {
        let message = tokio::select! {
            () = desk.attend(speaking.is_some()) => return None,
            () = sleep_until(first_by), if speaking.is_none() => return Some(silent()),
            message = stream.message() => match message {
                Ok(Some(message)) => message,
                Ok(None) => return Some(Ending::Ended),
                Err(status) => return Some(Ending::of(status)),
            },
        };
        speaking.get_or_insert_with(|| Speaking::new(shared.status.clone()));
        let current = desk.current().filter(|_| ours);
        let read = K::read(&message, current.as_deref());
        let is_whole = read.as_ref().is_ok_and(|read| read.refused.is_empty());
        match read {
            Ok(read) => {
                ours = true;
                shared.status.updates.fetch_add(1, Relaxed);
                note_refused::<K>(key, &read.refused, shared);
                if read.unserved != unserved {
                    unserved = read.unserved;
                    let what = unserved.join(", ");
                    tracing::info!(
                        awaited = K::awaited(key),
                        what,
                        "a route has a part that this proxy does not support; it has no effect"
                    );
                }
                desk.publish(read.state);
                if let (Some(memory), Some(state)) = (&shared.memory, desk.current()) {
                    memory.learn::<K>(key, state);
                }
            }
            Err(error) => malformed::<K>(key, error, desk, shared),
        }
        // Not before: all data threads share the state that was just published.
        if let Some(report) = &mut report {
            report.applied(is_whole);
        }
    }
}

fn note_refused<K: Topic>(key: &K::Key, refused: &[String], shared: &Shared) {
    let Some(first) = refused.first() else { return };
    K::refused(&shared.status).fetch_add(refused.len() as u64, Relaxed);
    let (awaited, count) = (K::awaited(key), refused.len());
    tracing::warn!(
        awaited,
        count,
        first,
        "parts of an answer of the control plane are not valid and were skipped"
    );
}

fn malformed<K: Topic>(key: &K::Key, error: WireError, desk: &mut Desk<K::State>, shared: &Shared) {
    shared.status.malformed.fetch_add(1, Relaxed);
    let awaited = K::awaited(key);
    tracing::warn!(awaited, %error, "a message of the control plane is not valid; the previous configuration stays in use");
    desk.refuse(Unavailable::Malformed { awaited, error });
}

impl Ending {
    /// Which failures last: the control plane has understood us and has no answer.
    fn of(status: GrpcStatus) -> Self {
        match status.code() {
            Code::NotFound
            | Code::InvalidArgument
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented => Self::Refused(status),
            code => Self::Failed(format!("{code:?}: {}", status.message())),
        }
    }
}
