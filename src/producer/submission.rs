//! A job as its submitter describes it, before it is sent.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::{MAX_PAYLOAD_BYTES, SubmitError};
use crate::broker::{Due, Durability, NewJob, Unique, UniqueMode, UniqueScope};
use crate::job::{Encoding, Envelope, JobId, JobType, Lane, Timestamp, TraceContext, Tracking, UniqueKey};
use crate::sabotage::{self, Sabotage};

/// For how long an own id is remembered, unless the submission says otherwise.
const WINDOW: Duration = Duration::from_secs(24 * 3600);

const LONGEST_WINDOW: Duration = Duration::from_secs(365 * 24 * 3600);

/// A job to be submitted. Everything but the type is optional.
#[derive(Debug, Clone)]
pub struct Submission {
    pub(super) job: NewJob,
    pub(super) id: Option<JobId>,
    /// For how long the id is remembered.
    pub(super) window: Duration,
    pub(super) unique: Option<Box<Unique>>,
    pub(super) durability: Durability,
    /// Names and values together.
    pub(super) bytes: usize,
    pub(super) payload_bytes: usize,
}

impl Submission {
    /// A job of this type with an empty payload.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Name`] where the type breaks the rule for types.
    pub fn new(job_type: &str) -> Result<Self, SubmitError> {
        let job_type: JobType = job_type.parse()?;
        let job = NewJob { lane: Lane::Normal, due: Due::Now, fields: Vec::with_capacity(3), life: 0 };
        Ok(Self {
            job,
            id: None,
            window: WINDOW,
            unique: None,
            durability: Durability::Memory,
            bytes: 0,
            payload_bytes: 0,
        }
        .field("type", job_type.as_str()))
    }

    /// A payload as MessagePack with field names, the compact form.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Payload`] where `serde` cannot write it, [`SubmitError::TooLarge`] where it is.
    pub fn msgpack(self, payload: &impl Serialize) -> Result<Self, SubmitError> {
        let bytes =
            rmp_serde::to_vec_named(payload).map_err(|error| SubmitError::Payload(error.to_string()))?;
        self.payload(bytes, Encoding::Msgpack)
    }

    /// A payload as JSON, the form that every language reads.
    ///
    /// # Errors
    ///
    /// As [`Submission::msgpack`].
    pub fn json(self, payload: &impl Serialize) -> Result<Self, SubmitError> {
        let bytes = serde_json::to_vec(payload).map_err(|error| SubmitError::Payload(error.to_string()))?;
        self.payload(bytes, Encoding::Json)
    }

