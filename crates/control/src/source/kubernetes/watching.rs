//! One kind's list and watch, for as long as the process lives.
//!
//! List in pages, watch from the list's version, take a watch that ends up where it ended. Only when the API server says that it
//! forgot the version (410) is everything listed again. What fails is tried again with back-off; nothing that is known is forgotten.

use super::catalogue::Event;
use super::figures::Figures;
use super::group_of;
use super::read::{Failure, Line, Lines, Page, line, page};
use crate::limit::{
    CLUSTER_BODY_BYTES_MAX, CLUSTER_WAIT_MAX, KIND_ABSENT_INTERVAL, LIST_PAGE_OBJECTS, WATCH_LIFE,
    WATCH_SILENCE_MAX,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use leno_runtime::backoff::Backoff;
use leno_runtime::random::Random;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

/// Between tries while the API server is away; it is asked often, as each change is late by this when it is back.
const BACKOFF: Backoff =
    Backoff { min: Duration::from_millis(200), max: Duration::from_secs(5), jitter_ratio: 0.5 };
/// A watch that lived at least so long was a good one, and the next failure is a first failure.
const WATCH_GOOD: Duration = Duration::from_secs(5);
/// Groups of the API server itself. Kinds of other groups are installed, or are not.
const BUILT_IN: [&str; 2] = ["", "discovery.k8s.io"];
/// The kind is taken for absent when it was missing so often in a row: an API server that starts may not know it yet.
const ABSENT_ANSWERS: u32 = 2;
/// A failure that lasts is said again after so many tries.
const FAILURES_SAID_EVERY: u32 = 60;

/// Why a list or watch stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error("the API server does not serve the kind")]
    Absent,
    #[error("the version of the watch has expired")]
    Forgotten,
    #[error("{0}")]
    Failed(String),
    #[error("nobody listens")]
    Unheard,
}

/// Lists and watches one kind.
pub struct Watching {
    client: Client,
    kind: &'static str,
    plural: &'static str,
    out: mpsc::Sender<Event>,
    figures: Arc<Figures>,
    /// Which of the kind's versions is asked for.
    version: usize,
}

impl Watching {
    /// Of a kind in [`super::WATCHED`].
    #[must_use]
    pub fn new(
        client: Client,
        (kind, plural): (&'static str, &'static str),
        out: mpsc::Sender<Event>,
        figures: Arc<Figures>,
    ) -> Self {
        Self { client, kind, plural, out, figures, version: 0 }
    }

    /// Until nobody listens.
    pub async fn run(mut self) {
        let random = Random::from_entropy();
        let (mut failures, mut absent) = (0, 0);
        // The version to go on from; without one, everything is listed.
        let mut from: Option<String> = None;
        loop {
            let began = Instant::now();
            let stopped = match self.list_or_watch(&mut from).await {
                Ok(()) => {
                    (failures, absent) = (0, 0);
                    continue;
                }
                Err(stopped) => stopped,
            };
            if began.elapsed() >= WATCH_GOOD {
                failures = 0;
            }
            match stopped {
                Stopped::Unheard => return,
                Stopped::Forgotten => {
                    debug!(kind = self.kind, "listed again: {stopped}");
                    from = None;
                    // Not at once, so that a server which forgets everything is not asked in a tight loop.
                    sleep(BACKOFF.delay(0, random.unit())).await;
                }
                Stopped::Absent => {
                    from = None;
                    absent += 1;
                    if !self.is_absent(absent).await {
                        return;
                    }
                }
                Stopped::Failed(why) => {
                    self.figures.failed(self.kind);
                    if failures % FAILURES_SAID_EVERY == 0 {
                        warn!(
                            kind = self.kind,
                            "the watch failed; the last known objects stay in use: {why}"
                        );
                    }
                    sleep(BACKOFF.delay(failures, random.unit())).await;
                    failures += 1;
                }
            }
        }
    }

    async fn list_or_watch(&mut self, from: &mut Option<String>) -> Result<(), Stopped> {
        match from {
            None => *from = Some(self.list().await?),
            Some(version) => {
                let began = Instant::now();
                let watched = self.watch(version).await;
                self.figures.restarted(self.kind);
                watched?;
                if began.elapsed() < BACKOFF.min {
                    // A server that ends each watch at once is not asked in a tight loop.
                    sleep(BACKOFF.min).await;
                }
            }
        }
        Ok(())
    }

    /// Another version of the kind is asked for; after the last, the kind does not exist. `false` when nobody listens.
    async fn is_absent(&mut self, answers: u32) -> bool {
        let (_, versions) = group_of(self.kind);
        self.version = (self.version + 1) % versions.len().max(1);
        if self.version != 0 {
            return true;
        }
        let rounds = answers / u32::try_from(versions.len().max(1)).unwrap_or(1);
        if rounds < ABSENT_ANSWERS {
            sleep(BACKOFF.min).await;
            return true;
        }
        if rounds == ABSENT_ANSWERS {
            info!(
                kind = self.kind,
                "the kind does not exist in this cluster; checked again every {KIND_ABSENT_INTERVAL:?}"
            );
        }
        let nothing = Event::Listed { kind: self.kind, objects: Vec::new() };
        if self.out.send(nothing).await.is_err() {
            return false;
        }
        sleep(KIND_ABSENT_INTERVAL).await;
        true
    }

