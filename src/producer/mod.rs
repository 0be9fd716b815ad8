//! Submitting jobs from Rust. Other languages need no library: one `XADD` of the same fields is a submission.
//!
//! A [`Submission`] describes a job. A [`Producer`] sends it, alone or with others in few round trips, and returns what
//! became of it. Jobs without an id are appended directly, many in one call. For a job with an id, Redis first checks
//! whether it knows that id, so the job can be sent again safely.

mod amend;
mod batch;
mod batches;
mod codecs;
mod durable;
mod enqueue;
mod error;
mod schema;
mod submission;
mod submitted;
mod unique;
mod wait;

use std::time::{Duration, Instant};

use batches::{Batches, can_take_turns, is_repeatable};
pub use enqueue::Enqueue;
pub use error::SubmitError;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
pub use submission::{MAX_PAYLOAD_BYTES, Submission};
pub use submitted::{Accepted, Submitted};

pub use crate::broker::{Durability, UniqueMode, UniqueScope};
pub use wait::{Ended, WaitError};

use crate::broker::{
    self, Broker, Class, Due, JobWithId, NewJob, NotAccepted, Queue, RESEND_WITHIN, Row, Turn,
};
use crate::codecs::Codecs;
use crate::job::{JobId, TraceContext, TraceState, jittered};
use crate::schema::Schemas;
use crate::traces::{self, Trace};

/// What is known about each job of a round trip, in order.
type Answers = Vec<Option<Result<Submitted, SubmitError>>>;

/// How many round trips are in flight at once.
const IN_FLIGHT: usize = 4;

/// The pauses before a call that is safe to repeat is sent again. Together they outlast a reconnect.
const PAUSES: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(4)];

/// Submits jobs to one queue. Clones share the connection. [`Producer::enqueue`] is for payloads with a type of their
/// own.
///
/// ```no_run
/// # async fn example() -> Result<(), streamfleet::SubmitError> {
/// use streamfleet::{Producer, Submission};
///
/// let producer = Producer::connect("redis://127.0.0.1:6379", "default").await?.max_depth(100_000);
/// let id = producer.submit(Submission::new("mail.send")?.json(&"ann@example.com")?).await?;
/// println!("submitted {id}");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Producer {
    queue: Queue,
    max_payload: usize,
    max_depth: Option<u64>,
    confirm_within: Duration,
    /// The trace context for jobs that have none of their own.
    trace: Option<Trace>,
    confirming: durable::Shared,
    /// False for a connection that does not reconnect, so that nothing is sent over it again.
    retries: bool,
    schemas: Schemas,
    codecs: Option<Codecs>,
}

impl Producer {
    /// Connects to Redis, and creates a producer for the queue of this name.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Name`] if the name breaks the rule for queues, [`SubmitError::Broker`] if Redis cannot be reached or
    /// refuses the login.
    pub async fn connect(redis: impl Into<broker::Config>, queue: &str) -> Result<Self, SubmitError> {
        let queue = queue.parse()?;
        Ok(Self::new(Broker::connect(redis).await?.queue(queue)))
    }

    /// Creates a producer for this queue.
    pub fn new(queue: Queue) -> Self {
        Self {
            queue,
            max_payload: MAX_PAYLOAD_BYTES,
            max_depth: None,
            confirm_within: Duration::from_secs(5),
            trace: None,
            confirming: durable::Shared::default(),
            retries: true,
            schemas: Schemas::default(),
            codecs: None,
        }
    }

    /// Refuses larger payloads. The limit can be at most [`MAX_PAYLOAD_BYTES`].
    #[must_use]
    pub fn max_payload(self, bytes: usize) -> Self {
        Self { max_payload: bytes.min(MAX_PAYLOAD_BYTES), ..self }
    }

    /// Refuses jobs that would raise the queue's depth above this, counting jobs that wait, run or are due later. If
    /// the queue's workers have set a limit too, the lower one applies.
    #[must_use]
    pub fn max_depth(self, jobs: u64) -> Self {
        Self { max_depth: Some(jobs), ..self }
    }

    /// Gives this `traceparent` to jobs that have none and are not submitted inside an OpenTelemetry span.
    #[must_use]
    pub fn within(self, trace: TraceContext) -> Self {
        Self { trace: Some(Trace { context: trace, state: None }), ..self }
    }

