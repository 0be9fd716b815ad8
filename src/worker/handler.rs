//! What a user implements: a [`Handler`] for one job type, and what the handler sees of its job.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::JobError;
use super::decoding::Decoded;
use super::delivery::Delivery;
use super::reporter::Reports;
use crate::event::{ChildEnding, Event, ProgramEvent};
use crate::job::payload::read_msgpack;
use crate::job::{
    Codec, Encoding, EntryId, JobId, JobSpec, JobType, Lane, Policy, QueueName, StepKind, StepName,
    TraceContext, TraceState,
};

/// Runs the jobs of one type.
///
/// One value serves many jobs at once, so what it needs (a pool, a client) lives in its fields. The future is dropped
/// when the job's timeout passes or the job is cut short. Work that must not be cut off checks
/// [`JobContext::cancellation`] where stopping is safe, and gets the time to do so from [`Handler::grace`]. A handler
/// that blocks its thread cannot be stopped: after the timeout, another worker takes the job.
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
///         let port: u16 = "25".parse()?; // any error is a failure that is retried
///         let _ = (port, context.attempt());
///         Ok(())
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// What the payload is decoded into. A payload that does not fit buries the job as `fatal`.
    type Payload: Payload + Send;
    /// What success returns. The record of a tracked job keeps it as JSON (at most [`MAX_RESULT_BYTES`]).
    type Output: Serialize + Send;

    /// Runs one attempt.
    fn run(
        &self,
        payload: Self::Payload,
        context: JobContext,
    ) -> impl Future<Output = Result<Self::Output, JobError>> + Send;

    /// Returns how long an attempt may continue after its [cancellation](JobContext::cancellation), so that it can end
    /// gracefully. After that, its future is dropped. Default: zero.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns how attempts are limited and repeated, unless the fleet sets another policy for the type.
    fn policy(&self) -> Policy {
        Policy::default()
    }
}

/// The largest result in bytes that a record keeps. A job with a larger result is done all the same.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;

/// How a payload becomes a value; see the [example](Handler). Every `serde` type implements it. [`RawPayload`] takes the
/// bytes as they arrived.
pub trait Payload: Sized {
    /// Decodes a payload.
    ///
    /// # Errors
    ///
    /// What is wrong with the bytes, in words.
    fn decode(bytes: Bytes, encoding: Encoding) -> Result<Self, String>;
}

impl<T: DeserializeOwned> Payload for T {
    fn decode(bytes: Bytes, encoding: Encoding) -> Result<Self, String> {
        match encoding {
            Encoding::Json => {
                // A missing payload is JSON's null, so that a handler without a payload takes `()`.
                let text: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
                serde_json::from_slice(text)
                    .map_err(|error| format!("the payload is not the expected JSON: {error}"))
            }
            Encoding::Msgpack => {
                // As with JSON, a missing payload is nil.
                let bytes = if bytes.is_empty() { Bytes::from_static(&[0xc0]) } else { bytes };
                let (value, left) = read_msgpack(&bytes, PhantomData::<T>)
                    .map_err(|error| format!("the payload is not the expected MessagePack: {error}"))?;
                (left == 0)
                    .then_some(value)
                    .ok_or_else(|| format!("{left} bytes follow the MessagePack payload"))
            }
            Encoding::Raw => Err("the encoding is raw, but this handler expects json or msgpack".to_owned()),
        }
    }
}

/// A payload's bytes as they arrived, whatever their encoding.
///
/// ```
/// # use streamfleet::{Handler, JobContext, JobError, RawPayload};
/// # struct Measure;
/// impl Handler for Measure {
///     type Payload = RawPayload;
///     type Output = usize;
///
///     async fn run(&self, payload: RawPayload, _context: JobContext) -> Result<usize, JobError> {
///         Ok(payload.0.len())
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPayload(pub Bytes);

impl Payload for RawPayload {
    fn decode(bytes: Bytes, _encoding: Encoding) -> Result<Self, String> {
        Ok(Self(bytes))
    }
}

/// What a handler sees of its job, besides the payload.
///
/// ```
/// # use streamfleet::{JobContext, JobError};
/// async fn import(context: &JobContext) -> Result<(), JobError> {
///     for percent in 0..100 {
///         if context.cancellation().is_cancelled() {
///             return Err(JobError::retry("interrupted"));
///         }
///         context.progress(percent, "importing");
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct JobContext {
    delivery: Arc<Delivery>,
    reports: Arc<Reports>,
    deadline: Instant,
    tracked: bool,
    step: Option<Arc<StepView>>,
    /// What its payload was before codecs encoded it.
    decoded: Option<Arc<Decoded>>,
}

