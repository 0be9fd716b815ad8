//! One attempt of a job made of steps: the steps that are ready run, one after another or side by side. Before a step's handler
//! is called, the ledger records that it starts; afterwards, how it ended. These writes are made one at a time. The settler
//! settles the job.

mod first;
mod handling;
mod running;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use self::handling::{EndedStep, Handling};
use self::running::Running;
use super::Steps;
use crate::broker::{EndedRun, Error, NewRun, StepBegun, StepEnded, StepReported, StepRun, StepsStatus};
use crate::job::{
    DeadReason, Failure, FailureKind, Ledger, Next, Outcome, Policy, Retry, StepEnd, StepKind, StepName,
    StepRecord, StepState, Timestamp, end_step,
};
use crate::sabotage::{self, Sabotage};
use crate::worker::MAX_RESULT_BYTES;
use crate::worker::backoff::RedisBackoff;
use crate::worker::delivery::Delivery;
use crate::worker::executor::{Executor, SETTLE_MARGIN};

/// Prepares an attempt: begins its first step, so that Redis refuses before anything runs. The ledger says which step that
/// is, and is read before, unless the job's entry shows that there is none.
///
/// # Errors
///
/// [`Error`] if Redis refuses to read or write the ledger for its own reasons, such as a key of another type.
pub(in crate::worker) async fn begin<'a>(
    executor: &'a Executor,
    delivery: &'a Arc<Delivery>,
    policy: &'a Policy,
    steps: &'a Steps,
) -> Result<Attempt<'a>, Error> {
    let mut attempt = Attempt {
        executor,
        delivery,
        policy,
        steps,
        run: format!("{}/{:016x}", delivery.job.entry, rand::random::<u64>()).into(),
        ledger: Ledger::default(),
        now: delivery.job.entry_created(),
        tried: BTreeSet::new(),
        begun: None,
        has_run: false,
        failure: None,
        outcome: None,
    };
    if attempt.is_unstarted() && attempt.begin_first(false).await? {
        return Ok(attempt);
    }
    attempt.read_ledger_first().await?;
    if !attempt.begin_first(true).await? {
        attempt.read_ledger_first().await?;
    }
    Ok(attempt)
}

/// One attempt.
pub(in crate::worker) struct Attempt<'a> {
    executor: &'a Executor,
    delivery: &'a Arc<Delivery>,
    policy: &'a Policy,
    steps: &'a Steps,
    /// The name of this run of the entry. Only this run may report the end of a step that it began.
    run: Arc<str>,
    /// What is known about the ledger.
    ledger: Ledger,
    /// The server's clock, as last read by a script.
    now: Timestamp,
    /// The steps that were begun, or refused, in this attempt.
    tried: BTreeSet<usize>,
    /// The step whose start was recorded together with the end of the one before, or before the attempt began to run.
    begun: Option<usize>,
    /// Whether a handler of a step has run in this attempt.
    has_run: bool,
    /// The last failure.
    failure: Option<(FailureKind, String)>,
    /// What the attempt ends with, once nothing runs any more.
    outcome: Option<Outcome>,
}

