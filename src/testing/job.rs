//! A made-up job: the fields of an entry that was never submitted.

use std::time::Duration;

use serde::Serialize;

use crate::job::{self, Encoding, EntryId, Envelope, Lane, Malformed, Policy, QueueName};
use crate::worker::InlineOptions;

/// A made-up job for [`run`](super::run). Everything except the type is optional. The fields are read like those of a
/// real entry, so a job that breaks the wire contract ends as [`Outcome::Malformed`](job::Outcome::Malformed).
#[derive(Debug, Clone)]
#[must_use]
pub struct TestJob {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    queue: QueueName,
    lane: Lane,
    fence: EntryId,
    timeout: Duration,
    cut_after: Option<Duration>,
}

impl TestJob {
    /// Creates a job of this type with an empty payload, at its first attempt, in the queue `default`.
    pub fn new(job_type: &str) -> Self {
        Self {
            fields: Vec::new(),
            queue: "default".parse().expect("default is a valid queue name"),
            lane: Lane::Normal,
            fence: EntryId::new(1_700_000_000_000, 0),
            timeout: Policy::default().timeout,
            cut_after: None,
        }
        .field("type", job_type)
    }

    /// Sets the payload, encoded as JSON.
    ///
    /// # Panics
    ///
    /// If `serde` cannot encode it.
    pub fn json(self, payload: &impl Serialize) -> Self {
        self.field("payload", serde_json::to_vec(payload).expect("a payload that serde can write as JSON"))
    }

    /// Sets the payload, encoded as MessagePack with field names, as the Rust producer does.
    ///
    /// # Panics
    ///
    /// If `serde` cannot encode it.
    pub fn msgpack(self, payload: &impl Serialize) -> Self {
        let bytes = rmp_serde::to_vec_named(payload).expect("a payload that serde can write as MessagePack");
        self.payload(bytes, Encoding::Msgpack)
    }

    /// Sets a payload that is already encoded, or that does not match its encoding.
    pub fn payload(self, bytes: impl Into<Vec<u8>>, encoding: Encoding) -> Self {
        self.field("payload", bytes).field("encoding", encoding.as_str())
    }

    /// Sets the job's id. By default it is derived from the entry.
    pub fn id(self, id: &str) -> Self {
        self.field("id", id)
    }

    /// Sets the number of this attempt, from 1.
    pub fn attempt(self, attempt: u32) -> Self {
        self.field("attempt", attempt.saturating_sub(1).to_string())
    }

    /// Sets how many workers were lost while they ran this job.
    pub fn lost(self, workers: u32) -> Self {
        self.field("lost", workers.to_string())
    }

    /// Adds a header.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.field(&format!("h.{name}"), value)
    }

    /// Sets the submitter's W3C trace context.
    pub fn traceparent(self, traceparent: &str) -> Self {
        self.field("traceparent", traceparent)
    }

    /// Sets the `tracestate` that belongs to it.
    pub fn tracestate(self, tracestate: &str) -> Self {
        self.header("tracestate", tracestate)
    }

    /// Sets the queue that delivers the job.
    pub fn queue(self, queue: QueueName) -> Self {
        Self { queue, ..self }
    }

    /// Sets the lane that delivers the job.
    pub fn lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }

    /// Sets the entry of this attempt, which is its fence.
    pub fn fence(self, fence: EntryId) -> Self {
        Self { fence, ..self }
    }

    /// Sets how long the attempt may run, and thereby its deadline. The default is that of [`Policy::default`].
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Cancels the attempt after this long, as a worker that stops does. With zero it is cancelled before it starts.
    pub fn cancel_after(self, pause: Duration) -> Self {
        Self { cut_after: Some(pause), ..self }
    }

    /// Sets any field of the wire contract, or one of the producer's own.
    pub fn field(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.fields.push((name.as_bytes().to_vec(), value.into()));
        self
    }

    /// Returns the job as a worker would read it.
    pub(super) fn deliver(self) -> (Result<(job::JobSpec, Envelope), Malformed>, InlineOptions) {
        let fields = self.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        let envelope = Envelope::new(fields);
        let job = job::JobSpec::parse(&envelope, self.fence, self.lane);
        let Self { queue, timeout, cut_after, .. } = self;
        (job.map(|job| (job, envelope)), InlineOptions { queue, timeout, cut_after })
    }
}
