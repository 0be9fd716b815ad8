//! Stage 3: runs one delivery under its timeout and cancellation, and returns how it ended. It never writes to Redis,
//! except to ask whether an attempt that has a history may start.

mod bounds;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use self::bounds::{Bounds, bounded, outcome_within_grace};
use super::admission::Admission;
use super::backoff::RedisBackoff;
use super::clock::ServerClock;
use super::delivery::{Delivery, FinishedAttempt, SettlerInput};
use super::dispatcher::Dispatcher;
use super::handler::JobContext;
use super::registry::{Erased, Registered, Registry, Runner};
use super::reporter::Reporter;
use super::slot_timer::SlotTimer;
use super::start_checker::{MayStart, Request, StartChecker};
use super::steps;
use super::steps::ledgers::Ledgers;
use crate::broker::{Begun, Error, Queue};
use crate::event::{Event, Events, Finished};
use crate::job::{ConsumerName, Outcome, Parking, Policy, Tracking, settle};
use crate::sabotage::{self, Sabotage};
use crate::traces::{AttemptFacts, AttemptSpan, Tracer, within};

/// How long the lease outlives an attempt's deadline, so that its outcome can be settled.
pub(super) const SETTLE_MARGIN: Duration = Duration::from_secs(10);

/// How often to check whether the heartbeat has confirmed an entry.
const CONFIRM_EVERY: Duration = Duration::from_millis(10);

/// How often to ask for the rules while Redis does not answer.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Runs deliveries. There is one per queue, shared by its slots.
pub(crate) struct Executor {
    pub(crate) queue: Queue,
    /// An attempt starts only if its entry has been silent for less than this.
    pub(crate) starts_within: Duration,
    pub(crate) consumer: ConsumerName,
    pub(crate) registry: Arc<Registry>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) start_checker: StartChecker,
    pub(super) ledgers: Ledgers,
    pub(crate) admission: Arc<Admission>,
    /// Which jobs leave a record if neither they nor their type say.
    pub(crate) tracking: Tracking,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) events: Events,
    pub(crate) clock: Arc<ServerClock>,
    /// Makes a span of each attempt, if spans are wanted.
    pub(crate) tracer: Option<Tracer>,
}

impl Executor {
    /// Runs one delivery to its end, unless Redis refuses to let it begin. `slot_timer` is that of its slot.
    pub(super) async fn run(&self, delivery: Arc<Delivery>, slot_timer: &mut SlotTimer) -> SettlerInput {
        let job = &delivery.job;
        let Some(registered) = self.registry.get(&job.job_type) else {
            let put_off = self.admission.refused_waitlists.put_off(&Parking::unknown(&job.job_type).waitlist);
            let outcome = put_off.map_or(Outcome::Unroutable, Outcome::NotDue);
            return SettlerInput::not_run(delivery, outcome);
        };
        if let Some(why) = self.schema_violation(&delivery).await {
            return SettlerInput::not_run(delivery, Outcome::Invalid(why));
        }
        // For most jobs, the clock is read once.
        let mut now = match self.confirm(&delivery).await {
            Ok(now) => now,
            Err(outcome) => return SettlerInput::not_run(delivery, outcome),
        };
        let has_steps = matches!(registered.work, Runner::Steps(_));
        let tracked = has_steps || job.has_record(job.tracking(&registered.policy, self.tracking));
        match self.ask(&delivery, tracked, now).await {
            Ok(Ok(begun)) => now = begun,
            Ok(Err(outcome)) => return SettlerInput::not_run(delivery, outcome),
            Err(error) => return SettlerInput::NotStarted(delivery, error),
        }
        let attempt = match &registered.work {
            Runner::Whole(_) => None,
            Runner::Steps(steps) => {
                self.dispatcher.yield_to_next();
                match Box::pin(steps::begin(self, &delivery, &registered.policy, steps)).await {
                    Ok(attempt) => {
                        now = Instant::now();
                        Some(Box::new(attempt))
                    }
                    Err(error) => return SettlerInput::NotStarted(delivery, error),
                }
            }
        };
        if sabotage::is(Sabotage::AckBeforeRun) {
            self.queue.acknowledge(self.queue.link(), job.lane, &[job.entry]).await.ok();
        }
        let (outcome, elapsed) =
            self.perform(&delivery, registered, (attempt, tracked), (now, slot_timer)).await;
        let reported = delivery.report.close();
        if reported {
            self.dispatcher.yield_to_next();
            self.reporter.finish(&delivery).await;
        }
        let is_followed = registered.policy.on_success.is_some();
        let tracked = tracked || reported;
        SettlerInput::Finished(FinishedAttempt {
            delivery,
            outcome,
            elapsed,
            tracked,
            has_steps,
            is_followed,
        })
    }

