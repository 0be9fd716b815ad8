//! A made-up job: the fields of an entry that nobody has submitted.

use std::time::Duration;

use serde::Serialize;

use crate::job::{self, Encoding, EntryId, Envelope, Lane, Malformed, Policy, QueueName};
use crate::worker::Circumstances;

/// A job that nobody has submitted, for [`run`](super::run). All but the type is optional; the fields are read as those
/// of a real entry, so what breaks the wire contract ends as [`Outcome::Malformed`](job::Outcome::Malformed).
#[derive(Debug, Clone)]
#[must_use]
pub struct Job {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    queue: QueueName,
    lane: Lane,
    fence: EntryId,
    timeout: Duration,
    cut_after: Option<Duration>,
}

impl Job {
    /// A job of this type with an empty payload, at its first attempt, in the queue `default`.
    pub fn new(job_type: &str) -> Self {
        Self {
            fields: Vec::new(),
            queue: "default".parse().expect("default is a queue name"),
            lane: Lane::Normal,
            fence: EntryId::new(1_700_000_000_000, 0),
            timeout: Policy::default().timeout,
            cut_after: None,
        }
        .field("type", job_type)
    }

    /// A payload as JSON.
    ///
    /// # Panics
    ///
    /// Where `serde` cannot write it.
    pub fn json(self, payload: &impl Serialize) -> Self {
        self.field("payload", serde_json::to_vec(payload).expect("a payload that serde can write as JSON"))
    }

    /// A payload as MessagePack with field names, as the Rust producer writes it.
    ///
    /// # Panics
    ///
    /// Where `serde` cannot write it.
    pub fn msgpack(self, payload: &impl Serialize) -> Self {
        let bytes = rmp_serde::to_vec_named(payload).expect("a payload that serde can write as MessagePack");
        self.payload(bytes, Encoding::Msgpack)
    }

    /// A payload that is encoded already, or is not what it says.
    pub fn payload(self, bytes: impl Into<Vec<u8>>, encoding: Encoding) -> Self {
        self.field("payload", bytes).field("encoding", encoding.as_str())
    }

    /// An id of the job's own; by default it is derived from its entry.
    pub fn id(self, id: &str) -> Self {
        self.field("id", id)
    }

    /// The number of this attempt, from 1.
    pub fn attempt(self, attempt: u32) -> Self {
        self.field("attempt", attempt.saturating_sub(1).to_string())
    }

    /// How many workers the job has lost before.
    pub fn lost(self, workers: u32) -> Self {
        self.field("lost", workers.to_string())
    }

    /// A header.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.field(&format!("h.{name}"), value)
    }

    /// The submitter's W3C trace context.
    pub fn traceparent(self, traceparent: &str) -> Self {
        self.field("traceparent", traceparent)
    }

    /// The queue the job comes by.
    pub fn queue(self, queue: QueueName) -> Self {
        Self { queue, ..self }
    }

    /// The lane the job comes by.
    pub fn lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }

    /// The entry of this attempt, which is its fence.
    pub fn fence(self, fence: EntryId) -> Self {
        Self { fence, ..self }
    }

    /// How long the attempt may run, which also sets its deadline; default: that of [`Policy::default`].
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Cancels the attempt after this long, as a worker that stops does; zero: before it starts.
    pub fn cancel_after(self, pause: Duration) -> Self {
        Self { cut_after: Some(pause), ..self }
    }

    /// Any field of the wire contract, or one of the producer's own.
    pub fn field(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.fields.push((name.as_bytes().to_vec(), value.into()));
        self
    }

    /// What a worker makes of it.
    pub(super) fn deliver(self) -> (Result<(job::Job, Envelope), Malformed>, Circumstances) {
        let fields = self.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        let envelope = Envelope::new(fields);
        let job = job::Job::parse(&envelope, self.fence, self.lane);
        let Self { queue, timeout, cut_after, .. } = self;
        (job.map(|job| (job, envelope)), Circumstances { queue, timeout, cut_after })
    }
}
