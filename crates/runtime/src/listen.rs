//! The accept loop of every listener, and which connections stay open when there are too many.
//!
//! The loop accepts first and decides then: a permit that is taken before `accept` lets strangers hold a listener shut.
//! [`decide`] is the decision, without clock and sockets:
//!
//! - No source address has more than `source_max` connections. At its share, its own longest idle connection is closed.
//! - From `evict_from` connections on, each newcomer closes the connection that has been idle longest.
//! - Strangers take at most `strangers_max` places. The rest is for [`Class::Trusted`]: loopback, health probes, and peers
//!   that have shown an identity ([`Place::trust`]).
//! - A connection that is not idle is never closed here. Where no connection is idle, the newcomer is refused.
//!
//! A connection is idle from `accept` until [`Place::busy`], so one that sends no request is closed first.
//! Not a time limit: [`Admission::sweep`] closes old idle connections, and waits within a connection are its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Pause after a failed accept: without descriptors or memory, only connections that end help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// So many connections are compared for one newcomer, each time the next ones: a full listener stays cheap.
const COMPARED_MAX: usize = 64;

/// Limits of one listener, or of several that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections.
    pub connections_max: usize,
    /// From so many open connections on, a newcomer closes the one that has been idle longest.
    pub evict_from: usize,
    /// Open connections of one source address that is not trusted.
    pub source_max: usize,
    /// Open connections of all sources that are not trusted.
    pub strangers_max: usize,
}

impl Limits {
    /// A quarter for each source, an eighth reserved for the trusted, and no eviction below the limit.
    #[must_use]
    pub fn of(connections_max: usize) -> Self {
        let max = connections_max.max(1);
        Self {
            connections_max: max,
            evict_from: max,
            source_max: max.div_ceil(4),
            strangers_max: max - max / 8,
        }
    }

    /// The same, with eviction from 80 % of the limit on: a data port closes idle connections while there is still room.
    #[must_use]
    pub fn with_early_eviction(self) -> Self {
        Self { evict_from: (self.connections_max * 4).div_ceil(5), ..self }
    }
}

/// What a source is entitled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Anybody.
    Stranger,
    /// Has no share of its own to keep to, and may take the reserved places.
    Trusted,
}

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its source has its share, and none of its connections is idle.
    Source,
    /// No place is left, and no connection is idle.
    Full,
}

/// What happened to somebody else's connection, for metrics and logs.
#[derive(Debug)]
pub enum Notice<'a> {
    /// An idle connection of this source was closed for a newcomer.
    Evicted(IpAddr),
    /// A newcomer of this source was closed at once.
    Refused(IpAddr, Refused),
    /// The listener could not accept.
    Failed(&'a io::Error),
}

/// How full it is, as a newcomer finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open connections.
    pub open: usize,
    /// Those of sources that are not trusted.
    pub strangers: usize,
    /// Those of the newcomer's source, trusted ones aside.
    pub of_source: usize,
}

/// An open connection, as far as it matters to a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where it comes from.
    pub source: IpAddr,
    /// Whether it keeps a share.
    pub class: Class,
    /// Since when it is idle, on any clock; `None` while it is not.
    pub idle_since: Option<u64>,
}

/// What becomes of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<K> {
    /// The newcomer is accepted, and nothing is closed.
    Enter,
    /// It enters, and this connection is closed.
    Replace(K),
    /// It is closed.
    Refuse(Refused),
}

/// What becomes of a newcomer from this source.
pub fn decide<K>(
    limits: &Limits,
    counts: Counts,
    (source, class): (IpAddr, Class),
    candidates: impl FnOnce() -> Vec<(K, Candidate)>,
) -> Verdict<K> {
    let stranger = class == Class::Stranger;
    let at_share = stranger && counts.of_source >= limits.source_max;
    let no_strangers = stranger && counts.strangers >= limits.strangers_max;
    let full = counts.open >= limits.connections_max;
    if !at_share && !no_strangers && counts.open < limits.evict_from {
        return Verdict::Enter;
    }
    let may_be_closed = |candidate: &Candidate| match candidate.class {
        Class::Stranger => !at_share || candidate.source == source,
        // The reserved places stay theirs; only a listener that is full to the last place takes one that is idle.
        Class::Trusted => full && !at_share && !no_strangers,
    };
    let idle = candidates()
        .into_iter()
        .filter(|(_, candidate)| may_be_closed(candidate))
        .filter_map(|(key, held)| Some((held.class == Class::Trusted, held.idle_since?, key)))
        .min_by_key(|(trusted, since, _)| (*trusted, *since));
    match idle {
        Some((_, _, key)) => Verdict::Replace(key),
        None if at_share => Verdict::Refuse(Refused::Source),
        None if full || no_strangers => Verdict::Refuse(Refused::Full),
        None => Verdict::Enter,
    }
}

