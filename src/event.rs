//! Everything worth telling about, told once. Metrics and logs listen; nothing that listens can change an outcome.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::job::{DeadReason, FailureKind, JobId, JobType, QueueName};

/// Something that happened in this process.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A handler is about to run.
    Started {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it got.
        job_type: &'a JobType,
        /// From being ready to this moment.
        wait: Duration,
    },
    /// A handler ran to its end, or was cut short. What follows from it, Redis does not know yet.
    Ran {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it got.
        job_type: &'a JobType,
        /// How long it ran.
        elapsed: Duration,
    },
    /// An attempt ended and Redis knows it.
    Finished {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it got; `None` for bytes that are no job.
        job_type: Option<&'a JobType>,
        /// The job.
        job: &'a JobId,
        /// How it ended.
        ending: Ending,
        /// How long the handler ran.
        elapsed: Duration,
    },
    /// A handler failed.
    Failed {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it got.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The kind of failure.
        kind: FailureKind,
        /// What it said.
        error: &'a str,
    },
    /// An outcome came after its entry was taken over, and changed nothing.
    Fenced {
        /// Where the job came from.
        queue: &'a QueueName,
    },
    /// A running job's lease was lost; its handler is cancelled.
    LeaseLost {
        /// Where the job came from.
        queue: &'a QueueName,
    },
    /// Entries of a silent consumer were taken over.
    Claimed {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        jobs: u64,
    },
    /// Entries were pending whose bodies somebody deleted.
    BodiesLost {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        entries: u64,
    },
    /// Delayed jobs became due and went to their lanes.
    Promoted {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        jobs: u64,
        /// By how much the first was late.
        late: Duration,
    },
    /// Streams or groups of a queue in use had to be made again: somebody deleted them.
    GroupRecreated {
        /// The queue.
        queue: &'a QueueName,
    },
    /// This process began, or ceased, to do a queue's chores.
    Leading {
        /// The queue.
        queue: &'a QueueName,
        /// Whether it does.
        leading: bool,
    },
    /// A reading of new entries completed.
    Read {
        /// The queue.
        queue: &'a QueueName,
        /// How many entries came.
        entries: usize,
    },
    /// This process began to stop: it takes no new jobs, and lets the running ones end.
    Stopping,
    /// Redis did not do what was asked.
    RedisError {
        /// The command or script's kind of failure.
        kind: &'a str,
        /// The whole text.
        error: &'a str,
    },
    /// The process's sign of life was answered, or not.
    Contact {
        /// Whether it was.
        alive: bool,
    },
}

/// How an attempt ended, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The job is done.
    Succeeded,
    /// It will be tried again.
    Retried,
    /// It is in the dead stream.
    Dead(DeadReason),
    /// It runs again later, because the handler or the producer said so.
    Snoozed,
    /// It was given back unfinished.
    Interrupted,
    /// The job was cancelled, by a person or by its handler.
    Cancelled,
}

impl Ending {
    /// The value of the metrics' `outcome` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Retried => "retried",
            Self::Dead(DeadReason::Expired) => "expired",
            Self::Dead(_) => "dead",
            Self::Snoozed => "snoozed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

type Listener = dyn Fn(&Event<'_>) + Send + Sync;

/// Where events go: to every listener, in the order in which they were given. Clones share the listeners.
#[derive(Clone, Default)]
pub struct Events {
    listeners: Arc<[Arc<Listener>]>,
}

impl Events {
    /// Events that go to these listeners. A listener must be quick, and must not block.
    pub fn new(listeners: Vec<Arc<Listener>>) -> Self {
        Self { listeners: listeners.into() }
    }

    /// Tells every listener.
    pub fn tell(&self, event: &Event<'_>) {
        for listener in self.listeners.iter() {
            listener(event);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Events({} listeners)", self.listeners.len())
    }
}
