//! Submitting jobs from Rust. Other languages need no library: one `XADD` of the same fields is a submission.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use serde::Serialize;

use crate::broker::{self, Due, NewJob, Queue};
use crate::job::{Encoding, InvalidName, JobId, JobType, Lane, Timestamp, Tracking};

/// A greater payload is refused: Redis is for the job, not for its data. Put large data elsewhere and send its address.
pub const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// One round trip carries at most so many jobs …
const BATCH_JOBS: usize = 250;

/// … and about so many bytes.
const BATCH_BYTES: usize = 512 * 1024;

/// So many round trips are under way at once.
const IN_FLIGHT: usize = 4;

/// Why a job was not submitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The payload cannot be written in its encoding.
    #[error("the payload cannot be encoded: {0}")]
    Payload(String),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes, but at most {MAX_PAYLOAD_BYTES} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A header's name or value is not usable.
    #[error("the header {0:?} is refused: a name has 1 to 128 bytes, a value at most 8192")]
    Header(String),
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A job of this id waits in the delayed set. It stays as it is; the others of its batch were accepted.
    #[error("a job with the id {id} is scheduled already; it was left as it is")]
    AlreadyScheduled {
        /// The id.
        id: JobId,
    },
    /// Redis refused, or did not answer. After [`broker::Error::Unknown`] the job may have been accepted.
    #[error(transparent)]
    Broker(#[from] broker::Error),
}

/// A job to be submitted. Everything but the type is optional.
#[derive(Debug, Clone)]
pub struct Submission {
    job: NewJob,
    bytes: usize,
}

impl Submission {
    /// A job of this type with an empty payload.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Name`] where the type breaks the rule for types.
    pub fn new(job_type: &str) -> Result<Self, SubmitError> {
        let job_type: JobType = job_type.parse()?;
        let job = NewJob { id: None, lane: Lane::Normal, due: Due::Now, fields: Vec::with_capacity(3) };
        Ok(Self { job, bytes: 0 }.field("type", job_type.as_str()))
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
        let payload = payload.into();
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(SubmitError::TooLarge { bytes: payload.len() });
        }
        self.bytes += payload.len();
        self.job.fields.push((Bytes::from_static(b"payload"), payload));
        // JSON is what the wire contract assumes.
        Ok(if encoding == Encoding::Json { self } else { self.field("encoding", encoding.as_str()) })
    }

    /// The producer's own id, for status look-ups and as an idempotency key for handlers.
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.job.id = Some(id);
        self
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

    /// Whether the job leaves a record even if it never fails, in place of the type's tracking.
    #[must_use]
    pub fn tracking(self, tracking: Tracking) -> Self {
        let value = match tracking {
            Tracking::All => "all",
            Tracking::Failures => "failures",
        };
        self.field("tracking", value)
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

    /// The submitter's W3C trace context.
    #[must_use]
    pub fn traceparent(self, traceparent: &str) -> Self {
        self.field("traceparent", traceparent)
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        self.bytes += name.len() + value.len();
        let pair = (Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
        self.job.fields.push(pair);
        self
    }
}

/// Submits jobs to one queue. Clones share the connection.
#[derive(Clone)]
pub struct Producer {
    queue: Queue,
}

impl Producer {
    /// A producer for this queue.
    pub fn new(queue: Queue) -> Self {
        Self { queue }
    }

    /// Submits one job and returns its id.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Broker`] where Redis refuses or does not answer.
    pub async fn submit(&self, submission: Submission) -> Result<JobId, SubmitError> {
        let mut ids = self.send(vec![submission.job]).await?;
        ids.pop().ok_or_else(|| SubmitError::Payload("no id came back".to_owned()))
    }

    /// Submits many jobs, several round trips at a time, and returns their ids in the same order. `sent` is told how
    /// many more were accepted, each time some were.
    ///
    /// # Errors
    ///
    /// As [`Producer::submit`]. Jobs of earlier round trips are submitted even then.
    pub async fn submit_all(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
        mut sent: impl FnMut(usize),
    ) -> Result<Vec<JobId>, SubmitError> {
        let batches = Batches { submissions: submissions.into_iter().peekable() };
        let sending = futures_util::stream::iter(batches).map(|batch| self.send(batch)).buffered(IN_FLIGHT);
        let mut sending = std::pin::pin!(sending);
        let mut ids = Vec::new();
        while let Some(batch) = sending.try_next().await? {
            sent(batch.len());
            ids.extend(batch);
        }
        Ok(ids)
    }

    /// Sends jobs of one batch: those for now lane by lane, the others to the delayed set.
    async fn send(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, SubmitError> {
        let mut ids: Vec<Option<JobId>> = jobs.iter().map(|job| job.id.clone()).collect();
        let mut now: [Vec<(usize, NewJob)>; 3] = Default::default();
        let mut later = Vec::new();
        for (at, job) in jobs.into_iter().enumerate() {
            match job.due {
                Due::Now => now[job.lane as usize].push((at, job)),
                Due::In(_) | Due::At(_) => later.push((ids[at].get_or_insert_with(random_id).clone(), job)),
            }
        }
        for lane in now.into_iter().filter(|lane| !lane.is_empty()) {
            let (places, jobs): (Vec<_>, Vec<_>) = lane.into_iter().unzip();
            let lane = jobs[0].lane;
            for (place, entry) in places.into_iter().zip(self.queue.append(lane, &jobs).await?) {
                ids[place].get_or_insert(JobId::derived(entry, lane));
            }
        }
        if !later.is_empty() {
            self.schedule(&later).await?;
        }
        Ok(ids.into_iter().flatten().collect())
    }

    /// Scheduling twice does no harm, so a lost answer is met by sending once more.
    async fn schedule(&self, jobs: &[(JobId, NewJob)]) -> Result<(), SubmitError> {
        match self.queue.schedule(jobs).await {
            Err(broker::Error::Unknown { .. }) => {
                self.queue.schedule(jobs).await.map(drop).map_err(Into::into)
            }
            Ok(Some(id)) => Err(SubmitError::AlreadyScheduled { id }),
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Cuts submissions into round trips, by number and by size.
struct Batches<I: Iterator<Item = Submission>> {
    submissions: std::iter::Peekable<I>,
}

impl<I: Iterator<Item = Submission>> Iterator for Batches<I> {
    type Item = Vec<NewJob>;

    fn next(&mut self) -> Option<Vec<NewJob>> {
        let first = self.submissions.next()?;
        let (mut bytes, mut batch) = (first.bytes, vec![first.job]);
        while batch.len() < BATCH_JOBS
            && let Some(next) = self.submissions.next_if(|next| bytes + next.bytes <= BATCH_BYTES)
        {
            bytes += next.bytes;
            batch.push(next.job);
        }
        Some(batch)
    }
}

/// An id for a job that has no entry yet.
fn random_id() -> JobId {
    format!("{:032x}", rand::random::<u128>()).parse().expect("hexadecimal digits are an id")
}