impl<'a> Attempt<'a> {
    /// Runs the steps that are ready, and returns the outcome for the job. If one of them ends the attempt, no other begins,
    /// and those that run come to their end.
    pub(in crate::worker) async fn run(mut self) -> Outcome {
        let (generation, mut looked_again) = (self.delivery.job.generation.to_string(), false);
        let mut running = Running::default();
        loop {
            if let Some(at) = self.begun.take() {
                let outcome = self.start(at, &mut running).await;
                self.end_with(outcome);
            } else if let Some(at) = self.startable(&generation, &running) {
                let outcome = self.step(at, &mut running).await;
                self.end_with(outcome);
            } else if let Some(ended) = running.next().await {
                let outcome = self.has_ended(ended, &mut running).await;
                self.end_with(outcome);
            } else if let Some(outcome) = self.outcome.take() {
                return outcome;
            } else if let Some(why) = self.ledger.dropped(&generation) {
                // An attempt that should have cancelled the job for this may have died before it did.
                return Outcome::Dropped(why.to_owned());
            } else {
                match self.steps.plan.next(&self.ledger, &generation, self.now, &self.tried) {
                    Next::Done => return Outcome::Done(self.result()),
                    _ if self.delivery.held_lease.is_cut() => return self.delivery.held_lease.outcome(),
                    Next::Run(_) => {}
                    Next::Wait(delay) => return self.wait(delay),
                    // A late report or a decision may have arrived meanwhile.
                    Next::Stuck(_) if !looked_again => {
                        looked_again = true;
                        if self.read_ledger().await.is_none() {
                            return Outcome::Interrupted;
                        }
                    }
                    Next::Stuck(reason) => return self.stuck(reason),
                }
            }
        }
    }

    /// Ends the attempt with this outcome, if it is one; the first one counts.
    fn end_with(&mut self, outcome: Option<Outcome>) {
        self.outcome = self.outcome.take().or(outcome);
    }

    /// Returns a step that may begin now, if there is one and room for it.
    fn startable(&self, generation: &str, running: &Running<'_>) -> Option<usize> {
        let may_start = self.outcome.is_none()
            && running.len() < self.steps.at_once
            && !self.delivery.held_lease.is_cut()
            && self.ledger.dropped(generation).is_none();
        match self.steps.plan.next(&self.ledger, generation, self.now, &self.tried) {
            Next::Run(at) if may_start => Some(at),
            Next::Run(_) | Next::Wait(_) | Next::Done | Next::Stuck(_) => None,
        }
    }

    /// Reads the ledger before the attempt runs. If it is cut short before Redis answers, it does not run.
    async fn read_ledger_first(&mut self) -> Result<(), Error> {
        if let Some(status) = self.ask(|| self.fetch_ledger()).await? {
            (self.ledger, self.now) = (status.ledger, status.now);
        }
        Ok(())
    }

