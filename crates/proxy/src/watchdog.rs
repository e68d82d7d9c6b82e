//! Data threads that hang: seen by the liveness probe, and by a watchdog that ends the process, so that it is started again.
//!
//! Each data thread [`Heartbeat::beat`]s with its sweep, once a second. The watchdog has a thread of its own. It counts its own
//! looks, not time: a process that was stopped (SIGSTOP, a machine that slept) has not hung.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The watchdog looks so often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A look that comes so much later says that the process did not run, and counts for nothing.
const LOOK_LATE_MAX: Duration = Duration::from_millis(500);
/// After so many looks without a turn of a thread `/live` says so.
const LOOKS_UNTIL_DEAD: u32 = 5;
/// After so many the process is ended.
const LOOKS_MAX: u32 = 10;

/// One thread's sign of life.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<AtomicU64>);

impl Heartbeat {
    /// The thread has made a turn.
    pub fn beat(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// All threads' signs of life, as the liveness probe sees them.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Whether every data thread turns.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.load(Relaxed) < u64::from(LOOKS_UNTIL_DEAD)
    }
}

/// What the watchdog knows of one thread.
#[derive(Debug, Default)]
struct Watched {
    beats: u64,
    looks: u32,
}

impl Watched {
    /// Looks in a row without a turn.
    fn look(&mut self, beats: u64, on_time: bool) -> u32 {
        match (beats == self.beats, on_time) {
            (true, true) => self.looks += 1,
            (true, false) => {}
            (false, _) => *self = Self { beats, looks: 0 },
        }
        self.looks
    }
}

/// Starts the watchdog. `hung` is called once a thread (its number) has made no turn for [`LOOKS_MAX`] looks.
///
/// # Errors
/// The thread cannot be started.
pub fn start(
    threads: Vec<Heartbeat>,
    pulse: Pulse,
    hung: impl Fn(usize) + Send + 'static,
) -> std::io::Result<()> {
    let watch = move || {
        let mut watched: Vec<Watched> = threads.iter().map(|_| Watched::default()).collect();
        loop {
            let began = Instant::now();
            std::thread::sleep(LOOK_INTERVAL);
            let on_time = began.elapsed() < LOOK_INTERVAL + LOOK_LATE_MAX;
            let mut most = 0;
            for (number, (thread, watched)) in threads.iter().zip(&mut watched).enumerate() {
                let looks = watched.look(thread.0.load(Relaxed), on_time);
                most = most.max(looks);
                if looks >= LOOKS_MAX {
                    hung(number);
                }
            }
            pulse.0.store(most.into(), Relaxed);
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(watch).map(drop)
}

/// Ends the process at once: the thread that hangs would not let it end in order.
pub fn abort(number: usize) {
    tracing::error!(
        thread = number,
        "a data thread has made no turn for {LOOKS_MAX} s: the process ends, to be started again; \
         this is a defect of the proxy, please report it"
    );
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_without_a_turn() {
        let mut watched = Watched::default();
        let mut check = |beats, on_time, expected| {
            assert_eq!(watched.look(beats, on_time), expected, "{beats} {on_time}");
        };
        check(1, true, 0);
        check(1, true, 1);
        check(1, true, 2);
        // The process did not run.
        check(1, false, 2);
        check(1, true, 3);
        check(2, true, 0);
        check(2, true, 1);
        check(3, false, 0);
    }

    #[test]
    fn a_thread_that_hangs_is_told_and_one_that_turns_is_not() {
        let (pulse, beating, hanging) =
            (Pulse::default(), Heartbeat::default(), Heartbeat::default());
        let (tell, told) = std::sync::mpsc::channel();
        let threads = vec![beating.clone(), hanging];
        // The test may be over.
        let hung = move |number| {
            let _over = tell.send(number);
        };
        start(threads, pulse.clone(), hung).unwrap();
        let began = Instant::now();
        let first = loop {
            beating.beat();
            match told.recv_timeout(Duration::from_millis(100)) {
                Ok(number) => break number,
                Err(_) => assert!(began.elapsed() < Duration::from_mins(1), "nothing was told"),
            }
        };
        assert_eq!(first, 1);
        assert!(!pulse.is_alive());
    }
}
