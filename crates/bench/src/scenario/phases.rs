//! What happens around the measured phase, and when a warm-up is over. Pure.

use crate::scenario::reader::Node;
use std::time::Duration;

/// The phases of one repetition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phases {
    /// Before: load whose figures are not kept.
    pub warmup: Warmup,
    /// What is kept. Zero where requests are counted.
    pub measure: Duration,
    /// After: nothing, so that the next repetition finds a calm machine.
    pub cooldown: Duration,
}

/// How long the warm-up lasts: windows of load, until the last few of them agree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Warmup {
    /// At least so long.
    pub min: Duration,
    /// At most so long. The same as `min`: just so long, whatever is seen.
    pub max: Duration,
    /// Length of one window.
    pub window: Duration,
    /// How many windows in a row have to agree.
    pub windows: usize,
    /// How far their p50 and p99 may lie apart, as a share of the smallest.
    pub within: f64,
}

impl Warmup {
    /// Just so long.
    fn fixed(length: Duration) -> Self {
        Self { min: length, max: length, window: length, windows: 1, within: 0.0 }
    }

    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        if !node.value().is_object() {
            return node.duration().map(Self::fixed);
        }
        let fields = node.fields(&["min", "max", "window", "windows", "within"]);
        let time = |name, otherwise| match fields.get(name) {
            Some(node) => node.duration(),
            None => Some(Duration::from_secs(otherwise)),
        };
        let (min, max, window) = (time("min", 30), time("max", 180), time("window", 5));
        let windows = fields.get("windows").map_or(Some(3), |node| node.count(2, 20));
        let within = fields.get("within").map_or(Some(0.03), |node| node.share());
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            fields.wrong("min is longer than max");
        }
        if window == Some(Duration::ZERO) {
            fields.wrong("window: 0");
        } else if let (Some(window), Some(windows), Some(max)) = (window, windows, max)
            && window.saturating_mul(windows as u32) > max
        {
            fields.wrong("the windows do not fit into max");
        }
        Some(Self {
            min: min?,
            max: max?,
            window: window?,
            windows: windows? as usize,
            within: within?,
        })
    }

    /// Whether the last windows agree; each is p50 and p99 in nanoseconds.
    #[must_use]
    pub fn is_stable(&self, windows: &[(u64, u64)]) -> bool {
        let Some(start) = windows.len().checked_sub(self.windows) else { return false };
        let agree = |figures: &mut dyn Iterator<Item = u64>| {
            let (mut least, mut most) = (u64::MAX, 0);
            for figure in figures {
                (least, most) = (least.min(figure), most.max(figure));
            }
            (most - least.min(most)) as f64 <= self.within * least as f64
        };
        let last = &windows[start..];
        agree(&mut last.iter().map(|w| w.0)) && agree(&mut last.iter().map(|w| w.1))
    }
}

impl Phases {
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let fields = node.fields(&["warmup", "measure", "cooldown"]);
        let time = |name| fields.get(name).and_then(|node| node.duration()).unwrap_or_default();
        Self {
            warmup: fields.get("warmup").and_then(|n| Warmup::read(&n)).unwrap_or_default(),
            measure: time("measure"),
            cooldown: time("cooldown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_when_the_last_windows_agree() {
        let warmup = Warmup { windows: 3, within: 0.03, ..Warmup::default() };
        assert!(!warmup.is_stable(&[(100, 200), (100, 200)]), "too few");
        assert!(warmup.is_stable(&[(100, 200), (101, 203), (103, 206)]));
        assert!(!warmup.is_stable(&[(100, 200), (101, 203), (103, 207)]), "p99 is too far off");
        assert!(!warmup.is_stable(&[(100, 200), (104, 200), (100, 200)]), "p50 is too far off");
        assert!(warmup.is_stable(&[(900, 900), (100, 200), (101, 203), (103, 206)]));
        assert!(warmup.is_stable(&[(0, 0), (0, 0), (0, 0)]));
    }
}
