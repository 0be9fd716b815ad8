//! Charts, drawn here as SVG. They have no style and no script of their own.

use std::fmt::Write as _;

use askama::Template;
use streamfleet::job::Timestamp;

use super::frame::{Frame, grouped, utc};

/// What happened in a queue in one minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Minute {
    /// When the minute began.
    pub(super) at: Timestamp,
    /// Jobs that waited at its end.
    pub(super) waiting: u64,
    /// Jobs that arrived.
    pub(super) arrived: u64,
    /// Jobs that succeeded.
    pub(super) done: u64,
    /// Attempts that failed.
    pub(super) failed: u64,
}

/// A minute in milliseconds.
const MINUTE_MS: u64 = 60_000;

/// A chart.
#[derive(Debug, Template)]
#[template(path = "chart.html")]
pub(super) struct Chart {
    class: &'static str,
    width: u32,
    height: u32,
    /// What it shows, for those who do not see it.
    title: String,
    /// The class and the path of each shape.
    shapes: Vec<(&'static str, String)>,
    /// Where a text stands, how it is aligned, and the text.
    labels: Vec<(u32, u32, &'static str, String)>,
}

impl askama::filters::HtmlSafe for Chart {}

/// What is drawn of each minute.
type Value = fn(&Minute) -> u64;

/// The space of a chart, in which minutes become points.
struct Space {
    /// Its left, right, top and bottom edge.
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    from: u64,
    until: u64,
    /// The value at the top.
    most: u64,
}

impl Space {
    fn x(&self, at: Timestamp) -> f64 {
        let span = self.until.saturating_sub(self.from).max(1) as f64;
        self.left + (self.right - self.left) * at.as_ms().saturating_sub(self.from) as f64 / span
    }

    fn y(&self, value: u64) -> f64 {
        self.bottom - (self.bottom - self.top) * value as f64 / self.most.max(1) as f64
    }

    /// A line through the minutes. Where one is missing, the line has a gap.
    fn line(&self, minutes: &[Minute], value: Value) -> String {
        let (mut path, mut before) = (String::new(), None);
        for minute in minutes {
            let at = minute.at.as_ms();
            let goes_on = before.is_some_and(|before| at - before <= 2 * MINUTE_MS);
            push(&mut path, if goes_on { 'L' } else { 'M' }, self.x(minute.at), self.y(value(minute)));
            before = Some(at);
        }
        path
    }

    /// The area under that line, without gaps.
    fn area(&self, minutes: &[Minute], value: Value) -> String {
        let (Some(first), Some(last)) = (minutes.first(), minutes.last()) else { return String::new() };
        let mut path = String::new();
        push(&mut path, 'M', self.x(first.at), self.bottom);
        for minute in minutes {
            push(&mut path, 'L', self.x(minute.at), self.y(value(minute)));
        }
        push(&mut path, 'L', self.x(last.at), self.bottom);
        path.push('Z');
        path
    }

    /// A bar for each minute that has something.
    fn bars(&self, minutes: &[Minute], value: Value) -> String {
        let mut path = String::new();
        for minute in minutes.iter().filter(|minute| value(minute) > 0) {
            let (x, y) = (self.x(minute.at), self.y(value(minute)));
            push(&mut path, 'M', x - 1.5, self.bottom);
            push(&mut path, 'V', y, f64::NAN);
            push(&mut path, 'h', 3.0, f64::NAN);
            push(&mut path, 'V', self.bottom, f64::NAN);
            path.push('Z');
        }
        path
    }
}

/// Adds a command of a path. Commands with one number get `NAN` as the second.
fn push(path: &mut String, command: char, x: f64, y: f64) {
    let second = if y.is_nan() { String::new() } else { format!(" {y:.1}") };
    // Writing to a string cannot fail.
    let written = write!(path, "{command}{x:.1}{second}");
    debug_assert!(written.is_ok());
}

impl Chart {
    /// The waiting jobs, small; `None` if there are fewer than two samples.
    pub(super) fn sparkline(frame: &Frame, minutes: &[Minute]) -> Option<Self> {
        let [first, .., last] = minutes else { return None };
        let most = minutes.iter().map(|minute| minute.waiting).max()?;
        let space = Space {
            left: 0.0,
            right: 144.0,
            top: 2.0,
            bottom: 31.0,
            from: first.at.as_ms(),
            until: last.at.as_ms(),
            most,
        };
        let values = [("now", grouped(last.waiting)), ("most", grouped(most))];
        let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
        let waiting: Value = |minute| minute.waiting;
        Some(Self {
            class: "chart spark",
            width: 144,
            height: 32,
            title: frame.fill("chart.waiting", &values),
            shapes: vec![("area", space.area(minutes, waiting)), ("line", space.line(minutes, waiting))],
            labels: Vec::new(),
        })
    }

    /// A small bar for each value.
    pub(super) fn bars(title: String, values: &[u64]) -> Self {
        const WIDTH: f64 = 96.0;
        let most = values.iter().copied().max().unwrap_or(0).max(1);
        let step = WIDTH / values.len().max(1) as f64;
        let mut path = String::new();
        for (nth, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
            // Even one is seen.
            let height = (22.0 * *value as f64 / most as f64).max(2.0);
            push(&mut path, 'M', step * nth as f64, 24.0);
            push(&mut path, 'v', -height, f64::NAN);
            push(&mut path, 'h', step - 1.0, f64::NAN);
            push(&mut path, 'v', height, f64::NAN);
            path.push('Z');
        }
        let mut rule = String::new();
        push(&mut rule, 'M', 0.0, 24.0);
        push(&mut rule, 'H', WIDTH, f64::NAN);
        let shapes = vec![("rule", rule), ("bar-failed", path)];
        Self { class: "chart bars", width: 96, height: 25, title, shapes, labels: Vec::new() }
    }

    /// What arrived, was done and failed in each minute; `None` if there are fewer than two samples, which make no line.
    pub(super) fn flow(frame: &Frame, minutes: &[Minute]) -> Option<Self> {
        let [first, .., last] = minutes else { return None };
        let most = minutes.iter().flat_map(|minute| [minute.arrived, minute.done, minute.failed]).max()?;
        let most = round_up(most);
        let space = Space {
            left: 46.0,
            right: 636.0,
            top: 8.0,
            bottom: 120.0,
            from: first.at.as_ms(),
            until: last.at.as_ms(),
            most,
        };
        let sum = |value: Value| grouped(minutes.iter().map(value).fold(0, u64::saturating_add));
        let sums = [sum(|minute| minute.arrived), sum(|minute| minute.done), sum(|minute| minute.failed)];
        let values = [("arrived", &*sums[0]), ("done", &*sums[1]), ("failed", &*sums[2])];
        let mut rules = String::new();
        for value in [0, most / 2, most] {
            push(&mut rules, 'M', space.left, space.y(value));
            push(&mut rules, 'H', space.right, f64::NAN);
        }
        Some(Self {
            class: "chart flow",
            width: 640,
            height: 140,
            title: frame.fill("chart.flow", &values),
            shapes: vec![
                ("rule", rules),
                ("bar-failed", space.bars(minutes, |minute| minute.failed)),
                ("line", space.line(minutes, |minute| minute.arrived)),
                ("line out", space.line(minutes, |minute| minute.done)),
            ],
            labels: vec![
                (42, 13, "end", grouped(most)),
                (42, 124, "end", "0".to_owned()),
                (46, 137, "start", hour(first.at)),
                (636, 137, "end", hour(last.at)),
            ],
        })
    }
}

/// The hour and minute of a time in UTC.
fn hour(time: Timestamp) -> String {
    utc(time).get(11..16).unwrap_or_default().to_owned()
}

/// The next number that is even and easy to read.
fn round_up(number: u64) -> u64 {
    let mut step = 2_u64;
    loop {
        for factor in [1, 2, 5] {
            let rounded = step.saturating_mul(factor);
            if rounded >= number {
                return rounded;
            }
        }
        step = step.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests_frame;
    use super::*;

    fn minutes(values: &[(u64, u64)]) -> Vec<Minute> {
        let minute = |(at, count): &(u64, u64)| Minute {
            at: Timestamp::from_ms(at * MINUTE_MS).unwrap(),
            waiting: *count,
            arrived: *count,
            done: count / 2,
            failed: count / 5,
        };
        values.iter().map(minute).collect()
    }

    #[test]
    fn fewer_than_two_samples_make_no_chart() {
        let frame = tests_frame();
        for few in [&[][..], &[(1, 5)]] {
            assert!(Chart::flow(&frame, &minutes(few)).is_none());
            assert!(Chart::sparkline(&frame, &minutes(few)).is_none());
        }
    }

    #[test]
    fn a_gap_in_the_samples_is_a_gap_in_the_line() {
        let frame = tests_frame();
        let chart = Chart::sparkline(&frame, &minutes(&[(1, 5), (2, 7), (30, 9)])).unwrap();
        let (_, line) = chart.shapes.iter().find(|(class, _)| *class == "line").unwrap();
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1), "{line}");
        for extreme in [[(1, 0), (2, 0)], [(1, u64::MAX), (2, 0)]] {
            let chart = Chart::flow(&frame, &minutes(&extreme)).unwrap();
            assert!(chart.shapes.iter().all(|(_, path)| !path.contains("NaN") && !path.contains("inf")));
        }
    }

    #[test]
    fn each_value_has_a_bar_and_nothing_has_none() {
        let bars = |values: &[u64]| Chart::bars("died".to_owned(), values).shapes[1].1.clone();
        assert_eq!(
            (bars(&[0, 3, 0, u64::MAX]).matches('M').count(), bars(&[0; 12]).len(), bars(&[]).len()),
            (2, 0, 0)
        );
    }

    #[test]
    fn the_top_of_a_chart_is_easy_to_read() {
        assert_eq!([0, 2, 3, 5, 11, 99, 1001].map(round_up), [2, 2, 4, 10, 20, 100, 2000]);
        assert!(round_up(u64::MAX) == u64::MAX);
    }

    #[test]
    fn a_chart_is_svg_without_style_or_script() {
        let chart = Chart::flow(&tests_frame(), &minutes(&[(1, 5), (2, 7)])).unwrap().render().unwrap();
        assert!(
            chart.starts_with("<svg") && !chart.contains("style=") && !chart.contains("script"),
            "{chart}"
        );
    }
}
