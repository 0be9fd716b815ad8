//! A job's time from acceptance to its end, drawn as SVG: one bar for each attempt.

use askama::Template;
use streamfleet::job::Timestamp;
use streamfleet_engine::admin::Attempt;

use super::frame::{Frame, utc};
use crate::times::short;

/// The width of the drawing, and the part on its left that has the words.
const WIDTH: u32 = 720;
const LEFT: u32 = 120;

/// The height of a row.
const ROW: u32 = 20;

/// The most attempts that are drawn, the last ones.
const MOST: usize = 12;

/// The time line.
#[derive(Debug, Template)]
#[template(path = "timeline.html")]
pub(super) struct Timeline {
    height: u32,
    title: String,
    bars: Vec<Bar>,
    from: String,
    until: String,
}

impl askama::filters::HtmlSafe for Timeline {}

/// One row: a bar with words on its left.
#[derive(Debug, PartialEq, Eq)]
struct Bar {
    class: &'static str,
    x: u32,
    y: u32,
    width: u32,
    label: String,
    /// Words on the bar, for those who point at it.
    hint: String,
}

/// What is known about a job's time.
pub(super) struct Span<'a> {
    pub(super) created: Option<Timestamp>,
    pub(super) attempts: &'a [Attempt],
    /// When the running attempt began, as far as is known.
    pub(super) running: Option<Timestamp>,
    /// When it ended, or else now.
    pub(super) until: Timestamp,
}

impl Timeline {
    /// Draws it; `None` if nothing is known.
    pub(super) fn of(frame: &Frame, span: &Span<'_>) -> Option<Self> {
        let attempts = &span.attempts[span.attempts.len().saturating_sub(MOST)..];
        let begun = attempts.first().map(|attempt| attempt.started);
        let from = span.created.into_iter().chain(begun).chain(span.running).min()?;
        let last = attempts.iter().map(|attempt| attempt.ended).max();
        let until = last.map_or(span.until, |last| last.max(span.until)).max(from);
        let scale = Scale { from, until };
        let mut bars = Vec::new();
        let first = begun.or(span.running).unwrap_or(until);
        if let Some(created) = span.created.filter(|created| *created < first) {
            let label = frame.t("timeline.wait").to_owned();
            bars.push(scale.bar("wait", (created, first), label, bars.len()));
        }
        for (at, attempt) in attempts.iter().enumerate() {
            let number = (span.attempts.len() - attempts.len() + at + 1).to_string();
            let label = frame.fill("timeline.attempt", &[("number", &number)]);
            let class = if attempt.outcome == "done" { "done" } else { "failed" };
            bars.push(scale.bar(class, (attempt.started, attempt.ended), label, bars.len()));
        }
        if let Some(running) = span.running {
            bars.push(scale.bar(
                "running",
                (running, until),
                frame.t("timeline.running").to_owned(),
                bars.len(),
            ));
        }
        let rows = u32::try_from(bars.len()).unwrap_or(0);
        Some(Self {
            height: rows * ROW + 18,
            title: frame.t("timeline.title").to_owned(),
            bars,
            from: utc(from),
            until: utc(until),
        })
    }
}

/// How times become places.
struct Scale {
    from: Timestamp,
    until: Timestamp,
}

impl Scale {
    fn x(&self, time: Timestamp) -> u32 {
        let span = u128::from(self.until.as_ms() - self.from.as_ms()).max(1);
        let passed =
            u128::from(time.as_ms().clamp(self.from.as_ms(), self.until.as_ms()) - self.from.as_ms());
        LEFT + u32::try_from(passed * u128::from(WIDTH - LEFT) / span).unwrap_or(0)
    }

    fn bar(
        &self,
        class: &'static str,
        (begin, end): (Timestamp, Timestamp),
        label: String,
        row: usize,
    ) -> Bar {
        let x = self.x(begin).min(WIDTH - 2);
        let y = u32::try_from(row).unwrap_or(0) * ROW + 3;
        let width = (self.x(end) - self.x(begin).min(self.x(end))).max(2).min(WIDTH - x);
        Bar { class, x, y, width, hint: format!("{label}: {}", short(end.since(begin))), label }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests_frame;
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms).unwrap()
    }

    #[test]
    fn bars_stay_inside_whatever_the_clock_did() {
        let frame = tests_frame();
        let spans = [
            (Some(1000), Some(5000), 9000),
            (Some(9000), Some(5000), 1000),
            (None, Some(5), 5),
            (Some(5), None, 5),
        ];
        for (created, running, until) in spans {
            let span =
                Span { created: created.map(at), attempts: &[], running: running.map(at), until: at(until) };
            let line = Timeline::of(&frame, &span).unwrap();
            for bar in &line.bars {
                assert!(bar.x >= LEFT && bar.x + bar.width <= WIDTH && bar.width >= 2, "{bar:?}");
            }
        }
        let nothing = Span { created: None, attempts: &[], running: None, until: at(1) };
        assert!(Timeline::of(&frame, &nothing).is_none());
    }
}