    /// A payload that is encoded already.
    ///
    /// # Errors
    ///
    /// [`SubmitError::TooLarge`] where it is.
    pub fn payload(mut self, payload: impl Into<Bytes>, encoding: Encoding) -> Result<Self, SubmitError> {
        let mut payload = payload.into();
        if sabotage::is(Sabotage::PayloadCut) {
            payload.truncate(1 << 16);
        }
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(SubmitError::TooLarge { bytes: payload.len(), limit: MAX_PAYLOAD_BYTES });
        }
        self.bytes += payload.len();
        self.payload_bytes = payload.len();
        self.job.fields.push((Bytes::from_static(b"payload"), payload));
        // JSON is what the wire contract assumes.
        Ok(if encoding == Encoding::Json { self } else { self.field("encoding", encoding.as_str()) })
    }

    /// The producer's own id: for status look-ups, as an idempotency key for handlers, and so that sending the job again
    /// is answered with the first one. An id that looks like a stream entry's is refused when it is sent.
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// For how long from now a job of this id is not accepted again, also where the first one ends sooner; at most a year,
    /// and 24 hours by default. As long as the first one has not ended, it is not accepted in any case.
    #[must_use]
    pub fn idempotent_for(mut self, window: Duration) -> Self {
        self.window = window.min(LONGEST_WINDOW);
        self
    }

    /// Keeps other jobs of this key out, or takes their place, as scope and mode say. The job leaves a record.
    #[must_use]
    pub fn unique(mut self, key: UniqueKey, scope: UniqueScope, mode: UniqueMode) -> Self {
        let scope = match scope {
            UniqueScope::Window(window) => UniqueScope::Window(window.min(LONGEST_WINDOW)),
            UniqueScope::Waiting | UniqueScope::Running => scope,
        };
        self.unique = Some(Box::new(Unique { key, scope, mode }));
        self
    }

    /// Where the job must be kept before its submission counts as done. Jobs that are submitted together wait together.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Refuses a job with more fields than a worker takes: [`Envelope::MAX_FIELDS`], with those that its submission adds, which
    /// are an id, a life, a mark and a trace. [`Producer`](super::Producer) does so too, before it sends anything.
    ///
    /// # Errors
    ///
    /// [`SubmitError::TooManyFields`].
    pub fn fits(&self) -> Result<(), SubmitError> {
        let has_lock = self.unique.is_some();
        let has_id = self.id.is_some() || has_lock || self.job.due != Due::Now;
        // An id and a life, `once`, the lock's key and scope; a trace context is given to those that have none.
        let trace = usize::from(!self.job.fields.iter().any(|(name, _)| name == "traceparent"));
        let added =
            2 * usize::from(has_id) + usize::from(self.id.is_some() || has_lock) + 2 * usize::from(has_lock);
        let fields = self.job.fields.len() + added + trace;
        if fields <= Envelope::MAX_FIELDS {
            return Ok(());
        }
        let job_type = self.job.fields.iter().find(|(name, _)| name == "type");
        let job_type = job_type.map(|(_, value)| format!("of type {}", String::from_utf8_lossy(value)));
        let job = self.id.as_ref().map(ToString::to_string).or(job_type).unwrap_or_default();
        Err(SubmitError::TooManyFields { job, fields, limit: Envelope::MAX_FIELDS })
    }

    /// The size of the payload, in bytes, as it is sent.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// The lane to go by; default normal.
    #[must_use]
    pub fn lane(mut self, lane: Lane) -> Self {
        self.job.lane = lane;
        self
    }

    /// Not to run before this long from now, by the server's clock.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.job.due = Due::In(delay);
        self
    }

    /// Not to run before this instant of the server's clock.
    #[must_use]
    pub fn at(mut self, time: Timestamp) -> Self {
        self.job.due = Due::At(time);
        self
    }

    /// How many failures bury this job, in place of the type's limit.
    #[must_use]
    pub fn max_attempts(self, attempts: std::num::NonZeroU32) -> Self {
        self.field("max_attempts", &attempts.to_string())
    }

    /// How long one attempt of this job may run, in place of the type's limit; 1 ms to 7 days.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        let longest = crate::job::Job::LONGEST_TIMEOUT;
        let timeout = timeout.clamp(Duration::from_millis(1), longest);
        self.field("timeout_ms", &timeout.as_millis().to_string())
    }

    /// Not to start after this instant of the server's clock; then it is buried as expired.
    #[must_use]
    pub fn expires_at(self, time: Timestamp) -> Self {
        self.field("expires_at_ms", &time.as_ms().to_string())
    }

    /// Whether the job leaves a record, in place of its type's tracking.
    #[must_use]
    pub fn tracking(mut self, tracking: Tracking) -> Self {
        self.job.fields.retain(|(name, _)| name != "tracking");
        self.field("tracking", tracking.as_str())
    }

    /// A header for the handler.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Header`] where name or value are out of bounds.
    pub fn header(self, name: &str, value: &str) -> Result<Self, SubmitError> {
        let fits = !name.is_empty() && name.len() <= 128 && value.len() <= 8192;
        fits.then(|| self.field(&format!("h.{name}"), value))
            .ok_or_else(|| SubmitError::Header(name.to_owned()))
    }

    /// The submitter's W3C trace context. Without it, that of the span of OpenTelemetry in which the job is submitted, if it
    /// is in one (feature `otlp`).
    #[must_use]
    pub fn traceparent(self, traceparent: &str) -> Self {
        self.field("traceparent", traceparent)
    }

    /// Puts the job where its submitter is in a trace, unless it says itself where it belongs.
    pub(super) fn belong_to(&mut self, trace: &TraceContext) {
        if self.job.fields.iter().any(|(name, _)| name == "traceparent") {
            return;
        }
        let (name, value) =
            (Bytes::from_static(b"traceparent"), Bytes::copy_from_slice(trace.as_str().as_bytes()));
        self.bytes += name.len() + value.len();
        self.job.fields.push((name, value));
    }

    pub(super) fn field(mut self, name: &str, value: &str) -> Self {
        self.bytes += name.len() + value.len();
        let pair = (Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
        self.job.fields.push(pair);
        self
    }
}