/// Accepts until it is dropped. `serve` spawns a task for the connection, which holds the place to its end.
pub async fn run(
    listener: TcpListener,
    admission: Admission,
    class: impl Fn(IpAddr) -> Class,
    notice: impl Fn(Notice<'_>),
    mut serve: impl FnMut(TcpStream, SocketAddr, Place) -> AbortHandle,
) -> Infallible {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                notice(Notice::Failed(&error));
                admission.relieve().into_iter().for_each(|source| notice(Notice::Evicted(source)));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let source = peer.ip().to_canonical();
        match admission.enter(source, class(source), Instant::now()) {
            Ok((place, evicted)) => {
                evicted.into_iter().for_each(|source| notice(Notice::Evicted(source)));
                let held = place.held.clone();
                let task = serve(stream, peer, place);
                // Set once: this loop alone knows the task.
                let _first = held.task.set(task);
            }
            Err(reason) => notice(Notice::Refused(source, reason)),
        }
    }
}

/// Who is inside of one listener, or of several.
#[derive(Clone)]
pub struct Admission(Arc<Shared>);

struct Shared {
    limits: Limits,
    began: Instant,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    held: Vec<Arc<Held>>,
    strangers: usize,
    of_source: HashMap<IpAddr, usize>,
    /// Where the next comparison begins.
    hand: usize,
    /// The most open connections since [`Admission::take_most`].
    most: usize,
}

/// One open connection.
struct Held {
    source: IpAddr,
    trusted: AtomicBool,
    /// Milliseconds after the beginning, plus one; 0 while it is not idle.
    idle_since: AtomicU64,
    /// Its index in the table; `GONE` when it has left. Changes only under the table's lock.
    index: AtomicU64,
    task: OnceLock<AbortHandle>,
}

const GONE: u64 = u64::MAX;

/// A place for one connection. It is free again when this is dropped.
pub struct Place {
    shared: Arc<Shared>,
    held: Arc<Held>,
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("source", &self.held.source).finish_non_exhaustive()
    }
}

impl Admission {
    /// Nobody is inside.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let table = Mutex::default();
        Self(Arc::new(Shared { limits, began: Instant::now(), table }))
    }

    /// Open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.table().held.len()
    }

    /// The most connections that were open at once since the last call: a short flood may come and go in between.
    #[must_use]
    pub fn take_most(&self) -> usize {
        let mut table = self.0.table();
        let open = table.held.len();
        std::mem::replace(&mut table.most, open)
    }

    /// A place for a newcomer, and the source of the connection that was closed for it.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn enter(
        &self,
        source: IpAddr,
        class: Class,
        now: Instant,
    ) -> Result<(Place, Option<IpAddr>), Refused> {
        let mut table = self.0.table();
        let counts = Counts {
            open: table.held.len(),
            strangers: table.strangers,
            of_source: table.of_source.get(&source).copied().unwrap_or(0),
        };
        let candidates = || table.next_candidates();
        let evicted = match decide(&self.0.limits, counts, (source, class), candidates) {
            Verdict::Refuse(reason) => return Err(reason),
            Verdict::Enter => None,
            Verdict::Replace(index) => table.close(index),
        };
        let held = Arc::new(Held {
            source,
            trusted: AtomicBool::new(class == Class::Trusted),
            idle_since: AtomicU64::new(self.0.stamp(now)),
            index: AtomicU64::new(table.held.len() as u64),
            task: OnceLock::new(),
        });
        table.held.push(held.clone());
        table.most = table.most.max(table.held.len());
        if class == Class::Stranger {
            table.strangers += 1;
            *table.of_source.entry(source).or_default() += 1;
        }
        Ok((Place { shared: self.0.clone(), held }, evicted))
    }

    /// Closes the connections that have been idle for longer than this; answers how many.
    pub fn sweep(&self, now: Instant, idle_max: Duration) -> usize {
        let Some(latest) = now.checked_sub(idle_max) else { return 0 };
        let latest = self.0.stamp(latest);
        let mut table = self.0.table();
        let old = |held: &Held| (1..latest).contains(&held.idle_since.load(Relaxed));
        let mut closed = 0;
        // From the end: closing one moves the last one to its place.
        for index in (0..table.held.len()).rev() {
            if old(&table.held[index]) {
                table.close(index);
                closed += 1;
            }
        }
        closed
    }

    /// Closes the connection that has been idle longest, of those that are next in turn: the process has no descriptors left.
    fn relieve(&self) -> Option<IpAddr> {
        let mut table = self.0.table();
        let idle = table
            .next_candidates()
            .into_iter()
            .filter_map(|(index, held)| {
                Some((held.class == Class::Trusted, held.idle_since?, index))
            })
            .min()?;
        table.close(idle.2)
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.began).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX - 1) + 1
    }
}