    fn path(&self) -> String {
        let (group, versions) = group_of(self.kind);
        let version = versions.get(self.version).copied().unwrap_or("v1");
        match group {
            "" => format!("/api/{version}/{}", self.plural),
            group => format!("/apis/{group}/{version}/{}", self.plural),
        }
    }

    /// All objects, page by page; answers the version of the list.
    async fn list(&self) -> Result<String, Stopped> {
        let (mut objects, mut next) = (Vec::new(), String::new());
        let mut page_objects = LIST_PAGE_OBJECTS;
        loop {
            let uri = format!("{}?limit={page_objects}&continue={next}", self.path());
            let body = self.ask(uri).await?;
            let whole = Limited::new(body, CLUSTER_BODY_BYTES_MAX).collect();
            let whole = match timeout(CLUSTER_WAIT_MAX, whole).await.map_err(|_| late())? {
                Ok(whole) => whole.to_bytes(),
                // Objects may be of any size, and fewer of them fit.
                Err(error) if error.is::<LengthLimitError>() && page_objects > 1 => {
                    page_objects = (page_objects / 4).max(1);
                    continue;
                }
                Err(error) => return Err(Stopped::Failed(error.to_string())),
            };
            let Page { objects: more, nameless, version, next: following } =
                page(self.kind, &whole).map_err(Stopped::Failed)?;
            self.figures.heard(self.kind, SystemTime::now());
            nameless.iter().for_each(|wrong| {
                warn!(kind = self.kind, "an object of a list was skipped: {wrong}")
            });
            objects.extend(more);
            if following.is_empty() {
                let listed = Event::Listed { kind: self.kind, objects };
                self.out.send(listed).await.map_err(|_| Stopped::Unheard)?;
                self.figures.listed(self.kind);
                return Ok(version);
            }
            // It may hold any character of base64.
            next = following.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        }
    }

    /// What happens from a version on, which moves with it. `Ok` when the API server ended the watch in order, or is asked again because it said
    /// nothing for long: of kinds that do not change, some API servers never say anything.
    async fn watch(&self, version: &mut String) -> Result<(), Stopped> {
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}",
            self.path(),
            WATCH_LIFE.as_secs()
        );
        let mut body = self.ask(uri).await?;
        self.figures.heard(self.kind, SystemTime::now());
        let mut lines = Lines::default();
        loop {
            let frame = timeout(WATCH_SILENCE_MAX, body.frame()).await;
            let Ok(Some(frame)) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| Stopped::Failed(error.to_string()))?;
            let Some(bytes) = frame.data_ref() else { continue };
            self.figures.heard(self.kind, SystemTime::now());
            lines.add(bytes);
            while let Some(line) = lines.pop() {
                self.take(&line, version).await?;
            }
            if lines.waiting() > CLUSTER_BODY_BYTES_MAX {
                return Err(Stopped::Failed(
                    "a line of the watch is longer than the limit".to_owned(),
                ));
            }
        }
    }

    async fn take(&self, text: &[u8], version: &mut String) -> Result<(), Stopped> {
        match line(self.kind, text) {
            Ok(Line::Bookmark(at)) => *version = at,
            Ok(Line::Happened(event, at)) => {
                self.out.send(event).await.map_err(|_| Stopped::Unheard)?;
                *version = at;
            }
            Ok(Line::Error(410, _)) => return Err(Stopped::Forgotten),
            Ok(Line::Error(code, message)) => {
                return Err(Stopped::Failed(format!("{code} {message}")));
            }
            // Everything else of the watch is still good.
            Err(wrong) => warn!(kind = self.kind, "an event of a watch was skipped: {wrong}"),
        }
        Ok(())
    }

    /// The body of a good answer.
    async fn ask(&self, uri: String) -> Result<Body, Stopped> {
        let request = http::Request::get(uri).body(Body::empty());
        let request = request.map_err(|error| Stopped::Failed(error.to_string()))?;
        let answer = timeout(CLUSTER_WAIT_MAX, self.client.send(request)).await;
        let answer = answer.map_err(|_| late())?.map_err(|error| Stopped::Failed(chain(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        let body = Limited::new(answer.into_body(), 1 << 20).collect();
        let body = timeout(CLUSTER_WAIT_MAX, body).await.map_err(|_| late())?;
        let failure: Failure = body
            .ok()
            .and_then(|body| serde_json::from_slice(&body.to_bytes()).ok())
            .unwrap_or_default();
        Err(match status.as_u16() {
            // Built-in kinds always exist: a 404 for one comes from something else, such as a gateway before the API server.
            404 if !BUILT_IN.contains(&group_of(self.kind).0) => Stopped::Absent,
            410 => Stopped::Forgotten,
            code => Stopped::Failed(format!("{code} {}", failure.message)),
        })
    }
}

fn late() -> Stopped {
    Stopped::Failed("no answer in time".to_owned())
}

/// An error with its causes: the first alone says that there is one.
fn chain(error: &dyn std::error::Error) -> String {
    let mut shown = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !shown.contains(&more) {
            shown = format!("{shown}: {more}");
        }
        cause = error.source();
    }
    shown
}

#[cfg(test)]
mod tests;
