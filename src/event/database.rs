//! What happens between this process and databases.

use std::time::Duration;

use crate::job::QueueName;

/// Something that happened between this process and a database: the history that it writes, or the outbox that it relays.
#[derive(Debug, Clone, Copy)]
pub enum DatabaseEvent<'a> {
    /// The database has taken ends of jobs.
    Written {
        /// Their queue.
        queue: &'a QueueName,
        /// How many.
        ends: u64,
    },
    /// What waits to be written to the history. Reported every few seconds by the process that writes it.
    Journal {
        /// The queue.
        queue: &'a QueueName,
        /// What waits.
        waiting: JournalReport,
    },
    /// Another process writes the history of a queue now, or none does.
    JournalLeft {
        /// The queue.
        queue: &'a QueueName,
    },
    /// The files of this process with ends that the journal had no room for. Reported every few seconds.
    Spilled {
        /// The queue.
        queue: &'a QueueName,
        /// How many files there are.
        files: u64,
        /// How many bytes they have.
        bytes: u64,
    },
    /// The history could not be written.
    HistoryFailed {
        /// The queue.
        queue: &'a QueueName,
        /// The class of the error.
        class: &'a str,
    },
    /// Rows of the outbox became jobs, or can never be.
    Relayed {
        /// How many became jobs.
        rows: u64,
        /// How many can never be.
        refused: u64,
    },
    /// What waits in the outbox. Reported every few seconds by the process that relays it.
    Outbox {
        /// What waits.
        waiting: OutboxReport,
    },
    /// Another process relays the outbox now, or none does.
    OutboxLeft,
    /// The outbox could not be relayed.
    OutboxFailed {
        /// The class of the error.
        class: &'a str,
    },
}

/// What waits to be written to the history of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalReport {
    /// How many ends the journal has.
    pub ends: u64,
    /// About how many bytes they take.
    pub bytes: u64,
    /// How many bytes they may take.
    pub max_bytes: u64,
    /// For how long the oldest has waited; zero if none waits.
    pub oldest: Duration,
    /// How many ends of the last day found no room, and are not in the history.
    pub lost: u64,
    /// How long ago this process committed ends; zero if it has not yet.
    pub committed: Duration,
}

/// What waits in an outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxReport {
    /// How many rows wait, counted up to 10,000.
    pub rows: u64,
    /// How many rows can never be jobs, counted up to 10,000.
    pub refused: u64,
    /// For how long the oldest row has waited; zero if none waits.
    pub oldest: Duration,
}
