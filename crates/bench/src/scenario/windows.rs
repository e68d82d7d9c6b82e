//! Parts of the measured phase that a scenario has figures of: before, during and after what the timeline does. Pure.

use crate::scenario::reader::Node;
use std::time::Duration;

/// A part of the measured phase, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub name: String,
    /// From and to, since the measured phase began; whole seconds.
    pub during: Vec<(Duration, Duration)>,
}

/// The window that every scenario has: the whole measured phase.
pub const WHOLE: &str = "whole";

impl Window {
    /// `name: [5s, 15s]`, or `name: [[10s, 20s], [30s, 40s]]`.
    pub(crate) fn read_all(node: &Node<'_>) -> Vec<Self> {
        let mut windows = Vec::new();
        for (name, node) in node.entries() {
            if name == WHOLE {
                node.wrong("the window with this name is the whole measured phase");
            }
            let is_one = node.value().as_array().is_some_and(|parts| {
                parts.iter().all(|part| !part.is_array()) && !parts.is_empty()
            });
            let during = match is_one {
                true => pair(&node).into_iter().collect(),
                false => node.some().iter().filter_map(pair).collect(),
            };
            windows.push(Self { name, during });
        }
        windows
    }

    /// Whether it has the second that begins here.
    #[must_use]
    pub fn has(&self, second_s: f64) -> bool {
        let within = |(from, to): &(Duration, Duration)| {
            (from.as_secs_f64()..to.as_secs_f64()).contains(&second_s)
        };
        self.name == WHOLE || self.during.iter().any(within)
    }
}

fn pair(node: &Node<'_>) -> Option<(Duration, Duration)> {
    let times = match node.value().is_array() {
        true => node.list(),
        false => Vec::new(),
    };
    let [from, to] = times.as_slice() else {
        node.wrong("a window is [from, to], or several of them");
        return None;
    };
    let (from, to) = (from.duration()?, to.duration()?);
    if from >= to {
        node.wrong("the end of a window must be after its begin");
    }
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::reader::Mistakes;
    use serde_json::json;

    #[test]
    fn windows_have_seconds() {
        let value = json!({"calm": ["1s", "3s"], "ill": [["5s", "6s"], ["8s", "9s"]]});
        let wrong = Mistakes::default();
        let mut windows = Window::read_all(&Node::root(&value, &wrong));
        assert!(wrong.all().is_empty());
        windows.push(Window { name: WHOLE.to_owned(), during: Vec::new() });
        let of =
            |window: &Window| (0..10).filter(|second| window.has(f64::from(*second))).collect();
        let seconds: Vec<Vec<i32>> = windows.iter().map(of).collect();
        assert_eq!(seconds, [vec![1, 2], vec![5, 8], (0..10).collect()]);
    }

    #[test]
    fn mistakes() {
        let check = |value: serde_json::Value, expected: &str| {
            let wrong = Mistakes::default();
            Window::read_all(&Node::root(&value, &wrong));
            let said: Vec<String> = wrong.all().into_iter().map(|(_, said)| said).collect();
            assert_eq!(said, [expected], "{value}");
        };
        check(json!({"a": ["3s", "1s"]}), "the end of a window must be after its begin");
        check(json!({"a": ["3s"]}), "a window is [from, to], or several of them");
        check(json!({"a": "3s"}), "a window is [from, to], or several of them");
        check(json!({"a": []}), "is an empty list");
        check(
            json!({"whole": ["1s", "2s"]}),
            "the window with this name is the whole measured phase",
        );
    }
}