    /// Gives this `tracestate` to the jobs that get the `traceparent` of [`Producer::within`], which comes first.
    #[must_use]
    pub fn with_trace_state(mut self, state: TraceState) -> Self {
        if let Some(trace) = &mut self.trace {
            trace.state = Some(state);
        }
        self
    }

    /// Submits one job and returns its id. If the id is already known, the existing job is left as it is.
    ///
    /// A job with an id of its own is sent again if the answer was lost. It is accepted once, whatever happens.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Full`] if the queue has no room, [`SubmitError::TooLarge`], [`SubmitError::TooManyFields`] and
    /// [`SubmitError::DerivedId`] before anything is sent, also [`SubmitError::InvalidPayload`] if the type has a schema,
    /// [`SubmitError::Broker`] if Redis refuses or does not answer.
    pub async fn submit(&self, submission: Submission) -> Result<JobId, SubmitError> {
        self.submit_or_find(submission).await.map(|submitted| submitted.id)
    }

    /// Submits one job, and returns whether it is new or in which state it was found.
    ///
    /// ```no_run
    /// # async fn example(producer: streamfleet::Producer) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::{Accepted, Submission, SubmitError};
    ///
    /// let invoice = Submission::new("invoice.charge")?.json(&17)?.id("invoice-17".parse()?);
    /// match producer.submit_or_find(invoice).await {
    ///     Ok(submitted) => match submitted.accepted {
    ///         Accepted::Existing(state) => println!("{} was submitted before: {state}", submitted.id),
    ///         _ => println!("{} is new", submitted.id),
    ///     },
    ///     Err(SubmitError::Full { depth, .. }) => println!("the queue is full: it has {depth} jobs"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::submit`].
    pub async fn submit_or_find(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        let mut answers = vec![None];
        self.send(self.prepare(vec![submission]).await?, None, &mut answers).await?;
        let no_answer = || Err(SubmitError::Payload("no id came back".to_owned()));
        answers.pop().flatten().unwrap_or_else(no_answer)
    }