impl Table {
    /// Up to [`COMPARED_MAX`] connections, from where the last comparison stopped.
    fn next_candidates(&mut self) -> Vec<(usize, Candidate)> {
        let (count, start) = (self.held.len(), self.hand);
        let compared = count.min(COMPARED_MAX);
        self.hand = if count == 0 { 0 } else { (start + compared) % count };
        (0..compared)
            .map(|step| (start + step) % count)
            .map(|index| (index, self.held[index].candidate()))
            .collect()
    }

    /// Ends its task, and takes it out at once: the task may need a moment to end.
    fn close(&mut self, index: usize) -> Option<IpAddr> {
        let held = self.held.get(index)?.clone();
        self.remove(&held);
        if let Some(task) = held.task.get() {
            task.abort();
        }
        Some(held.source)
    }

    fn remove(&mut self, held: &Held) {
        let index = held.index.swap(GONE, Relaxed);
        if index == GONE {
            return;
        }
        let index = index as usize;
        self.held.swap_remove(index);
        if let Some(moved) = self.held.get(index) {
            moved.index.store(index as u64, Relaxed);
        }
        if !held.trusted.load(Relaxed) {
            self.forget_stranger(held.source);
        }
    }

    fn forget_stranger(&mut self, source: IpAddr) {
        self.strangers -= 1;
        if let Some(count) = self.of_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&source);
            }
        }
    }
}

impl Held {
    fn candidate(&self) -> Candidate {
        let class = match self.trusted.load(Relaxed) {
            true => Class::Trusted,
            false => Class::Stranger,
        };
        // Without a task it cannot be closed yet.
        let since = self.idle_since.load(Relaxed);
        let idle_since = (since > 0 && self.task.get().is_some()).then_some(since);
        Candidate { source: self.source, class, idle_since }
    }
}

impl Place {
    /// Idle from now on: it may be closed for a newcomer.
    pub fn idle(&self, now: Instant) {
        self.held.idle_since.store(self.shared.stamp(now), Relaxed);
    }

    /// The connection is in use: eviction passes over it.
    pub fn busy(&self) {
        self.held.idle_since.store(0, Relaxed);
    }

