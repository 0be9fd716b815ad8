//! A job as its submitter describes it, before it is sent.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::SubmitError;
use crate::broker::{Due, Durability, NewJob, Unique, UniqueMode, UniqueScope};
use crate::job::{
    Encoding, Envelope, Job, JobId, JobType, Lane, Priority, Timestamp, TraceState, Tracking, UniqueKey,
    type_of,
};
use crate::sabotage::{self, Sabotage};
use crate::traces::Trace;

/// The largest payload. Redis is for the job, not for its data: store large data elsewhere and send its address.
pub const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// How long a job's own id is remembered, unless the submission sets another time.
const WINDOW: Duration = Duration::from_secs(24 * 3600);

const LONGEST_WINDOW: Duration = Duration::from_secs(365 * 24 * 3600);

/// A job to be submitted. Everything except the type is optional.
///
/// ```
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use streamfleet::{Durability, Submission, UniqueMode, UniqueScope};
///
/// let report = Submission::new("report.generate")?
///     .json(&"2026-11")?
///     .delay(Duration::from_secs(60))
///     .unique("report-2026-11".parse()?, UniqueScope::Running, UniqueMode::Reject)
///     .durability(Durability::Replicas(1));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Submission {
    pub(super) job: NewJob,
    pub(super) id: Option<JobId>,
    /// How long the id is remembered.
    pub(super) window: Duration,
    pub(super) unique: Option<Box<Unique>>,
    pub(super) durability: Durability,
    /// The bytes of all names and values together.
    pub(super) bytes: usize,
    pub(super) payload_bytes: usize,
}

impl Submission {
    /// Creates a job of this type with an empty payload.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Name`] if the type breaks the rule for types.
    pub fn new(job_type: &str) -> Result<Self, SubmitError> {
        Ok(Self::of_type(&job_type.parse()?))
    }

    fn of_type(job_type: &JobType) -> Self {
        let (lane, fields) = (Lane::Normal, Vec::with_capacity(3));
        let job = NewJob { lane, priority: None, due: Due::Now, fields, generation: 0 };
        Self {
            job,
            id: None,
            window: WINDOW,
            unique: None,
            durability: Durability::Memory,
            bytes: 0,
            payload_bytes: 0,
        }
        .field("type", job_type.as_str())
    }

    /// Creates a job of the payload's own type.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Payload`] if `serde` cannot encode the payload, [`SubmitError::TooLarge`] if it is too large.
    pub fn of<J: Job + Serialize>(job: &J) -> Result<Self, SubmitError> {
        const {
            assert!(
                !matches!(J::ENCODING, Encoding::Raw),
                "serde does not write raw bytes: use `Submission::payload`"
            )
        };
        let submission = Self::of_type(&type_of::<J>());
        match J::ENCODING {
            Encoding::Msgpack => submission.msgpack(job),
            Encoding::Json | Encoding::Raw => submission.json(job),
        }
    }

    /// Sets the payload as MessagePack with field names, which is compact.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Payload`] if `serde` cannot encode it, [`SubmitError::TooLarge`] if it is too large.
    pub fn msgpack(self, payload: &impl Serialize) -> Result<Self, SubmitError> {
        let bytes =
            rmp_serde::to_vec_named(payload).map_err(|error| SubmitError::Payload(error.to_string()))?;
        self.payload(bytes, Encoding::Msgpack)
    }

    /// Sets the payload as JSON, which every language can read.
    ///
    /// # Errors
    ///
    /// The errors of [`Submission::msgpack`].
    pub fn json(self, payload: &impl Serialize) -> Result<Self, SubmitError> {
        let bytes = serde_json::to_vec(payload).map_err(|error| SubmitError::Payload(error.to_string()))?;
        self.payload(bytes, Encoding::Json)
    }

