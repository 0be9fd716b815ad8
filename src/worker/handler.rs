//! What a user implements: a [`Handler`] for one type of jobs, and what it sees of its job.

use std::fmt;
use std::future::Future;
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::delivery::Delivery;
use super::reporter::Reports;
use crate::event::{ChildEnding, Event};
use crate::job::{
    Encoding, EntryId, Failure, FailureKind, Job, JobId, JobType, Lane, QueueName, Retry, StepName,
    TraceContext, cut,
};

/// Runs the jobs of one type.
///
/// One value serves many jobs at once, so what it needs (a pool, a client) lives in its fields. The future is dropped
/// when the job's timeout passes or the job is cut short; what must not be cut belongs behind
/// [`JobContext::cancellation`], checked where stopping is safe. A handler that blocks its thread can't be stopped:
/// after the timeout another worker takes the job.
///
/// ```
/// use streamfleet::{Handler, JobContext, JobError};
///
/// #[derive(serde::Deserialize)]
/// struct Mail { to: String }
///
/// struct SendMail;
///
/// impl Handler for SendMail {
///     type Payload = Mail;
///     type Output = ();
///
///     async fn run(&self, mail: Mail, context: JobContext) -> Result<(), JobError> {
///         if !mail.to.contains('@') {
///             return Err(JobError::fatal("not an address"));
///         }
///         let port: u16 = "25".parse()?; // any error is a failure that is tried again
///         let _ = (port, context.attempt());
///         Ok(())
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// What the payload is decoded into. A payload that does not fit buries the job as `fatal`.
    type Payload: Payload + Send;
    /// What success returns, kept as JSON (at most [`MAX_RESULT_BYTES`]) in the record of a tracked job.
    type Output: Serialize + Send;

    /// Runs one attempt.
    fn run(
        &self,
        payload: Self::Payload,
        context: JobContext,
    ) -> impl Future<Output = Result<Self::Output, JobError>> + Send;

    /// How long an attempt may go on after its [cancellation](JobContext::cancellation), to end in good order. Then its
    /// future is dropped. Default: not at all.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }
}

/// A greater result is cut off from the record; the job is done all the same.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;

/// How a payload becomes a value. Every `serde` type is one; [`RawPayload`] is the bytes as they came.
pub trait Payload: Sized {
    /// Decodes a payload.
    ///
    /// # Errors
    ///
    /// What is wrong with the bytes, in words.
    fn decode(bytes: Bytes, encoding: Encoding) -> Result<Self, String>;
}

/// MessagePack nested deeper than this is refused. `serde_json` has a limit of 128 of its own.
const MAX_DEPTH: usize = 64;

impl<T: DeserializeOwned> Payload for T {
    fn decode(bytes: Bytes, encoding: Encoding) -> Result<Self, String> {
        match encoding {
            Encoding::Json => {
                // An absent payload is JSON's null, so that a handler without a payload takes `()`.
                let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
                serde_json::from_slice(text)
                    .map_err(|error| format!("the payload is not the expected JSON: {error}"))
            }
            Encoding::Msgpack => {
                // As with JSON, an absent payload is nil.
                let bytes = if bytes.is_empty() { Bytes::from_static(&[0xc0]) } else { bytes };
                let mut decoder = rmp_serde::Deserializer::new(Cursor::new(&bytes));
                decoder.set_max_depth(MAX_DEPTH);
                let value = T::deserialize(&mut decoder)
                    .map_err(|error| format!("the payload is not the expected MessagePack: {error}"))?;
                let left = (bytes.len() as u64).saturating_sub(decoder.position());
                (left == 0)
                    .then_some(value)
                    .ok_or_else(|| format!("{left} bytes follow the MessagePack payload"))
            }
            Encoding::Raw => Err("the encoding is raw, but this handler expects json or msgpack".to_owned()),
        }
    }
}

/// A payload's bytes as they came, whatever their encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPayload(pub Bytes);

impl Payload for RawPayload {
    fn decode(bytes: Bytes, _encoding: Encoding) -> Result<Self, String> {
        Ok(Self(bytes))
    }
}

/// What a handler sees of its job, beside the payload.
#[derive(Debug, Clone)]
pub struct JobContext {
    delivery: Arc<Delivery>,
    reports: Arc<Reports>,
    deadline: Instant,
    tracked: bool,
    step: Option<Arc<StepView>>,
}

/// What a handler sees of the step that it runs.
#[derive(Debug)]
pub(super) struct StepView {
    pub(super) name: StepName,
    /// Runs that counted before this one.
    pub(super) attempts: u32,
    /// Cancelled when the step is cut short.
    pub(super) token: CancellationToken,
    /// What the steps returned that are done, as JSON.
    pub(super) results: Vec<(StepName, Bytes)>,
    /// Its span, where it has one.
    pub(super) trace: Option<TraceContext>,
}

