//! The room that a chart draws in: its place, its upright axis, and the lines across.

use super::axis::Axis;
use super::svg::{Anchor, Svg};
use super::words;

/// Milliseconds of the two timers of TCP that published latencies show again and again.
pub(super) const TIMERS: [(f64, &str); 2] = [(40.0, "40 ms"), (200.0, "200 ms")];

/// A chart's inner rectangle and its left axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Left edge.
    pub(super) left: f64,
    /// Upper edge.
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// The upright axis.
    pub(super) axis: Axis,
}

impl Frame {
    /// The height at which a value is drawn.
    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - self.axis.place(value))
    }

    /// The place of a share (0 to 1) of the width.
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + self.width * share
    }

    /// Lower edge.
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Lines across with their values, the unit above them, and the floor.
    pub(super) fn draw(&self, svg: &mut Svg, unit: &str) {
        for (value, labelled) in self.axis.ticks() {
            let y = self.y(value);
            let class = if labelled { "grid" } else { "grid faint" };
            svg.line((self.left, y), (self.left + self.width, y), class);
            if labelled {
                let text = words::tick(value);
                svg.text((self.left - 7.0, y + 4.0), Anchor::End, "tick", &text);
            }
        }
        let floor = match self.axis {
            Axis::Linear(low, _) if low < 0.0 => self.y(0.0),
            _ => self.bottom(),
        };
        svg.line((self.left, floor), (self.left + self.width, floor), "floor");
        svg.text((self.left - 7.0, self.top - 10.0), Anchor::End, "unit", unit);
    }

    /// The timers of TCP, where they are on the axis.
    pub(super) fn timers(&self, svg: &mut Svg) {
        for (milliseconds, words) in TIMERS {
            if self.axis.holds(milliseconds) {
                let y = self.y(milliseconds);
                svg.line((self.left, y), (self.left + self.width, y), "timer");
                svg.text((self.left + 4.0, y - 4.0), Anchor::Start, "timer", words);
            }
        }
    }

    /// The values of an axis on the right side.
    pub(super) fn draw_right(&self, svg: &mut Svg, axis: Axis, unit: &str) {
        let right = self.left + self.width;
        for (value, labelled) in axis.ticks() {
            if labelled {
                let y = self.top + self.height * (1.0 - axis.place(value));
                svg.text((right + 7.0, y + 4.0), Anchor::Start, "tick", &words::tick(value));
            }
        }
        svg.text((right + 7.0, self.top - 10.0), Anchor::Start, "unit", unit);
    }
}
