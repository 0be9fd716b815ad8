//! What a check has seen: something is wrong now.

use super::line::{MAX_KEY_BYTES, MAX_TEXT_BYTES, plain_line};
use super::{Incident, IncidentExample, IncidentKind};
use crate::job::{QueueName, Timestamp};

/// What a check has seen: something is wrong now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// What is wrong.
    pub kind: IncidentKind,
    /// In which queue; `None` if it is not about a queue.
    pub queue: Option<QueueName>,
    /// About what, as [`IncidentKind`] says.
    pub key: String,
    /// Since when.
    pub since: Timestamp,
    /// How many jobs it concerns …
    pub count: u64,
    /// … and whether these come in addition to those known before.
    pub adds: bool,
    /// The type of the jobs, if they have the same.
    pub job_type: String,
    /// One sentence without a full stop.
    pub detail: String,
    /// A job that shows it.
    pub example: Option<IncidentExample>,
}

impl Observation {
    /// Creates an observation of no jobs, about nothing but the kind and the queue.
    pub fn new(kind: IncidentKind, queue: Option<&QueueName>, since: Timestamp) -> Self {
        Self {
            kind,
            queue: queue.cloned(),
            key: String::new(),
            since,
            count: 0,
            adds: false,
            job_type: String::new(),
            detail: String::new(),
            example: None,
        }
    }

    /// Sets what it is about, besides the kind and the queue.
    pub fn key(self, key: &str) -> Self {
        Self { key: plain_line(key, MAX_KEY_BYTES), ..self }
    }

    /// Sets how many jobs it concerns.
    pub fn count(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// Sets what is wrong, as one sentence without a full stop.
    pub fn detail(self, detail: &str) -> Self {
        Self { detail: plain_line(detail, MAX_TEXT_BYTES), ..self }
    }

    /// Sets a job that shows it, and its type.
    pub fn example(self, job_type: &str, example: IncidentExample) -> Self {
        Self { job_type: plain_line(job_type, MAX_KEY_BYTES), example: Some(example), ..self }
    }
}

impl IncidentKind {
    /// Returns the most incidents of this kind that a queue may have open at a time; the others share one.
    #[doc(hidden)]
    pub fn most_per_queue(self) -> usize {
        match self {
            Self::DeadGroup | Self::PoolDown | Self::CampaignStopped => 5,
            Self::DeadJob | Self::UnservedType | Self::RedisMemory => 20,
            Self::DeadRate
            | Self::Backlog
            | Self::NoWorker
            | Self::NeedsDecision
            | Self::QueuePaused
            | Self::HistoryBehind
            | Self::HistoryLost
            | Self::OutboxStuck => 1,
        }
    }

    /// Whether a queue may have several of this kind.
    pub(crate) fn is_one_of_several(self) -> bool {
        self != Self::RedisMemory && self.most_per_queue() > 1
    }
}

impl Incident {
    /// Returns true if it is about this.
    #[doc(hidden)]
    pub fn is_about(&self, kind: IncidentKind, queue: Option<&QueueName>, key: &str) -> bool {
        self.kind == kind && self.queue.as_ref() == queue && self.key == key
    }
}
