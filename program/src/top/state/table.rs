//! A page of rows: what a place shows.

use streamfleet::job::QueueName;
use streamfleet_engine::admin::grouped;

use super::memory::Usage;

/// A column.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::top) struct Column {
    pub(in crate::top) heading: &'static str,
    /// The least width of a terminal that shows it.
    pub(in crate::top) from: u16,
    /// Whether its cells are numbers or times, which are aligned at the right.
    pub(in crate::top) is_figure: bool,
}

impl Column {
    pub(in crate::top) const fn text(heading: &'static str, from: u16) -> Self {
        Self { heading, from, is_figure: false }
    }

    pub(in crate::top) const fn figure(heading: &'static str, from: u16) -> Self {
        Self { heading, from, is_figure: true }
    }
}

/// A cell: what it shows, and by what it is sorted if not by that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::top) struct Cell {
    pub(in crate::top) text: String,
    pub(in crate::top) rank: Option<u64>,
}

impl Cell {
    /// A text that stands for a number, such as a time.
    pub(in crate::top) fn ranked(text: impl Into<String>, rank: impl Into<Option<u64>>) -> Self {
        Self { text: text.into(), rank: Some(rank.into().unwrap_or(0)) }
    }

    /// A count, or `?` if it is not known.
    pub(in crate::top) fn count(count: impl Into<Option<u64>>) -> Self {
        let count = count.into();
        Self::ranked(count.map_or_else(|| "?".to_owned(), grouped), count)
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), rank: None }
    }
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::top) enum Subject {
    Queue {
        queue: QueueName,
        is_paused: bool,
    },
    /// A job: with its dead letter if it is dead, and whether somebody is known to have edited that.
    Job {
        queue: QueueName,
        id: String,
        job_type: String,
        letter: Option<String>,
        is_edited: bool,
    },
    Group {
        queue: QueueName,
        group: String,
        job_type: Option<String>,
        letters: u64,
    },
    Worker {
        name: String,
        drains: bool,
    },
    Gate {
        queue: QueueName,
        gate: String,
        is_paused: bool,
    },
    /// A task, and whether it is a move that is over and has moved something.
    Task {
        queue: QueueName,
        id: String,
        is_paused: bool,
        has_moved: bool,
    },
    Step {
        queue: QueueName,
        job: String,
        step: String,
    },
    /// A job that somebody looks for by its id: in this queue, or in all.
    Sought {
        queue: Option<QueueName>,
        id: String,
    },
    /// What nobody can change: a note of the audit, or a job that only the history has.
    Past(String),
}

impl Subject {
    /// Whether both are about the same thing, whatever its state is.
    pub(in crate::top) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Queue { queue, .. }, Self::Queue { queue: other, .. }) => queue == other,
            (Self::Job { queue, id, .. }, Self::Job { queue: other, id: other_id, .. })
            | (Self::Task { queue, id, .. }, Self::Task { queue: other, id: other_id, .. }) => {
                (queue, id) == (other, other_id)
            }
            (Self::Group { queue, group, .. }, Self::Group { queue: other, group: other_group, .. }) => {
                (queue, group) == (other, other_group)
            }
            (Self::Worker { name, .. }, Self::Worker { name: other, .. }) => name == other,
            (Self::Gate { queue, gate, .. }, Self::Gate { queue: other, gate: other_gate, .. }) => {
                (queue, gate) == (other, other_gate)
            }
            _ => self == other,
        }
    }
}

/// A row, and a line below it if there is more to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::top) struct Row {
    pub(in crate::top) subject: Subject,
    pub(in crate::top) cells: Vec<Cell>,
    /// May be empty.
    pub(in crate::top) note: String,
}

impl Row {
    /// Whether the row contains a text, in upper or lower case.
    fn contains(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let has = |shown: &str| shown.to_lowercase().contains(&text);
        self.cells.iter().any(|cell| has(&cell.text)) || has(&self.note)
    }

    /// How many lines it takes.
    pub(in crate::top) fn height(&self) -> u16 {
        if self.note.is_empty() { 1 } else { 2 }
    }
}

/// What was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::top) struct Page {
    pub(in crate::top) columns: &'static [Column],
    pub(in crate::top) rows: Vec<Row>,
    /// Where the next page begins; `None` if this is the last one.
    pub(in crate::top) next: Option<String>,
    /// What to know about the page as a whole; may be empty.
    pub(in crate::top) remark: String,
    /// What the servers of Redis use, if the place shows that.
    pub(in crate::top) memory: Vec<Usage>,
}

/// By which column rows are sorted, and whether the greatest come first.
pub(in crate::top) type Sort = (usize, bool);

impl Page {
    /// Keeps the rows that contain a text, and sorts the rows. Equal ones stay in the order in which they came.
    pub(in crate::top) fn arrange(&mut self, text: &str, sort: Option<Sort>) {
        if !text.is_empty() {
            self.rows.retain(|row| row.contains(text));
        }
        let Some((column, is_reversed)) = sort else { return };
        let cell = |row: &Row| row.cells.get(column).map(|cell| (cell.rank, cell.text.clone()));
        self.rows.sort_by(|one, other| {
            let order = cell(one).cmp(&cell(other));
            if is_reversed { order.reverse() } else { order }
        });
    }
}
