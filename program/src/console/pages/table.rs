//! A table of a page: on narrow screens, each row becomes a card.

use std::time::Duration;

use askama::Template;
use streamfleet::job::{State, StepKind, StepState, Timestamp};

use super::chart::Chart;
use super::excerpt;
use super::frame::{Frame, grouped, utc};
use crate::console::link::Link;
use crate::times::{rfc3339, short};

/// A table.
#[derive(Template)]
#[template(path = "table.html")]
pub(super) struct Table {
    /// What it shows, for those who do not see it.
    caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// What is shown if there are no rows.
    empty: String,
    /// The most letters of a text.
    longest: usize,
}

impl askama::filters::HtmlSafe for Table {}

/// A column of a table.
struct Column {
    title: &'static str,
    class: &'static str,
}

/// A cell of a table.
#[derive(Default)]
pub(super) struct Cell {
    text: String,
    /// Where it leads.
    link: Option<String>,
    /// A second line.
    under: Option<String>,
    /// The class of a state, or of how the text is written.
    class: &'static str,
    /// An instant, for programs.
    instant: Option<String>,
    /// A small chart in place of the text.
    chart: Option<Chart>,
    /// Further lines, each with its class and a place to go.
    lines: Vec<(&'static str, String, Option<String>)>,
}

impl Table {
    /// A table with columns: the texts' keys, and `number`, `clip`, `short` or nothing.
    pub(super) fn new(frame: &Frame, caption: &str, columns: &[(&str, &'static str)]) -> Self {
        let column = |(key, class): &(&str, &'static str)| Column { title: frame.t(key), class };
        Self {
            caption: frame.t(caption).to_owned(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
            empty: frame.t("table.empty").to_owned(),
            longest: excerpt::CELL,
        }
    }

    /// Sets the text that is shown if there are no rows.
    pub(super) fn or(self, empty: impl Into<String>) -> Self {
        Self { empty: empty.into(), ..self }
    }

    /// Sets the longest text of a cell.
    pub(super) fn longest(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    /// Adds a row. Long texts are cut.
    pub(super) fn add(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells: Vec<Cell> = cells.into();
        self.rows.push(cells.into_iter().map(|cell| cell.cut(self.longest)).collect());
    }

    /// The cells with their columns.
    fn cells<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
        self.columns.iter().zip(row)
    }
}

impl Cell {
    /// A text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A text with a place to go.
    pub(super) fn link(text: impl Into<String>, link: &Link) -> Self {
        Self { text: text.into(), link: Some(link.to_string()), ..Self::default() }
    }

    /// A text with the address of a place to go.
    pub(super) fn to(text: impl Into<String>, link: String) -> Self {
        Self { text: text.into(), link: Some(link), ..Self::default() }
    }

    /// An identifier with a place to go.
    pub(super) fn id(text: impl Into<String>, link: &Link) -> Self {
        Self { class: "mono", ..Self::link(text, link) }
    }

    /// A small chart; a dash if there is none.
    pub(super) fn chart(chart: Option<Chart>) -> Self {
        if chart.is_none() {
            return Self::text("–");
        }
        Self { chart, ..Self::default() }
    }

    /// A number.
    pub(super) fn number(number: u64) -> Self {
        Self::text(grouped(number))
    }

    /// A number that leads to what it counts, if there is anything.
    pub(super) fn counted(number: u64, link: &Link) -> Self {
        if number == 0 { Self::number(0) } else { Self::link(grouped(number), link) }
    }

    /// A time, as its distance from now.
    pub(super) fn time(frame: &Frame, time: Timestamp, now: Timestamp) -> Self {
        Self { instant: Some(rfc3339(time)), under: Some(utc(time)), ..Self::text(frame.distance(time, now)) }
    }

    /// A duration.
    pub(super) fn lasting(time: Option<Duration>) -> Self {
        Self::text(time.map_or_else(|| "–".to_owned(), short))
    }

    /// A state.
    pub(super) fn state(frame: &Frame, state: State) -> Self {
        Self { class: state_class(state), ..Self::text(frame.t(state_key(state))) }
    }

    /// Anything with the colors of a state.
    pub(super) fn like(text: impl Into<String>, class: &'static str) -> Self {
        Self { class, ..Self::text(text) }
    }

    /// Lines, each with its class and a place to go, if there is one.
    pub(super) fn lines(lines: impl IntoIterator<Item = (&'static str, String, Option<Link>)>) -> Self {
        let lines =
            lines.into_iter().map(|(class, text, link)| (class, text, link.map(|link| link.to_string())));
        Self { lines: lines.collect(), ..Self::default() }
    }

    fn cut(self, most: usize) -> Self {
        let under = self.under.map(|under| excerpt::of(under, most));
        Self { text: excerpt::of(self.text, most), under, ..self }
    }

    /// Adds a second line, unless it is empty.
    pub(super) fn under(self, text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self { under: Some(text).filter(|text| !text.is_empty()), ..self }
    }
}

/// The classes of a state.
pub(super) fn state_class(state: State) -> &'static str {
    match state {
        State::Waiting => "state waiting",
        State::Running => "state running",
        State::Scheduled => "state scheduled",
        State::Retrying => "state retrying",
        State::Dead => "state dead",
        State::Done => "state done",
        State::Cancelled => "state cancelled",
    }
}

/// The key of a state's name.
pub(super) fn state_key(state: State) -> &'static str {
    match state {
        State::Waiting => "state.waiting",
        State::Running => "state.running",
        State::Scheduled => "state.scheduled",
        State::Retrying => "state.retrying",
        State::Dead => "state.dead",
        State::Done => "state.done",
        State::Cancelled => "state.cancelled",
    }
}

/// The classes of a step's state, and the key of its name.
pub(super) fn step_look(state: StepState) -> (&'static str, &'static str) {
    match state {
        StepState::Pending => ("state waiting", "step.pending"),
        StepState::Started => ("state running", "step.started"),
        StepState::Done => ("state done", "step.done"),
        StepState::Failed => ("state dead", "step.failed"),
        StepState::Exhausted => ("state dead", "step.exhausted"),
        StepState::Unknown => ("state retrying", "step.unknown"),
        StepState::GivenUp => ("state cancelled", "step.given_up"),
    }
}

/// The key of the name of a step's kind.
pub(super) fn step_key(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Auto => "step.auto",
        StepKind::Once => "step.once",
    }
}