impl JobContext {
    /// The context of one attempt. `tracked` jobs have a record, whether they say something or not.
    pub(crate) fn new(
        delivery: Arc<Delivery>,
        reports: Arc<Reports>,
        deadline: Instant,
        tracked: bool,
    ) -> Self {
        Self { delivery, reports, deadline, tracked, step: None }
    }

    /// The context of one step of the job.
    pub(super) fn in_step(self, step: StepView) -> Self {
        Self { step: Some(Arc::new(step)), ..self }
    }

    /// The same as if a step ran.
    #[cfg(test)]
    pub(crate) fn with_step(self, name: &str) -> Self {
        let (name, token) = (name.parse().expect("a step's name"), CancellationToken::new());
        self.in_step(StepView { name, attempts: 0, token, results: Vec::new(), trace: None })
    }

    /// The context of a job that nobody delivered.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn undelivered(
        job: Job,
        envelope: crate::job::Envelope,
        queue: QueueName,
        deadline: Instant,
    ) -> Self {
        let tracked = job.tracking == Some(crate::job::Tracking::All);
        let delivery = Delivery::new(job, envelope, super::lease::HeldLease::new(Instant::now()));
        Self::new(
            Arc::new(delivery),
            Arc::new(Reports::new(queue, crate::event::Events::default())),
            deadline,
            tracked,
        )
    }

    /// What was said so far: the progress, and the lines.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn said(&self) -> (Option<(u8, String)>, Vec<String>) {
        let Some(saying) = self.delivery.report.saying(self.job()) else { return (None, Vec::new()) };
        let lines = saying.lines.into_iter().map(|line| line.text).collect();
        (saying.progress.map(|(_, percent, note)| (percent, note)), lines)
    }

    #[cfg(feature = "testing")]
    pub(crate) fn held_lease(&self) -> &super::lease::HeldLease {
        &self.delivery.held_lease
    }

    pub(crate) fn job(&self) -> &Job {
        &self.delivery.job
    }

    /// Tells how a program ended that the handler ran.
    pub(crate) fn child_ended(&self, ending: ChildEnding) {
        self.reports.events.tell(&Event::ChildEnded { job_type: self.job_type(), ending });
    }

    /// Notes that what the handler is about to say is not the consequence of a cut, though it watches its cancellation.
    pub(crate) fn ended_by_itself(&self) {
        self.delivery.held_lease.untell();
    }

    /// The job's id, the same over all attempts: a good idempotency key.
    pub fn id(&self) -> &JobId {
        &self.job().id
    }

    /// The job's type.
    pub fn job_type(&self) -> &JobType {
        &self.job().job_type
    }

    /// The queue the job came by.
    pub fn queue(&self) -> &QueueName {
        &self.reports.queue
    }

    /// The lane the job came by.
    pub fn lane(&self) -> Lane {
        self.job().lane
    }

    /// The step that runs, where the job is made of steps.
    pub fn step(&self) -> Option<&StepName> {
        self.step.as_ref().map(|step| &step.name)
    }

    /// What a step of this job returned that is done by now; `None` where it is not, or its result was too long to be
    /// kept. Say `after` for the steps whose results you need.
    ///
    /// # Errors
    ///
    /// What `serde_json` says where the result is no `T`.
    pub fn step_result<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, serde_json::Error> {
        let results = self.step.iter().flat_map(|view| &view.results);
        let found = results.filter(|(name, _)| name.as_str() == step).map(|(_, json)| json).next();
        found.map(|json| serde_json::from_slice(json)).transpose()
    }

    /// The number of this attempt, from 1; of the step, where the job is made of steps. Attempts that were interrupted, or
    /// lost their worker, do not count.
    pub fn attempt(&self) -> u32 {
        let before = self.step.as_ref().map_or(self.job().attempt, |step| step.attempts);
        before.saturating_add(1)
    }

    /// False on the first delivery of a job: then nobody has run it before.
    pub fn is_redelivered(&self) -> bool {
        self.job().is_repeated()
    }

    /// A number that grows with every attempt of a job: store it with an effect, and refuse effects with a smaller one.
    pub fn fence(&self) -> EntryId {
        self.job().entry
    }

    /// How the payload was written.
    pub fn encoding(&self) -> Encoding {
        self.job().encoding
    }

    /// When this attempt's time is up.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Time left for this attempt.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Cancelled when the attempt is cut short: by its timeout, by shutdown, because its lease is lost, or because
    /// somebody cancelled the job.
    pub fn cancellation(&self) -> &CancellationToken {
        self.delivery.held_lease.tell();
        self.step.as_ref().map_or_else(|| self.delivery.held_lease.token(), |step| &step.token)
    }

    /// Says how far the job is: a number from 0 to 100 and a few words (at most 200 bytes), for `status`. Cheap, and never
    /// waits: only the latest progress is written, about twice a second and at the attempt's end. A job that would leave
    /// no record leaves one once it says something.
    pub fn progress(&self, percent: u8, note: &str) {
        self.reports.progress(&self.delivery, percent, note);
    }

    /// Logs a line (at most 1 KiB) for those who look at this job. As cheap as [`JobContext::progress`]; the record keeps
    /// the last 100 lines of all attempts, and of more than these between two writes the oldest are lost.
    pub fn log(&self, text: &str) {
        self.reports.log(&self.delivery, text);
    }

    /// True where the job has a record already, so that it costs nothing more to say something.
    pub(crate) fn has_record(&self) -> bool {
        self.tracked || self.delivery.report.is_used()
    }

    /// The headers (`h.<name>` fields) in the producer's order. Values that are not UTF-8 are left out.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.delivery.envelope.fields().filter_map(|(name, value)| {
            let name = std::str::from_utf8(name).ok()?.strip_prefix("h.")?;
            Some((name, std::str::from_utf8(value).ok()?))
        })
    }

    /// The header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(header, _)| *header == name).map(|(_, value)| value)
    }

    /// The W3C trace context for what this attempt calls: its span's, or its step's, where attempts have spans, else the submitter's as
    /// it came, if it sent one.
    pub fn traceparent(&self) -> Option<&str> {
        let step = self.step.as_ref().and_then(|step| step.trace.as_ref());
        if let Some(trace) = step.or_else(|| self.delivery.trace()) {
            return Some(trace.as_str());
        }
        self.delivery.envelope.get(b"traceparent").and_then(|value| std::str::from_utf8(value).ok())
    }
}