/// What a handler sees of the step that it runs.
#[derive(Debug)]
pub(super) struct StepView {
    pub(super) name: StepName,
    pub(super) kind: StepKind,
    /// Whether no other step has run in this attempt, nor runs: until this one begins, nor has the attempt.
    pub(super) is_first: bool,
    /// The number of runs that counted before this one.
    pub(super) attempts: u32,
    /// Cancelled when the step is cut short.
    pub(super) token: CancellationToken,
    /// Whether the handler knows, or may know, that the step is cut short.
    pub(super) aware: Arc<AtomicBool>,
    /// The results of the steps that are done, as JSON.
    pub(super) results: Vec<(StepName, Bytes)>,
    /// The steps that must be done before it starts.
    pub(super) after: Vec<StepName>,
    /// Its span, if it has one.
    pub(super) trace: Option<TraceContext>,
}

impl JobContext {
    /// Creates the context of one attempt. `tracked` jobs have a record whether or not they report something.
    pub(crate) fn new(
        delivery: Arc<Delivery>,
        reports: Arc<Reports>,
        deadline: Instant,
        tracked: bool,
    ) -> Self {
        Self { delivery, reports, deadline, tracked, step: None, decoded: None }
    }

    /// Creates the context of one step of the job.
    pub(super) fn in_step(self, step: StepView) -> Self {
        Self { step: Some(Arc::new(step)), ..self }
    }

    /// Creates the same context as if a step ran.
    #[cfg(test)]
    pub(crate) fn with_step(self, name: &str) -> Self {
        self.with_step_after(name, &[], &[])
    }

    /// Creates the same context as if a step ran that must not run twice.
    #[cfg(test)]
    pub(crate) fn with_once_step(self, name: &str) -> Self {
        let mut context = self.with_step(name);
        let view = context.step.as_mut().and_then(Arc::get_mut).expect("its own step");
        view.kind = StepKind::Once;
        context
    }

    /// Creates the same context as if a step ran after others with these results.
    #[cfg(test)]
    pub(crate) fn with_step_after(self, name: &str, results: &[(&str, &str)], after: &[&str]) -> Self {
        let parsed = |name: &str| name.parse::<StepName>().expect("a valid step name");
        let (name, token) = (parsed(name), CancellationToken::new());
        let kind = StepKind::Auto;
        let results =
            results.iter().map(|(step, json)| (parsed(step), Bytes::copy_from_slice(json.as_bytes())));
        let (results, after) = (results.collect(), after.iter().map(|step| parsed(step)).collect());
        let aware = Arc::default();
        self.in_step(StepView {
            name,
            kind,
            is_first: true,
            attempts: 0,
            token,
            aware,
            results,
            after,
            trace: None,
        })
    }

    /// Creates the context of a job that was not delivered.
    pub(crate) fn undelivered(
        job: JobSpec,
        envelope: crate::job::Envelope,
        queue: QueueName,
        deadline: Instant,
    ) -> Self {
        let tracked = job.tracking == Some(crate::job::Tracking::All);
        let delivery = Delivery::new(job, envelope, super::lease::HeldLease::new(Instant::now()));
        let rules = super::rules_check::RulesCheck::new();
        Self::new(
            Arc::new(delivery),
            Arc::new(Reports::new(queue, crate::event::Events::default(), Arc::new(rules))),
            deadline,
            tracked,
        )
    }

    /// Returns what was reported so far: the progress and the log lines.
    pub(crate) fn reported(&self) -> (Option<(u8, String)>, Vec<String>) {
        let Some(unsent) = self.delivery.report.unsent(self.job()) else { return (None, Vec::new()) };
        let lines = unsent.lines.into_iter().map(|line| line.text).collect();
        (unsent.progress.map(|(_, percent, note)| (percent, note)), lines)
    }

    pub(crate) fn held_lease(&self) -> &super::lease::HeldLease {
        &self.delivery.held_lease
    }

    pub(crate) fn job(&self) -> &JobSpec {
        &self.delivery.job
    }

    /// Shows the job as if its payload had never been encoded.
    pub(super) fn decoded(self, decoded: Decoded) -> Self {
        Self { decoded: Some(Arc::new(decoded)), ..self }
    }

