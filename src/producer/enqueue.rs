//! One typed job on its way to Redis: options first, then `await`.

use std::future::{Future, IntoFuture};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

use super::{Durability, Producer, Submission, SubmitError, Submitted, UniqueMode, UniqueScope};
use crate::job::{Job, JobId, Lane, Priority, Timestamp, Tracking, UniqueKey};

/// A job that [`Producer::enqueue`] prepared. Awaiting it submits the job and returns its id; see the
/// [example](Producer::enqueue).
///
/// Its methods are those of [`Submission`]. An error, such as a payload that cannot be encoded, comes from the `await`.
#[must_use = "the job is submitted when this is awaited"]
pub struct Enqueue<'a> {
    producer: &'a Producer,
    submission: Result<Submission, SubmitError>,
}

impl Producer {
    /// Prepares a job of the payload's own type. Awaiting the answer submits it.
    ///
    /// ```no_run
    /// # async fn example(producer: streamfleet::Producer) -> Result<(), streamfleet::SubmitError> {
    /// use std::time::Duration;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Mail { to: String }
    ///
    /// impl streamfleet::Job for Mail {
    ///     const TYPE: &str = "mail.send";
    /// }
    ///
    /// let mail = Mail { to: "ann@example.com".to_owned() };
    /// let id = producer.enqueue(&mail).delay(Duration::from_secs(60)).await?;
    /// # let _ = id; Ok(()) }
    /// ```
    pub fn enqueue<J: Job + Serialize>(&self, job: &J) -> Enqueue<'_> {
        Enqueue { producer: self, submission: Submission::of(job) }
    }

    /// Submits many jobs of one type in few round trips, and returns their ids in the same order.
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::submit_all`]; nothing is submitted if a payload cannot be encoded.
    pub async fn enqueue_all<'j, J: Job + Serialize + 'j>(
        &self,
        jobs: impl IntoIterator<Item = &'j J>,
    ) -> Result<Vec<JobId>, SubmitError> {
        let submissions: Vec<Submission> = jobs.into_iter().map(Submission::of).collect::<Result<_, _>>()?;
        self.submit_all(submissions).await
    }
}

/// Methods of [`Submission`], by their names and arguments.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),+);)+) => {
        $($(#[$doc])* pub fn $name(self, $($arg: $type),+) -> Self {
            Self { submission: self.submission.map(|submission| submission.$name($($arg),+)), ..self }
        })+
    };
}

impl Enqueue<'_> {
    options! {
        /// Delays the job by this long from now, by the server's clock.
        delay(delay: Duration);
        /// Delays the job until this instant of the server's clock.
        at(time: Timestamp);
        /// Sets the lane; the default is the normal one.
        lane(lane: Lane);
        /// Sets the lane by a number from 1 to 10. See [`Submission::priority`].
        priority(priority: Priority);
        /// Sets the producer's own id for the job. See [`Submission::id`].
        id(id: JobId);
        /// Sets how long from now another job with this id is refused. See [`Submission::idempotent_for`].
        idempotent_for(window: Duration);
        /// Keeps out other jobs with this key, or replaces them. See [`Submission::unique`].
        unique(key: UniqueKey, scope: UniqueScope, mode: UniqueMode);
        /// Sets where the job must be kept before its submission succeeds.
        durability(durability: Durability);
        /// Sets how many failures bury this job, in place of the type's limit.
        max_attempts(attempts: NonZeroU32);
        /// Sets how long one attempt of this job may run, in place of the type's limit: 1 ms to 7 days.
        timeout(timeout: Duration);
        /// Sets the instant of the server's clock after which the job no longer starts and is buried as expired.
        expires_at(time: Timestamp);
        /// Sets whether the job leaves a record, in place of its type's tracking.
        tracking(tracking: Tracking);
        /// Sets the submitter's W3C trace context. See [`Submission::traceparent`].
        traceparent(traceparent: &str);
        /// Sets what belongs to it. See [`Submission::tracestate`].
        tracestate(tracestate: &str);
    }

    /// Adds a header for the handler. A name has 1 to 128 bytes, a value at most 8192.
    pub fn header(self, name: &str, value: &str) -> Self {
        Self { submission: self.submission.and_then(|submission| submission.header(name, value)), ..self }
    }

    /// Submits the job, and returns whether it is new or in which state it was found.
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::submit_or_find`].
    pub async fn or_find(self) -> Result<Submitted, SubmitError> {
        self.producer.submit_or_find(self.submission?).await
    }
}

impl<'a> IntoFuture for Enqueue<'a> {
    type Output = Result<JobId, SubmitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.producer.submit(self.submission?).await })
    }
}
