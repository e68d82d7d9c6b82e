//! What is done to the topology while it is measured. Pure: who does it is [`crate::chaos`].

use crate::scenario::reader::{Fields, Node};
use serde_json::Value;
use std::time::Duration;

/// One line of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// First time, since the measured phase began.
    pub at: Duration,
    /// Again after so long, up to the end of the phase or `until`.
    pub every: Option<Duration>,
    /// Not after this.
    pub until: Option<Duration>,
    /// What is done.
    pub action: Action,
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A signal to the application of so many pods of a workload, the lowest names first; pods that a line of the
    /// timeline has signalled before come last.
    Signal {
        /// `kill`, `stop` or `continue`.
        kind: &'static str,
        /// Which workload.
        workload: String,
        /// How many pods.
        count: usize,
        /// The signal's number.
        signal: i32,
    },
    /// A new plan for the worker in every pod of a workload, over REST.
    Set {
        /// Which workload.
        workload: String,
        /// The plan, as `PUT /plan` takes it.
        plan: Value,
    },
    /// The control plane ends and starts again.
    RestartControl,
    /// Delay and loss at the network interface of every pod of a workload; zeros take them away.
    Netem {
        /// Which workload.
        workload: String,
        /// Added delay in milliseconds.
        delay_ms: f64,
        /// Lost packets, 0 to 1.
        loss_share: f64,
    },
}

/// The word for each action.
pub(crate) const KINDS: [&str; 6] = ["kill", "stop", "continue", "set", "control_plane", "netem"];

impl Action {
    /// The word for it in results.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Signal { kind, .. } => kind,
            Self::Set { .. } => "set",
            Self::RestartControl => "control_plane",
            Self::Netem { .. } => "netem",
        }
    }

    /// The workload it is done to; empty for the control plane.
    #[must_use]
    pub fn workload(&self) -> &str {
        match self {
            Self::Signal { workload, .. }
            | Self::Set { workload, .. }
            | Self::Netem { workload, .. } => workload,
            Self::RestartControl => "",
        }
    }
}

/// Signals that a file may name.
const SIGNALS: [(&str, i32); 4] = [("KILL", KILL), ("TERM", 15), ("INT", 2), ("QUIT", 3)];
const KILL: i32 = 9;
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

impl Entry {
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        let fields = node.fields(&["at", "every", "start", "until", "do"]);
        let time = |name| fields.get(name).and_then(|node| node.duration());
        let (at, every, start) = (time("at"), time("every"), time("start"));
        match (fields.get("at").is_some(), fields.get("every").is_some()) {
            (true, true) => fields.wrong("at and every: one of them (every has start)"),
            (false, false) => fields.wrong("at or every is missing"),
            (true, false) if fields.get("start").is_some() => fields.wrong("start is for every"),
            _ => {}
        }
        if every.is_some_and(|every| every.is_zero()) {
            fields.wrong("every: 0");
        }
        let until = time("until");
        if fields.get("at").is_some() && until.is_some() {
            fields.wrong("until is for every");
        }
        // At zero where it could not be read: no rule objects to that.
        let unread = ["at", "every", "start"].iter().any(|name| fields.is_wrong_in(name));
        let begin = if unread { None } else { at.or(start).or(every) };
        let at = begin.unwrap_or_default();
        if until.is_some_and(|until| until < at) {
            fields.wrong("until is before start");
        }
        let action = fields.needed("do").and_then(|node| action(&node))?;
        Some(Self { at, every, until, action })
    }
}

/// None where it is not known what is done, or to what; the rest of it hides neither.
fn action(node: &Node<'_>) -> Option<Action> {
    let fields = node.fields(&KINDS);
    let named: Vec<&str> = KINDS.into_iter().filter(|name| fields.get(name).is_some()).collect();
    let [name] = named.as_slice() else {
        fields.wrong(format!("exactly one of {}", KINDS.join(", ")));
        return None;
    };
    let inner = fields.get(name)?;
    match *name {
        "kill" => {
            let fields = inner.fields(&["workload", "count", "signal"]);
            let signal = fields.get("signal").and_then(|node| node.one_of(&SIGNALS));
            signal_of("kill", &fields, signal.unwrap_or(KILL))
        }
        "stop" => signal_of("stop", &inner.fields(&["workload", "count"]), STOP),
        "continue" => signal_of("continue", &inner.fields(&["workload", "count"]), CONTINUE),
        "set" => {
            let fields = inner.fields(&["workload", "plan"]);
            let plan = fields.needed("plan").map(|node| node.value().clone()).unwrap_or_default();
            Some(Action::Set { workload: workload(&fields)?, plan })
        }
        "control_plane" => {
            inner.one_of(&[("restart", ())]);
            Some(Action::RestartControl)
        }
        _ => netem(&inner),
    }
}

fn netem(node: &Node<'_>) -> Option<Action> {
    let fields = node.fields(&["workload", "delay", "loss"]);
    let delay = fields.get("delay").and_then(|node| node.duration()).unwrap_or_default();
    let loss = fields.get("loss").and_then(|node| node.share()).unwrap_or_default();
    if loss > 1.0 {
        fields.wrong("loss: the share must be at most 1");
    }
    Some(Action::Netem {
        workload: workload(&fields)?,
        delay_ms: delay.as_secs_f64() * 1000.0,
        loss_share: loss,
    })
}

fn signal_of(kind: &'static str, fields: &Fields<'_>, signal: i32) -> Option<Action> {
    let count = fields.get("count").and_then(|node| node.count(1, 1000)).unwrap_or(1) as usize;
    Some(Action::Signal { kind, workload: workload(fields)?, count, signal })
}

fn workload(fields: &Fields<'_>) -> Option<String> {
    fields.needed("workload").and_then(|node| node.text())
}

/// Every action of a timeline with its moment, in order, up to the end of a phase of this length.
#[must_use]
pub fn moments(entries: &[Entry], length: Duration) -> Vec<(Duration, Action)> {
    let mut moments = Vec::new();
    for entry in entries {
        let end = entry.until.map_or(length, |until| until.min(length));
        let mut at = entry.at;
        while at < end || (at == entry.at && at <= end) {
            moments.push((at, entry.action.clone()));
            match entry.every {
                Some(every) => at += every,
                None => break,
            }
        }
    }
    // Stable: what the file names first is done first.
    moments.sort_by_key(|(at, _)| *at);
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_and_at_become_moments_in_order() {
        let entry = |at: u64, every: Option<u64>, until: Option<u64>, action: Action| Entry {
            at: Duration::from_secs(at),
            every: every.map(Duration::from_secs),
            until: until.map(Duration::from_secs),
            action,
        };
        let netem = |delay_ms| Action::Netem { workload: "w".into(), delay_ms, loss_share: 0.0 };
        let entries = [
            entry(10, Some(10), Some(35), Action::RestartControl),
            entry(5, None, None, netem(1.0)),
            entry(20, None, None, netem(0.0)),
            entry(100, None, None, netem(9.0)),
        ];
        let seen: Vec<(u64, &str)> = moments(&entries, Duration::from_secs(60))
            .iter()
            .map(|(at, action)| (at.as_secs(), action.kind()))
            .collect();
        assert_eq!(
            seen,
            [
                (5, "netem"),
                (10, "control_plane"),
                (20, "control_plane"),
                (20, "netem"),
                (30, "control_plane")
            ]
        );
    }
}