/// Why a handler did not succeed, and what should follow. Every error becomes one by `?`, and is tried again.
pub struct JobError(Kind);

enum Kind {
    Failed(Failure),
    Snooze(Duration),
    Drop(String),
}

impl JobError {
    /// A failure to be tried again as the type's policy says.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::failed(error, Retry::Policy)
    }

    /// A failure to be tried again, not sooner than after `delay`.
    pub fn retry_after(delay: Duration, error: impl fmt::Display) -> Self {
        Self::failed(error, Retry::After(delay))
    }

    /// A failure that no further attempt can mend: the job is buried at once.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self::failed(error, Retry::Never)
    }

    /// A failure of which nobody knows whether the work was done: an answer was lost, or what does the work was killed. It
    /// is tried again as the type's policy says; a step that must not run twice is [unknown](crate::job::StepState::Unknown)
    /// by it, and a person decides.
    pub fn unknown(error: impl fmt::Display) -> Self {
        Self(Kind::Failed(Failure::new(FailureKind::Unknown, error.to_string(), Retry::Policy)))
    }

    /// Not a failure: run this job again after `delay`. No attempt is spent.
    pub fn snooze(delay: Duration) -> Self {
        Self(Kind::Snooze(delay))
    }

    /// The failure, where it is one. To snooze or to drop is none.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.0 {
            Kind::Failed(failure) => Some(failure),
            Kind::Snooze(_) | Kind::Drop(_) => None,
        }
    }

    /// Nobody wants this job any more: it ends as cancelled, neither done nor dead, with this reason in its record.
    pub fn drop_job(reason: impl fmt::Display) -> Self {
        Self(Kind::Drop(cut(reason.to_string(), Failure::MAX_ERROR_BYTES)))
    }

    /// The same failure, of which nobody knows whether the work was done.
    #[cfg(feature = "http")]
    pub(crate) fn and_unknown(mut self) -> Self {
        if let Kind::Failed(failure) = &mut self.0 {
            failure.kind = FailureKind::Unknown;
        }
        self
    }

    fn failed(error: impl fmt::Display, retry: Retry) -> Self {
        Self(Kind::Failed(Failure::new(FailureKind::Error, error.to_string(), retry)))
    }

    pub(crate) fn into_outcome(self) -> crate::job::Outcome {
        match self.0 {
            Kind::Failed(failure) => crate::job::Outcome::Failed(failure),
            Kind::Snooze(delay) => crate::job::Outcome::Snoozed(delay),
            Kind::Drop(reason) => crate::job::Outcome::Dropped(reason),
        }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Failed(failure) => write!(out, "{} ({:?})", failure.error, failure.retry),
            Kind::Snooze(delay) => write!(out, "snooze for {delay:?}"),
            Kind::Drop(reason) => write!(out, "drop the job: {reason}"),
        }
    }
}

impl From<Failure> for JobError {
    fn from(failure: Failure) -> Self {
        Self(Kind::Failed(failure))
    }
}

impl<E: std::error::Error> From<E> for JobError {
    fn from(error: E) -> Self {
        use std::fmt::Write;
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            write!(text, ": {cause}").expect("a String takes every write");
            source = cause.source();
        }
        Self::retry(text)
    }
}