    /// Sets a payload that is already encoded.
    ///
    /// # Errors
    ///
    /// [`SubmitError::TooLarge`] if it is too large.
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
        // The wire contract assumes JSON.
        Ok(if encoding == Encoding::Json { self } else { self.field("encoding", encoding.as_str()) })
    }

    /// Sets the producer's own id for the job.
    ///
    /// It serves for status lookups and as an idempotency key for handlers. If the job is sent again, the answer is the
    /// first one. Sending an id that looks like a stream entry's is refused.
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets how long from now another job with this id is refused, even if the first one ends sooner.
    ///
    /// At most a year, 24 hours by default. As long as the first one has not ended, no other is accepted in any case.
    #[must_use]
    pub fn idempotent_for(mut self, window: Duration) -> Self {
        self.window = window.min(LONGEST_WINDOW);
        self
    }

    /// Keeps out other jobs with this key, or replaces them, depending on scope and mode. The job leaves a record.
    #[must_use]
    pub fn unique(mut self, key: UniqueKey, scope: UniqueScope, mode: UniqueMode) -> Self {
        let scope = match scope {
            UniqueScope::Window(window) => UniqueScope::Window(window.min(LONGEST_WINDOW)),
            UniqueScope::Waiting | UniqueScope::Running => scope,
        };
        self.unique = Some(Box::new(Unique { key, scope, mode }));
        self
    }

    /// Sets where the job must be kept before its submission succeeds. Jobs that are submitted together wait together.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Refuses a job with more fields than a worker accepts.
    ///
    /// The limit is [`Envelope::MAX_FIELDS`], including the fields that the submission adds: an id, a generation, a mark and
    /// a trace. [`Producer`](super::Producer) makes the same check before it sends anything.
    ///
    /// # Errors
    ///
    /// [`SubmitError::TooManyFields`].
    pub fn fits(&self) -> Result<(), SubmitError> {
        let has_lock = self.unique.is_some();
        let has_id = self.id.is_some() || has_lock || self.job.due != Due::Now;
        // An id and a generation, `once`, the lock's key and scope. Jobs without a trace context get one.
        let trace = usize::from(!self.has("traceparent"));
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

    /// The size of the payload in bytes, as it is sent.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Sets the lane; the default is the normal one. It replaces a [priority](Submission::priority).
    #[must_use]
    pub fn lane(mut self, lane: Lane) -> Self {
        (self.job.lane, self.job.priority) = (lane, None);
        self
    }

    /// Sets the lane by a number from 1 to 10, in place of [`Submission::lane`], and the job's place among the delayed jobs
    /// of that lane that are due in the same millisecond. See [`Priority`].
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        (self.job.lane, self.job.priority) = (priority.lane(), Some(priority));
        self
    }

    /// Delays the job by this long from now, by the server's clock.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.job.due = Due::In(delay);
        self
    }

    /// Delays the job until this instant of the server's clock.
    #[must_use]
    pub fn at(mut self, time: Timestamp) -> Self {
        self.job.due = Due::At(time);
        self
    }

    /// Sets how many failures bury this job, in place of the type's limit.
    #[must_use]
    pub fn max_attempts(self, attempts: std::num::NonZeroU32) -> Self {
        self.field("max_attempts", &attempts.to_string())
    }

    /// Sets how long one attempt of this job may run, in place of the type's limit: 1 ms to 7 days.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        let longest = crate::job::JobSpec::LONGEST_TIMEOUT;
        let timeout = timeout.clamp(Duration::from_millis(1), longest);
        self.field("timeout_ms", &timeout.as_millis().to_string())
    }

    /// Sets the instant of the server's clock after which the job no longer starts and is buried as expired.
    #[must_use]
    pub fn expires_at(self, time: Timestamp) -> Self {
        self.field("expires_at_ms", &time.as_ms().to_string())
    }

    /// Sets whether the job leaves a record, in place of its type's tracking.
    #[must_use]
    pub fn tracking(mut self, tracking: Tracking) -> Self {
        self.job.fields.retain(|(name, _)| name != "tracking");
        self.field("tracking", tracking.as_str())
    }

    /// Adds a header for the handler.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Header`] if the name or the value is out of bounds.
    pub fn header(self, name: &str, value: &str) -> Result<Self, SubmitError> {
        let fits = !name.is_empty() && name.len() <= 128 && value.len() <= 8192;
        fits.then(|| self.field(&format!("h.{name}"), value))
            .ok_or_else(|| SubmitError::Header(name.to_owned()))
    }

    /// Sets the submitter's W3C trace context. Without it, the job gets that of the OpenTelemetry span in which it is
    /// submitted, if there is one (feature `otlp`).
    #[must_use]
    pub fn traceparent(self, traceparent: &str) -> Self {
        self.field("traceparent", traceparent)
    }

    /// Sets the `tracestate` that belongs to the submitter's [`Submission::traceparent`]. It travels as a header. One that
    /// breaks the standard, or has more than 512 characters or 32 members, is dropped.
    #[must_use]
    pub fn tracestate(self, tracestate: &str) -> Self {
        match TraceState::parse(tracestate.as_bytes()).filter(|_| !self.has(TraceState::FIELD)) {
            Some(state) => self.field(TraceState::FIELD, state.as_str()),
            None => self,
        }
    }

    /// Sets the trace context, unless the job already has one.
    pub(super) fn belong_to(&mut self, trace: &Trace) {
        if self.has("traceparent") {
            return;
        }
        self.push("traceparent", trace.context.as_str());
        if let Some(state) = trace.state.as_ref().filter(|_| !self.has(TraceState::FIELD)) {
            self.push(TraceState::FIELD, state.as_str());
            // A job that fits without it must not be refused because of it.
            if self.fits().is_err()
                && let Some((name, value)) = self.job.fields.pop()
            {
                self.bytes -= name.len() + value.len();
            }
        }
    }

    fn has(&self, field: &str) -> bool {
        self.job.fields.iter().any(|(name, _)| name == field)
    }

    pub(super) fn field(mut self, name: &str, value: &str) -> Self {
        self.push(name, value);
        self
    }

    fn push(&mut self, name: &str, value: &str) {
        self.bytes += name.len() + value.len();
        let pair = (Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
        self.job.fields.push(pair);
    }
}