    /// Submits many jobs in few round trips, and returns their ids in the same order. To learn which jobs were submitted
    /// before an error, use [`Producer::submit_or_find_all`] or [`Producer::submit_each`].
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::submit_or_find_all`].
    pub async fn submit_all(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Result<Vec<JobId>, SubmitError> {
        let mut ids = Vec::new();
        let keep = |answers: Vec<Submitted>| ids.extend(answers.into_iter().map(|submitted| submitted.id));
        self.submit_or_find_all(submissions, keep).await?;
        Ok(ids)
    }

    /// Submits many jobs in few round trips. `sent` gets the answers of each round trip, in the order of the jobs. Several
    /// are in flight at once if all their jobs have ids of their own, or if those without an id are for now: then Redis
    /// accepts a round trip only after the one before.
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::submit`], for the first round trip that fails. No further one is started. `sent` got the answers of
    /// all round trips before it. The remaining jobs can be sent again:
    ///
    /// - Jobs with ids of their own may be accepted, and are then found.
    /// - Jobs without ids are not accepted, with two exceptions. After [`SubmitError::Unconfirmed`], those that it names are.
    ///   After [`RedisError::Unknown`](crate::RedisError::Unknown), the next ones may be, as many as four round trips take:
    ///   at most 2,000, in the order of the jobs.
    /// - Jobs with a unique key but no id may be accepted if they are among the next 100.
    pub async fn submit_or_find_all(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
        mut sent: impl FnMut(Vec<Submitted>),
    ) -> Result<(), SubmitError> {
        let mut has_failed = false;
        let keep = |_, answers: Answers| {
            let whole: Option<Vec<Submitted>> = answers.into_iter().map(|answer| answer?.ok()).collect();
            match whole.filter(|_| !has_failed) {
                Some(whole) => sent(whole),
                None => has_failed = true,
            }
        };
        self.submit_batches(submissions, keep).await
    }

    /// Submits many jobs as [`Producer::submit_or_find_all`] does, and says what became of each, also in the round trip that
    /// fails. `told` gets the place of a job, from 0, and its answer, or the error because of which it is not accepted.
    ///
    /// Two errors are about jobs that are, or may be: [`SubmitError::Unconfirmed`], and [`SubmitError::Broker`] with
    /// [`RedisError::Unknown`](crate::RedisError::Unknown). A job of which nothing was said is not accepted.
    ///
    /// ```no_run
    /// # async fn example(producer: streamfleet::Producer, jobs: Vec<streamfleet::Submission>) {
    /// let sent = producer.submit_each(jobs, |place, answer| match answer {
    ///     Ok(submitted) => println!("{place}: {}", submitted.id),
    ///     Err(error) => println!("{place}: {error}"),
    /// });
    /// if let Err(error) = sent.await {
    ///     println!("the others were not sent: {error}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Producer::submit_or_find_all`].
    pub async fn submit_each(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
        mut told: impl FnMut(usize, Result<Submitted, SubmitError>),
    ) -> Result<(), SubmitError> {
        let tell = |first: usize, answers: Answers| {
            let known = (first..).zip(answers).filter_map(|(place, answer)| Some((place, answer?)));
            known.for_each(|(place, answer)| told(place, answer));
        };
        self.submit_batches(submissions, tell).await
    }

    /// Submits many jobs. `done` gets the answers of each round trip, in order, and the place of its first job.
    async fn submit_batches(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
        mut done: impl FnMut(usize, Answers),
    ) -> Result<(), SubmitError> {
        let mut first = 0;
        let mut batches = Batches::of(submissions.into_iter()).peekable();
        let (mut flying, mut failure, mut alone) = (FuturesOrdered::new(), None, false);
        // While only jobs for now are in flight.
        let mut row: Option<Row> = None;
        loop {
            // Nothing may be accepted after a job that was not, unless it can be sent again.
            let may_start = |batch: &Vec<Submission>, flying: usize| {
                let may_follow = || is_repeatable(batch) || row.is_some() && can_take_turns(batch);
                flying == 0 || (flying < IN_FLIGHT && !alone && may_follow())
            };
            let next = batches.next_if(|batch| failure.is_none() && may_start(batch, flying.len()));
            if let Some(batch) = next {
                if flying.is_empty() {
                    row = Some(Row::default());
                }
                row = row.filter(|_| can_take_turns(&batch));
                let turn = row.as_mut().map(Row::next_turn);
                let may_be_followed = turn.is_some() || is_repeatable(&batch);
                let mut answers: Answers = batch.iter().map(|_| None).collect();
                let batch = self.prepare(batch).await;
                alone = !may_be_followed || batch.is_err();
                flying.push_back(async move {
                    let sent = match batch {
                        Ok(batch) => self.send(batch, turn.clone(), &mut answers).await,
                        Err(error) => Err(error),
                    };
                    let failed = sent.inspect_err(|_| turn.iter().for_each(Turn::fail)).err();
                    (with_unknown(answers, failed.as_ref()), failed)
                });
                continue;
            }
            let Some((answers, failed)) = flying.next().await else { return failure.map_or(Ok(()), Err) };
            let next = first + answers.len();
            done(first, answers);
            (first, failure) = (next, failure.or(failed));
        }
    }

    /// Makes a batch ready to be sent, or returns the error of a job that can be refused before anything is sent.
    async fn prepare(&self, mut batch: Vec<Submission>) -> Result<Vec<Submission>, SubmitError> {
        self.check_payloads(&batch).await?;
        self.encode_payloads(&mut batch).await?;
        if let Some(trace) = traces::current().or_else(|| self.trace.clone()) {
            batch.iter_mut().for_each(|submission| submission.belong_to(&trace));
        }
        self.check(&batch)?;
        // Drawn once, so that a resent job is recognized as the same one.
        batch.iter_mut().for_each(|submission| submission.job.generation = rand::random());
        Ok(batch)
    }

    /// Sends one batch, with the script that each kind of job needs, and notes the answers. Those that can be sent again go
    /// first, so that an error leaves none of the others accepted.
    async fn deliver(
        &self,
        batch: Vec<Submission>,
        turn: Option<Turn>,
        answers: &mut Answers,
    ) -> Result<(), SubmitError> {
        let mut routes = Routes::default();
        for (at, submission) in batch.into_iter().enumerate() {
            routes.add(at, submission);
        }
        if !routes.once.is_empty() {
            self.submit_with_ids(routes.once, answers).await?;
        }
        let (places, now) = routes.now;
        if !now.is_empty() {
            let entries = self.queue.append(&now, self.max_depth, turn.as_ref()).await?;
            for ((place, job), entry) in places.into_iter().zip(now).zip(entries) {
                answers[place] = Some(Ok(accepted(JobId::derived(entry, job.lane))));
            }
        }
        let (places, later) = routes.later;
        if !later.is_empty() {
            self.retry(|| self.queue.schedule(&later, self.max_depth)).await?;
            for (place, (id, _)) in places.into_iter().zip(later) {
                answers[place] = Some(Ok(accepted(id)));
            }
        }
        Ok(())
    }

    /// Returns the error of a job that can be refused before anything is sent.
    pub(super) fn check(&self, batch: &[Submission]) -> Result<(), SubmitError> {
        for submission in batch {
            submission.fits()?;
            if submission.payload_bytes > self.max_payload {
                return Err(SubmitError::TooLarge {
                    bytes: submission.payload_bytes,
                    limit: self.max_payload,
                });
            }
            // The id may be that of another job, and a worker would assume that the job has no record.
            if let Some(id) = submission.id.as_ref().filter(|id| !id.is_own()) {
                return Err(SubmitError::DerivedId { id: id.clone() });
            }
        }
        Ok(())
    }

    /// Repeats a call that is safe to send twice until there is an answer or no pause is left.
    async fn retry<T, F>(&self, send: impl Fn() -> F) -> Result<T, NotAccepted>
    where
        F: Future<Output = Result<T, NotAccepted>>,
    {
        let begun = Instant::now();
        let (mut pauses, mut before) = (PAUSES.iter().filter(|_| self.retries), None);
        loop {
            let error = match send().await {
                Err(NotAccepted::Broker(error)) => error,
                answer => return answer,
            };
            let pause = pauses.next().filter(|_| is_retryable(&error));
            let error = graver(before, error);
            let Some(pause) = pause else { return Err(error.into()) };
            tokio::time::sleep(jittered(*pause, 0.5..1.0, rand::random())).await;
            // A process that was frozen for longer than the receipts are kept must not send again.
            if begun.elapsed() > RESEND_WITHIN {
                return Err(error.into());
            }
            before = Some(error);
        }
    }
}