    /// Its peer has shown an identity: it leaves the share of its source.
    pub fn trust(&self) {
        let mut table = self.shared.table();
        let inside = self.held.index.load(Relaxed) != GONE;
        if inside && !self.held.trusted.swap(true, Relaxed) {
            table.forget_stranger(self.held.source);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.table().remove(&self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is inside: `a1` is an idle connection of source `a` since 1, `A1` the same of a trusted one, `a-` one in use.
    #[track_caller]
    fn check(newcomer: &str, inside: &str, expected: &str) {
        // 8 places: 2 for each source, 7 for strangers, and idle ones are closed from 6 on.
        let limits = Limits { evict_from: 6, ..Limits::of(8) };
        let read = |word: &str| {
            let (name, since) = word.split_at(1);
            let class = match name.chars().all(char::is_uppercase) {
                true => Class::Trusted,
                false => Class::Stranger,
            };
            let last = name.to_lowercase().as_bytes()[0];
            (IpAddr::from([10, 0, 0, last]), class, since.parse().ok())
        };
        let inside: Vec<_> = inside.split_whitespace().map(|word| (word, read(word))).collect();
        let (source, class, _) = read(newcomer);
        let strangers = |of: Option<IpAddr>| {
            let counted = |known: &IpAddr| of.is_none_or(|of| of == *known);
            inside.iter().filter(|(_, (s, c, _))| *c == Class::Stranger && counted(s)).count()
        };
        let counts = Counts {
            open: inside.len(),
            strangers: strangers(None),
            of_source: strangers(Some(source)),
        };
        let candidate = |(source, class, idle_since)| Candidate { source, class, idle_since };
        let candidates = || inside.iter().map(|(word, held)| (*word, candidate(*held))).collect();
        let verdict = match decide(&limits, counts, (source, class), candidates) {
            Verdict::Enter => "enter".to_owned(),
            Verdict::Replace(word) => format!("close {word}"),
            Verdict::Refuse(reason) => format!("{reason:?}"),
        };
        assert_eq!(verdict, expected, "{newcomer} to {inside:?}");
    }

    #[test]
    fn who_enters() {
        check("a", "", "enter");
        check("a", "a1", "enter");
        // A source at its share.
        check("a", "a2 a1 b0", "close a1");
        check("a", "a2 a- b0", "close a2");
        check("a", "a- a- b0", "Source");
        check("A", "A- A- b0", "enter");
        // From `evict_from` on.
        check("x", "a1 a2 b3 b4 c5", "enter");
        check("x", "a1 a2 b3 b4 c5 c0", "close c0");
        check("X", "a1 a2 b3 b4 c5 c0", "close c0");
        check("x", "a- a- b- b- c- c-", "enter");
        // Those that are trusted give way last, and to nobody who is not, where strangers have their part.
        check("x", "A0 A0 B0 b4 c5 c6", "close b4");
        check("x", "A0 A1 B2 b- c- c-", "enter");
        check("x", "A0 A1 B2 B3 C4 C5 D6 D7", "close A0");
        check("X", "A0 A1 B- B- C- C- D- D-", "close A0");
        check("x", "a- a- b- b- c- c- d- D0", "Full");
        check("X", "a- a- b- b- c- c- d- D0", "close D0");
        check("X", "a- a- b- b- c- c- d-", "enter");
        check("x", "a- a- b- b- c- c- d-", "Full");
        check("X", "a- a- b- b- c- c- d- D-", "Full");
    }

    #[test]
    fn limits_of_small_listeners() {
        let check = |max, expected| {
            let Limits { connections_max, evict_from, source_max, strangers_max } =
                Limits::of(max).with_early_eviction();
            assert_eq!((connections_max, evict_from, source_max, strangers_max), expected, "{max}");
        };
        check(0, (1, 1, 1, 1));
        check(2, (2, 2, 1, 2));
        check(20, (20, 16, 5, 18));
        check(20_000, (20_000, 16_000, 5_000, 17_500));
    }

    #[tokio::test]
    async fn a_crowd_of_one_source_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let admission = Admission::new(Limits::of(8));
        let (told, mut served) = tokio::sync::mpsc::channel(64);
        let (closed, mut evicted) = tokio::sync::mpsc::channel(64);
        let accepting = run(
            listener,
            admission.clone(),
            |_| Class::Stranger,
            move |notice| {
                assert!(matches!(notice, Notice::Evicted(_)), "{notice:?}");
                closed.try_send(()).unwrap();
            },
            move |stream, _, place| {
                let told = told.clone();
                crate::tasks::spawn("test", async move {
                    told.send(()).await.unwrap();
                    std::future::pending::<()>().await;
                    drop((stream, place));
                })
                .abort_handle()
            },
        );
        let accepting = crate::tasks::spawn("accept", async move { match accepting.await {} });
        let mut crowd = Vec::new();
        for _ in 0..10 {
            crowd.push(TcpStream::connect(address).await.unwrap());
            served.recv().await.unwrap();
        }
        for _ in 0..8 {
            evicted.recv().await.unwrap();
        }
        assert_eq!(admission.open(), 2, "its share");
        let mut byte = [0];
        use tokio::io::AsyncReadExt as _;
        assert_eq!(crowd[0].read(&mut byte).await.unwrap(), 0, "the first was closed");
        accepting.abort();
    }

    #[test]
    fn places_that_are_left_are_free() {
        let admission = Admission::new(Limits::of(4));
        let now = Instant::now();
        let source = |last| IpAddr::from([10, 0, 0, last]);
        let enter = |last| admission.enter(source(last), Class::Stranger, now);
        let (first, _) = enter(1).unwrap();
        assert_eq!(enter(1).err(), Some(Refused::Source), "a place without a task is not closed");
        first.trust();
        first.trust();
        let (second, _) = enter(1).unwrap();
        drop(first);
        assert_eq!(admission.open(), 1);
        drop(second);
        assert_eq!(admission.open(), 0);
        assert_eq!((admission.take_most(), admission.take_most()), (2, 0));
        let table = admission.0.table();
        assert_eq!((table.strangers, table.of_source.len()), (0, 0));
    }
}