    /// Returns the payload that the handler gets.
    pub(super) fn payload(&self) -> Bytes {
        self.decoded.as_ref().map_or_else(|| self.job().payload.clone(), |decoded| decoded.payload.clone())
    }

    /// Reports how a program that the handler ran ended.
    pub(crate) fn child_ended(&self, ending: ChildEnding) {
        self.reports
            .events
            .emit(&Event::Program(ProgramEvent::ChildEnded { job_type: self.job_type(), ending }));
    }

    /// Returns why the attempt is cut short, if it is, in a word.
    pub(crate) fn cut_reason(&self) -> &'static str {
        let held_lease = &self.delivery.held_lease;
        match () {
            () if held_lease.is_lost() => "lost",
            () if held_lease.is_cancelled() => "cancelled",
            () if self.time_left().is_zero() => "timeout",
            () => "shutdown",
        }
    }

    /// Notes that what the handler is about to return is not the consequence of a cut, although it watches its cancellation.
    pub(crate) fn ended_by_itself(&self) {
        match &self.step {
            Some(step) => step.aware.store(false, Ordering::Relaxed),
            None => self.delivery.held_lease.mark_unaware(),
        }
    }

    /// Returns true if nothing may begin the job before its worker has asked again: it has waited since it was asked about. A
    /// step never does that after another one, because its job has begun.
    pub(crate) fn is_in_doubt(&self, now: Instant) -> bool {
        self.step.as_ref().is_none_or(|step| step.is_first)
            && self.delivery.held_lease.is_in_doubt(&self.reports.rules, now)
    }

    /// Notes that nothing has begun the job, and that its worker has to ask again whether it may start.
    pub(crate) fn ask_again(&self) {
        self.delivery.held_lease.note_unbegun();
    }

    /// Returns the job's id, which is the same in all attempts: a good idempotency key.
    pub fn id(&self) -> &JobId {
        &self.job().id
    }

    /// Returns the job's type.
    pub fn job_type(&self) -> &JobType {
        &self.job().job_type
    }

    /// Returns the queue that the job came from.
    pub fn queue(&self) -> &QueueName {
        &self.reports.queue
    }

    /// Returns the lane that the job belongs to.
    #[expect(clippy::misnamed_getters, reason = "a gate may have let the job pass into another lane")]
    pub fn lane(&self) -> Lane {
        self.job().own_lane
    }

    /// Returns the step that is running, if the job is made of steps.
    pub fn step(&self) -> Option<&StepName> {
        self.step.as_ref().map(|step| &step.name)
    }

    /// Returns true if a step runs that must not run twice.
    pub(crate) fn is_once(&self) -> bool {
        self.step.as_ref().is_some_and(|step| step.kind == StepKind::Once)
    }

    /// Returns the result of a step of this job; `None` if the step is not done yet, or its result was too large to be
    /// kept. Declare `after` for the steps whose results you need.
    ///
    /// # Errors
    ///
    /// The error of `serde_json` if the result is not a `T`.
    pub fn step_result<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, serde_json::Error> {
        let results = self.step.iter().flat_map(|view| &view.results);
        let found = results.filter(|(name, _)| name.as_str() == step).map(|(_, json)| json).next();
        found.map(|json| serde_json::from_slice(json)).transpose()
    }

    /// Returns the results, as JSON, of the steps that this one is declared to come after, if they were kept.
    pub(crate) fn results_before(&self) -> impl Iterator<Item = (&StepName, &[u8])> {
        self.step.iter().flat_map(|view| {
            let declared = view.results.iter().filter(move |(name, _)| view.after.contains(name));
            declared.map(|(name, json)| (name, &json[..]))
        })
    }

    /// Returns the number of this attempt, from 1. In a job made of steps, it is the attempt of the step. Attempts that
    /// were interrupted, or lost their worker, do not count.
    pub fn attempt(&self) -> u32 {
        let before = self.step.as_ref().map_or(self.job().attempt, |step| step.attempts);
        before.saturating_add(1)
    }

    /// Returns true if an earlier attempt of this job failed or lost its worker; always false on the first delivery.
    pub fn is_redelivered(&self) -> bool {
        self.job().is_repeated()
    }

    /// Returns a number that grows with every attempt of a job (a fencing token). Store it with an effect, and refuse
    /// effects with a smaller one.
    pub fn fence(&self) -> EntryId {
        self.job().entry
    }

    /// Returns how the payload is encoded.
    pub fn encoding(&self) -> Encoding {
        self.decoded.as_ref().map_or(self.job().encoding, |decoded| decoded.encoding)
    }

    /// Returns when this attempt's time is up.
    pub fn deadline(&self) -> Instant {
        self.deadline + self.delivery.held_lease.paused_for(Instant::now())
    }

    /// Pauses the attempt's clock while nothing works on the job. Not for steps, which have clocks of their own.
    pub(crate) fn pause(&self, now: Instant) {
        self.delivery.held_lease.pause(now);
    }

    /// Resumes the attempt's clock.
    pub(crate) fn resume(&self, now: Instant) {
        self.delivery.held_lease.resume(now);
    }

    /// Returns the time left for this attempt.
    pub fn time_left(&self) -> Duration {
        self.time_left_at(Instant::now())
    }

    /// Returns the time that is left at an instant.
    pub(crate) fn time_left_at(&self, now: Instant) -> Duration {
        (self.deadline + self.delivery.held_lease.paused_for(now)).saturating_duration_since(now)
    }

    /// Returns a token that is cancelled when the attempt is cut short: by its timeout, by shutdown, because its lease
    /// is lost, or because somebody cancelled the job.
    pub fn cancellation(&self) -> &CancellationToken {
        if let Some(step) = &self.step {
            step.aware.store(true, Ordering::Relaxed);
            return &step.token;
        }
        self.delivery.held_lease.mark_aware();
        self.delivery.held_lease.token()
    }

    /// Reports how far the job is: a number from 0 to 100 and a few words (at most 200 bytes), for `status`.
    ///
    /// This is cheap and never waits. Only the latest progress is written, about twice per second and at the attempt's
    /// end. A job that would leave no record leaves one once it reports something.
    pub fn progress(&self, percent: u8, note: &str) {
        self.reports.progress(&self.delivery, percent, note);
    }

    /// Logs a line (at most 1 KiB) for people who inspect this job.
    ///
    /// This is as cheap as [`JobContext::progress`]. The record keeps the last 100 lines of all attempts. If there are
    /// more than 100 lines between two writes, the oldest are lost.
    pub fn log(&self, text: &str) {
        self.reports.log(&self.delivery, text);
    }

    /// Says in the job's log, and for developers, that a result which its record should have is not kept, and why.
    pub(crate) fn result_is_not_kept(&self, why: &str) {
        if self.has_record() {
            let (job, job_type) = (self.id(), self.job_type());
            tracing::debug!(target: "streamfleet::handlers", %job, %job_type, why, "a result is not kept");
            let of_step = self.step().map(|step| format!(" of the step {step}")).unwrap_or_default();
            self.log(&format!("the result{of_step} is not kept: {why}"));
        }
    }

    /// Returns true if the job already has a record, so that reporting something costs nothing more.
    pub(crate) fn has_record(&self) -> bool {
        self.tracked || self.delivery.report.is_used()
    }

    /// Returns how many bytes all fields of the job have.
    pub(crate) fn size(&self) -> usize {
        self.delivery.envelope.size()
    }

    /// Returns the headers (`h.<name>` fields) in the producer's order. Values that are not UTF-8 are left out.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_decoded = self.decoded.is_some();
        self.delivery.envelope.fields().filter_map(move |(name, value)| {
            let name = std::str::from_utf8(name).ok()?.strip_prefix("h.")?;
            let is_hidden = is_decoded && name == Codec::HEADER;
            Some((name, std::str::from_utf8(value).ok()?)).filter(|_| !is_hidden)
        })
    }

    /// Returns the header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(header, _)| *header == name).map(|(_, value)| value)
    }

    /// Returns the W3C trace context for calls that this attempt makes. If attempts have spans, it is that of its span
    /// or its step; otherwise it is the submitter's, unchanged, if it sent one.
    pub fn traceparent(&self) -> Option<&str> {
        let step = self.step.as_ref().and_then(|step| step.trace.as_ref());
        if let Some(trace) = step.or_else(|| self.delivery.trace()) {
            return Some(trace.as_str());
        }
        self.delivery.envelope.get(b"traceparent").and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns the W3C `tracestate` that belongs to [`JobContext::traceparent`], as the submitter sent it. One that breaks
    /// the standard, or comes without a valid `traceparent`, does not exist.
    pub fn tracestate(&self) -> Option<&str> {
        TraceState::carried(&self.delivery.envelope)
    }
}