/// The jobs of a batch, grouped by how they are sent, each with its position in the batch.
#[derive(Default)]
struct Routes {
    /// Sent to their lanes.
    now: (Vec<usize>, Vec<NewJob>),
    /// Sent to the delayed set.
    later: (Vec<usize>, Vec<(JobId, NewJob)>),
    /// Accepted once by their ids.
    once: Vec<(usize, JobWithId)>,
}

impl Routes {
    fn add(&mut self, place: usize, Submission { job, id, window, unique, .. }: Submission) {
        let once = match (id, unique) {
            (Some(id), unique) => Ok(JobWithId::new(id, job, window, unique.map(|unique| *unique))),
            // The holder of a lock needs an id before it has an entry.
            (None, Some(unique)) => Ok(JobWithId::with_drawn_id(job, *unique)),
            (None, None) => Err(job),
        };
        match once {
            Ok(once) => self.once.push((place, once)),
            Err(job) if job.due == Due::Now => {
                self.now.0.push(place);
                self.now.1.push(job);
            }
            Err(job) => {
                self.later.0.push(place);
                self.later.1.push((job.drawn_id(), job));
            }
        }
    }
}

fn accepted(id: JobId) -> Submitted {
    Submitted { id, accepted: Accepted::New }
}

/// Adds that it is not known what became of the jobs without an answer, if their round trip may have been executed.
fn with_unknown(mut answers: Answers, failed: Option<&SubmitError>) -> Answers {
    if let Some(SubmitError::Broker(error)) = failed
        && may_be_executed(error)
    {
        answers.iter_mut().filter(|answer| answer.is_none()).for_each(|answer| {
            *answer = Some(Err(error.clone().into()));
        });
    }
    answers
}

/// Returns the error of a call that was sent several times. If an earlier one may have been executed, a later refusal does not
/// say that it was not.
fn graver(before: Option<broker::Error>, now: broker::Error) -> broker::Error {
    before.filter(may_be_executed).unwrap_or(now)
}

fn may_be_executed(error: &broker::Error) -> bool {
    matches!(error, broker::Error::Unknown { .. })
}

/// True if the connection broke, or Redis is only busy.
fn is_retryable(error: &broker::Error) -> bool {
    may_be_executed(error) || error.class() == Some(Class::Busy)
}
