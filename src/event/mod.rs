//! The events of this process. Each one is reported once. Metrics and logs listen; no listener can change an outcome.
//! See the [example](Events).

mod alert;
mod database;
mod ending;
mod events;
mod finished;
mod program;
mod queue;
mod redis;
mod report;

use std::time::Duration;

pub use alert::AlertEvent;
pub use database::{DatabaseEvent, JournalReport, OutboxReport};
pub use ending::Ending;
pub use events::Events;
pub use finished::Finished;
pub use program::{ChildEnding, PoolEnding, ProgramEvent};
pub use queue::QueueEvent;
pub use redis::RedisEvent;
pub use report::{HookFailure, PushResult, Recipient, ReportEvent, SpanLoss};

use crate::job::{FailureKind, JobId, JobType, QueueName};

/// Something that happened in this process; see the [example](Events).
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A handler is about to run.
    Started {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How long the job waited from being ready to being started.
        wait: Duration,
    },
    /// A handler ran to its end, or was cut short. Redis does not know yet what follows from it.
    Ran {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
        /// How long it ran.
        elapsed: Duration,
    },
    /// An attempt ended, and Redis has recorded it.
    Finished(Finished<'a>),
    /// A handler failed.
    Failed {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The kind of failure.
        kind: FailureKind,
        /// The error message.
        error: &'a str,
    },
    /// An attempt's worker fell silent, and its entry was claimed.
    Lost {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
    },
    /// Something happened to a queue, or to its jobs outside of an attempt.
    Queue {
        /// The queue.
        queue: &'a QueueName,
        /// What happened.
        event: QueueEvent<'a>,
    },
    /// Something happened to the programs that handlers run.
    Program(ProgramEvent<'a>),
    /// Something happened between this process and Redis.
    Redis(RedisEvent<'a>),
    /// Something happened to what this process reports to others: hooks, the event stream, the collector of spans.
    Report(ReportEvent<'a>),
    /// Something happened to incidents, or to messages about them.
    Alert(AlertEvent<'a>),
    /// Something happened between this process and a database.
    Database(DatabaseEvent<'a>),
    /// This process began to stop: it takes no new jobs, and lets running ones finish.
    Stopping,
}