    /// Returns why the job's payload does not fit the schema of its type, if it does not. Such a job is dead at once, even if
    /// it is not due or has to pass gates.
    async fn schema_violation(&self, delivery: &Delivery) -> Option<String> {
        if !self.registry.schemas.has(&delivery.job.job_type) {
            return None;
        }
        self.dispatcher.yield_to_next();
        self.registry.schema_violation(&delivery.job, &delivery.envelope).await
    }

    /// Runs the handler or the steps, which start now, and reports so. Returns how that ended, and how long it took.
    async fn perform(
        &self,
        delivery: &Arc<Delivery>,
        registered: &Registered,
        (attempt, tracked): (Option<Box<steps::Attempt<'_>>>, bool),
        (started, slot_timer): (Instant, &mut SlotTimer),
    ) -> (Outcome, Duration) {
        let job = &delivery.job;
        delivery.held_lease.begin(started);
        let wait = self.clock.since(job.entry.ms, started);
        let (queue, job_type) = (self.queue.name(), &job.job_type);
        let nth = job.attempt.saturating_add(1);
        self.events.emit(&Event::Started { queue, job_type, job: &job.id, attempt: nth, wait });
        self.dispatcher.started();
        let (policy, span) = (&registered.policy, self.span(delivery, wait));
        let outcome = match (&registered.work, attempt) {
            (Runner::Whole(handler), _) => {
                let times = (started, slot_timer);
                self.attempt(delivery, policy, handler, (times, tracked), span.as_ref()).await
            }
            (Runner::Steps(_), Some(attempt)) => within(span.as_ref(), Box::pin(attempt.run())).await,
            // Steps are never performed unless they were begun.
            (Runner::Steps(_), None) => Outcome::Interrupted,
        };
        let elapsed = started.elapsed();
        if let Some(span) = span {
            let settlement = settle(job, policy, &outcome, 0.0);
            span.end(&outcome, Finished::new(queue, job, &settlement, (elapsed, Duration::ZERO)).ending);
        }
        self.events.emit(&Event::Ran { queue, job_type, elapsed });
        (outcome, elapsed)
    }

    /// Returns the time if a handler may be called now, and otherwise the outcome. While this process was frozen, another
    /// worker may have claimed the entry and done its job: then this waits until the heartbeat has confirmed who owns it.
    pub(super) async fn confirm(&self, delivery: &Delivery) -> Result<Instant, Outcome> {
        let held_lease = &delivery.held_lease;
        let mut now = Instant::now();
        if held_lease.silence(now) >= self.starts_within {
            self.dispatcher.yield_to_next();
        }
        while held_lease.silence(now) >= self.starts_within && !held_lease.is_cut() {
            held_lease.token().run_until_cancelled(tokio::time::sleep(CONFIRM_EVERY)).await;
            now = Instant::now();
        }
        if held_lease.is_cut() { Err(held_lease.outcome()) } else { Ok(now) }
    }

    /// Begins the attempt's span, if attempts have spans.
    fn span(&self, delivery: &Delivery, wait: Duration) -> Option<AttemptSpan> {
        let tracer = self.tracer.as_ref()?;
        let Delivery { job, envelope, .. } = delivery;
        let span = tracer.begin(&AttemptFacts {
            queue: self.queue.name(),
            consumer: &self.consumer,
            job,
            envelope,
            wait,
        })?;
        delivery.trace.get_or_init(|| Box::new(span.context));
        Some(span)
    }

    /// Asks whether an attempt may start, if anything speaks against it. Most jobs have nothing to ask about. Returns the time if
    /// it may, which is `now` if nothing had to be asked, and otherwise the outcome. An error means that Redis refuses this job
    /// alone: a slot must not wait until a person has fixed that.
    async fn ask(
        &self,
        delivery: &Arc<Delivery>,
        tracked: bool,
        now: Instant,
    ) -> Result<Result<Instant, Outcome>, Error> {
        let job = &delivery.job;
        let is_shown = || job.is_named_by_entry() || job.is_noted(&delivery.envelope);
        let begins = (tracked && !is_shown()) || job.not_before.is_some() || job.expires_at.is_some();
        delivery.held_lease.ask(self.admission.check.changes());
        let gates = self.admission.gates_of(delivery);
        if !begins && gates.is_empty() {
            return Ok(Ok(now));
        }
        self.dispatcher.yield_to_next();
        self.begin(delivery, &Request { gates, keeps_record: begins.then_some(tracked) }).await
    }

    /// Asks once more about an attempt that has waited since, and that no handler has begun.
    pub(super) async fn ask_again(
        &self,
        delivery: &Arc<Delivery>,
        tracked: bool,
    ) -> Result<Instant, Outcome> {
        let cut = delivery.held_lease.token();
        let checking = async {
            while !self.admission.recheck().await {
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        tokio::select! {
            biased;
            () = cut.cancelled() => return Err(delivery.held_lease.outcome()),
            () = checking => {}
        }
        let now = self.confirm(delivery).await?;
        // Its entry goes back if Redis refuses this job alone.
        self.ask(delivery, tracked, now).await.unwrap_or(Err(Outcome::Interrupted))
    }

    /// Asks until there is an answer: without one, the attempt must not start. Returns as [`Executor::ask`] does.
    async fn begin(
        &self,
        delivery: &Arc<Delivery>,
        request: &Request,
    ) -> Result<Result<Instant, Outcome>, Error> {
        let mut backoff = RedisBackoff::new();
        delivery.note_gates(&request.gates);
        loop {
            let asked = Instant::now();
            let answer = tokio::select! {
                biased;
                answer = self.start_checker.ask(delivery, request.clone()) => answer,
                () = delivery.held_lease.token().cancelled() => return Ok(Err(Outcome::Interrupted)),
            };
            let begun = match answer {
                Ok(MayStart::Begun(begun)) => Ok(begun),
                Ok(MayStart::Refused(nth)) => return Ok(Err(self.parked(request, nth))),
                Err(error) => Err(error),
            };
            match begun {
                Ok(Begun::Start(within)) => {
                    if let Some(within) = within {
                        delivery.held_lease.expires_at(asked + within);
                    }
                    return Ok(self.confirm(delivery).await);
                }
                // Giving the entry back finds out what it is, and ends it.
                Ok(Begun::Stale | Begun::DoneAlready) => return Ok(Err(Outcome::Interrupted)),
                Ok(Begun::CancelRequested) => return Ok(Err(Outcome::Cancelled)),
                Ok(Begun::Expired) => return Ok(Err(Outcome::Expired)),
                Ok(Begun::NotDue(wait)) => return Ok(Err(Outcome::NotDue(wait))),
                Err(error) => {
                    self.events.redis_error(error.kind(), &error);
                    if !error.is_transient() {
                        return Err(error);
                    }
                    if delivery.held_lease.token().run_until_cancelled(backoff.wait(&error)).await.is_none() {
                        return Ok(Err(Outcome::Interrupted));
                    }
                }
            }
        }
    }

    /// Returns the outcome of an attempt that the n-th of its gates refuses: its job waits in that gate's waiting list.
    fn parked(&self, request: &Request, nth: usize) -> Outcome {
        let gates = request.gates.to_vec();
        let waitlist = gates.get(nth).or(gates.first()).map(ToString::to_string).unwrap_or_default();
        match self.admission.refused_waitlists.put_off(&waitlist) {
            Some(delay) => Outcome::NotDue(delay),
            None => Outcome::Parked(Parking { waitlist, gates }),
        }
    }

    async fn attempt(
        &self,
        delivery: &Arc<Delivery>,
        policy: &Policy,
        handler: &Erased,
        ((started, slot_timer), tracked): ((Instant, &mut SlotTimer), bool),
        span: Option<&AttemptSpan>,
    ) -> Outcome {
        let timeout = delivery.job.timeout.unwrap_or(policy.timeout);
        let (mut started, held_lease) = (started, &delivery.held_lease);
        loop {
            let deadline = started + timeout;
            held_lease.renew_until(deadline + handler.grace() + SETTLE_MARGIN);
            let reports = Arc::clone(&self.reporter.reports);
            let context = JobContext::new(Arc::clone(delivery), reports, deadline, tracked);
            let bounds = Bounds { timeout, deadline, grace: handler.grace() };
            let running = within(span, handler.run(context));
            let outcome =
                bounded(running, held_lease, bounds, slot_timer, || self.dispatcher.yield_to_next()).await;
            if !held_lease.take_unbegun() {
                return outcome;
            }
            match Box::pin(self.ask_again(delivery, tracked)).await {
                Ok(now) => started = now,
                Err(refused) => return refused,
            }
        }
    }
}