    /// Asks until there is an answer. Returns `None` if the attempt was cut short before Redis answered, and an error if
    /// Redis refuses for its own reasons: a slot must not wait until a person has fixed that.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        send: impl Fn() -> F,
    ) -> Result<Option<T>, Error> {
        let mut backoff = RedisBackoff::new();
        loop {
            match send().await {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => {
                    self.executor.events.redis_error(error.kind(), &error);
                    if !error.is_transient() {
                        return Err(error);
                    }
                    let cut = self.delivery.held_lease.token();
                    let Some(()) = cut.run_until_cancelled(backoff.wait(&error)).await else {
                        return Ok(None);
                    };
                }
            }
        }
    }

    /// Asks while the attempt runs. Without an answer it ends: the next attempt is refused before it runs.
    async fn ask_or_end<T, F: Future<Output = Result<T, Error>>>(&self, send: impl Fn() -> F) -> Option<T> {
        self.ask(send).await.ok().flatten()
    }

    /// Reads the ledger; `None` if the attempt must end.
    async fn read_ledger(&mut self) -> Option<()> {
        let status = self.ask_or_end(|| self.fetch_ledger()).await?;
        (self.ledger, self.now) = (status.ledger, status.now);
        Some(())
    }

    /// Returns what the ledger says.
    async fn fetch_ledger(&self) -> Result<StepsStatus, Error> {
        let Delivery { job, envelope, .. } = &**self.delivery;
        let known = envelope.get(b"dead_steps").map(|states| (states, &*self.steps.text));
        self.executor.queue.steps().read(&job.id, known).await
    }

    /// Begins one step. Returns an outcome if the attempt ends with it.
    async fn step(&mut self, at: usize, running: &mut Running<'a>) -> Option<Outcome> {
        self.tried.insert(at);
        let begun = if is_recorded_late() {
            Some(StepBegun::Start)
        } else {
            running.beside(self.begin(self.steps.run(at, &self.run))).await
        };
        match begun {
            Some(StepBegun::Start) => self.start(at, running).await,
            Some(StepBegun::Refused) => running.beside(self.look_again()).await,
            // Giving the entry back finds out what it is. An earlier call, whose reply was lost, may have recorded the start.
            Some(StepBegun::Stale) => {
                running.beside(self.take_back(at)).await;
                Some(Outcome::Interrupted)
            }
            None => Some(Outcome::Interrupted),
        }
    }

    /// Lets one step run, whose start is recorded. Returns an outcome if the attempt ends with it.
    async fn start(&mut self, at: usize, running: &mut Running<'a>) -> Option<Outcome> {
        if let Err(outcome) = running.beside(self.executor.confirm(self.delivery)).await {
            running.beside(self.take_back(at)).await;
            return Some(outcome);
        }
        let run = self.steps.run(at, &self.run);
        let attempts = self.attempts_of(&run);
        self.ledger.began(&run.step, &run.run, &self.delivery.job.generation.to_string());
        let results = self.ledger.steps();
        let results = results.filter_map(|(step, record)| Some((step.clone(), record.result.clone()?)));
        let handling = Handling {
            executor: self.executor,
            delivery: self.delivery,
            part: &self.steps.parts[at],
            timeout: self.delivery.job.timeout.unwrap_or(self.policy.timeout),
            after: self.steps.after(&run.step),
            results: results.collect(),
            // Beside others, a step must not ask again whether the attempt may begin.
            is_first: !self.has_run && self.steps.at_once == 1,
            is_beside: !running.is_idle(),
            attempts,
            run,
        };
        running.add(handling.handle(at));
        None
    }

    /// Records how a step ended. Returns an outcome if the attempt ends with it.
    async fn has_ended(&mut self, ended: EndedStep, running: &mut Running<'a>) -> Option<Outcome> {
        let EndedStep { at, run, attempts, outcome } = ended;
        if running.is_idle() {
            // No handler runs now, so nothing but a lost lease ends the attempt.
            self.delivery.held_lease.renew_until_settled();
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(refused) => {
                running.beside(self.take_back(at)).await;
                return Some(refused);
            }
        };
        self.has_run = true;
        if is_recorded_late() {
            self.begin(run.clone()).await;
        }
        let before = (run.kind, attempts, self.delivery.job.max_attempts);
        let limits = &self.steps.parts[at].limits;
        let mut end = end_step(before, limits, self.policy, &outcome, rand::random());
        end.result = end.result.filter(|result| result.len() <= StepRecord::MAX_RESULT_BYTES);
        if let (Some((_, error)), Outcome::Failed(failure)) = (&end.error, &outcome) {
            self.failure = Some((failure.kind, format!("the step {} failed: {error}", run.step)));
        }
        let dropped = if let Outcome::Dropped(why) = &outcome { Some(why.clone()) } else { None };
        // If this cannot be recorded, the attempt is over.
        self.ledger.ended(&run.step, &end, self.now);
        let next = self.next_after(&end);
        let following = next.map(|at| self.steps.run(at, &self.run));
        let ended = Arc::new(EndedRun { run, end, dropped, next: following });
        match running.beside(self.record_end(&ended)).await {
            Some(StepReported { ended: StepEnded::Recorded, now, begun }) => {
                self.now = now;
                self.ledger.ended(&ended.run.step, &ended.end, now);
                match next.zip(begun) {
                    Some((at, begun)) => running.beside(self.has_begun(at, begun)).await,
                    None => matches!(outcome, Outcome::Dropped(_) | Outcome::Lost(_)).then_some(outcome),
                }
            }
            Some(StepReported { ended: StepEnded::Late, .. }) => {
                running.beside(self.resume()).await;
                Some(Outcome::Interrupted)
            }
            Some(StepReported { ended: StepEnded::Stale, .. }) | None => Some(Outcome::Interrupted),
        }
    }

    /// Returns the step to be started together with this end, if it is certain that one follows.
    fn next_after(&self, end: &StepEnd) -> Option<usize> {
        let continues =
            end.state == StepState::Done && !self.delivery.held_lease.is_cut() && !is_recorded_late();
        if !continues || self.outcome.is_some() {
            return None;
        }
        let generation = self.delivery.job.generation.to_string();
        match self.steps.plan.next(&self.ledger, &generation, self.now, &self.tried) {
            Next::Run(at) => Some(at),
            Next::Wait(_) | Next::Done | Next::Stuck(_) => None,
        }
    }

    /// Takes the answer about a step that was to be started together with the end of another. Returns an outcome if the
    /// attempt ends with it.
    async fn has_begun(&mut self, at: usize, begun: StepBegun) -> Option<Outcome> {
        self.tried.insert(at);
        match begun {
            StepBegun::Start => {
                self.begun = Some(at);
                None
            }
            StepBegun::Refused => self.look_again().await,
            // As if it had begun on its own.
            StepBegun::Stale => {
                self.take_back(at).await;
                Some(Outcome::Interrupted)
            }
        }
    }

    /// Reads the ledger after it refused a step. Returns an outcome if the attempt must end.
    async fn look_again(&mut self) -> Option<Outcome> {
        self.read_ledger().await.map_or(Some(Outcome::Interrupted), |()| None)
    }

    /// Returns the number of runs of a step that count so far.
    fn attempts_of(&self, run: &StepRun) -> u32 {
        self.ledger.attempts(&run.step, &self.delivery.job.generation.to_string(), run.kind)
    }

    /// Asks whether a run may start. Without an answer, it must not.
    async fn begin(&self, run: StepRun) -> Option<StepBegun> {
        let new = Arc::new(NewRun { run, plan: Arc::clone(&self.steps.text), has_read: true });
        let begun = self.ask_or_end(|| self.executor.ledgers.begin(self.delivery, &new)).await;
        if begun.is_none() {
            self.report_not_run(&new.run).await;
        }
        begun
    }

    /// Tells Redis that nothing was done: it may have received the start of a run that does not begin.
    async fn report_not_run(&self, run: &StepRun) {
        let recorded = self.executor.ledgers.end(self.delivery, &self.nothing_done(run)).await;
        tracing::debug!(step = %run.step, ?recorded, "a step may be recorded as started, but did not run");
        self.resume_if_late(recorded.ok()).await;
    }

    /// Records that a step whose start is, or may be, recorded did not run.
    async fn take_back(&self, at: usize) {
        let ended = self.nothing_done(&self.steps.run(at, &self.run));
        let reported = self.record_end(&ended).await;
        self.resume_if_late(reported).await;
    }

    /// Resumes the job after the report of a run that did nothing: another worker may have buried it because of this step.
    async fn resume_if_late(&self, reported: Option<StepReported>) {
        if reported.is_some_and(|reported| reported.ended == StepEnded::Late) {
            self.resume().await;
        }
    }

    /// The end of a run that did nothing.
    fn nothing_done(&self, run: &StepRun) -> Arc<EndedRun> {
        let attempts = self.attempts_of(run);
        let end = StepEnd { state: StepState::Pending, attempts, delay: None, error: None, result: None };
        Arc::new(EndedRun { run: run.clone(), end, dropped: None, next: None })
    }

    /// Records how a run ended. A known end is sent until Redis has accepted it. If nobody knows the end, the ledger already says
    /// so: it is sent again only until the attempt is cut short. If Redis refuses for its own reasons, a known end is sent again
    /// for [`SETTLE_MARGIN`] at most: a slot must not wait until a person has fixed it.
    async fn record_end(&self, ended: &Arc<EndedRun>) -> Option<StepReported> {
        let EndedRun { run, end, dropped, .. } = &**ended;
        let interrupted = end.state == StepState::Pending && end.delay.is_none() && dropped.is_none();
        let is_known = end.state != StepState::Unknown && !(interrupted && run.kind == StepKind::Auto);
        let (mut backoff, mut refused) = (RedisBackoff::new(), None);
        loop {
            match self.executor.ledgers.end(self.delivery, ended).await {
                Ok(reported) => return Some(reported),
                Err(error) => {
                    self.executor.events.redis_error(error.kind(), &error);
                    if !error.is_transient() {
                        let since = refused.get_or_insert_with(Instant::now);
                        if !is_known || since.elapsed() >= SETTLE_MARGIN {
                            return None;
                        }
                    } else if is_known {
                        refused = None;
                        backoff.wait(&error).await;
                        continue;
                    }
                    self.delivery.held_lease.token().run_until_cancelled(backoff.wait(&error)).await?;
                }
            }
        }
    }

    /// Resumes a job after the late report of a step that was considered unknown. The job may have been buried for that.
    async fn resume(&self) {
        let job = &self.delivery.job.id;
        match self.executor.queue.steps().resume(job, self.executor.reporter.retention).await {
            Ok(resumed) => tracing::info!(%job, resumed, "a step reported its end late"),
            Err(error) => {
                tracing::warn!(%job, %error, "a step reported its end late, and its job was not resumed; it can be replayed")
            }
        }
    }

    fn wait(&mut self, delay: Duration) -> Outcome {
        match self.failure.take() {
            Some((kind, error)) => Outcome::Failed(Failure::new(kind, error, Retry::Steps(delay))),
            None => Outcome::Snoozed(delay),
        }
    }

    fn stuck(&mut self, reason: DeadReason) -> Outcome {
        // In the order in which a person needs to know them.
        let states = [
            StepState::Unknown,
            StepState::Failed,
            StepState::Started,
            StepState::Exhausted,
            StepState::GivenUp,
        ];
        let step = states.iter().find_map(|state| self.steps.plan.first(&self.ledger, &[*state]));
        let error = step.map(|step| {
            let record = self.ledger.get(&step.name);
            let last = record.and_then(|record| record.errors.last()).map(|error| error.text.as_str());
            let colon = if last.is_some() { ": " } else { "" };
            format!(
                "the step {} is {}{colon}{}",
                step.name,
                self.ledger.state(&step.name),
                last.unwrap_or_default()
            )
        });
        let kind = self.failure.as_ref().map(|(kind, _)| *kind);
        let kind = kind.or_else(|| self.last_kind(&step?.name)).unwrap_or(FailureKind::Error);
        Outcome::Failed(Failure::new(kind, error.unwrap_or_default(), Retry::Bury(reason)))
    }

    /// Returns how a step last failed, in an earlier attempt. Nobody knows how a run that was cut short or lost ended.
    fn last_kind(&self, step: &StepName) -> Option<FailureKind> {
        if matches!(self.ledger.state(step), StepState::Unknown | StepState::Started) {
            return Some(FailureKind::Unknown);
        }
        let last = self.ledger.get(step)?.errors.last()?;
        FailureKind::named(&last.kind)
    }

    /// Returns what the steps returned, as one JSON object by their names; `None` if that is nothing, or too large.
    fn result(&self) -> Option<Bytes> {
        let returned = |(name, record): (&StepName, &StepRecord)| {
            let json = std::str::from_utf8(record.result.as_ref()?).ok()?;
            Some((name.to_string(), RawValue::from_string(json.to_owned()).ok()?))
        };
        let results: BTreeMap<String, Box<RawValue>> = self.ledger.steps().filter_map(returned).collect();
        let json = serde_json::to_vec(&results).ok().filter(|json| json.len() <= MAX_RESULT_BYTES);
        json.filter(|_| !results.is_empty()).map(Bytes::from)
    }
}

/// True if this process records the start of a step only after its handler was called: a deliberate bug.
fn is_recorded_late() -> bool {
    sabotage::is(Sabotage::LedgerAfterCall)
}
