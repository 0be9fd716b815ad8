//! Stage 3: runs one delivery under its timeout and cancellation, and returns how it ended. It never writes to Redis,
//! except to ask whether an attempt that has a history may start.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};

use super::admission::Admission;
use super::alarm::Alarm;
use super::backoff::RedisBackoff;
use super::beginner::{Beginner, MayStart, Request};
use super::clock::ServerClock;
use super::delivery::{Delivery, FinishedAttempt, SettlerInput};
use super::dispatcher::Dispatcher;
use super::handler::JobContext;
use super::lease::HeldLease;
use super::registry::{Erased, Registered, Registry, Runner};
use super::reporter::Reporter;
use super::steps;
use super::steps::ledgers::Ledgers;
use crate::broker::{Begun, Error, Queue};
use crate::event::{Event, Events, Finished};
use crate::job::{
    ConsumerName, Failure, FailureKind, JobSpec, Outcome, Parking, Policy, Retry, Tracking, settle,
};
use crate::sabotage::{self, Sabotage};
use crate::schema::aside;
use crate::traces::{AttemptSpan, Facts, Tracer, within};

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
    pub(crate) beginner: Beginner,
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
    /// Runs one delivery to its end, unless Redis refuses to let it begin. `alarm` is that of its slot.
    pub(super) async fn run(&self, delivery: Arc<Delivery>, alarm: &mut Alarm) -> SettlerInput {
        let job = &delivery.job;
        let Some(registered) = self.registry.get(&job.job_type) else {
            let put_off = self.admission.refused_rooms.put_off(&Parking::unknown(&job.job_type).room);
            let outcome = put_off.map_or(Outcome::Unroutable, Outcome::NotDue);
            return SettlerInput::not_run(delivery, outcome);
        };
        if let Some(why) = self.misfit(job).await {
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
        let (outcome, elapsed) = self.perform(&delivery, registered, (attempt, tracked), (now, alarm)).await;
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
    async fn misfit(&self, job: &JobSpec) -> Option<String> {
        let schemas = self.registry.schemas();
        if !schemas.has(&job.job_type) {
            return None;
        }
        self.dispatcher.yield_to_next();
        let (schemas, job_type) = (schemas.clone(), job.job_type.clone());
        let (payload, encoding) = (job.payload.clone(), job.encoding);
        let check = move || schemas.check(&job_type, &payload, encoding);
        let invalid = aside(job.payload.len(), check).await.err()?;
        Some(format!("the payload does not fit the schema of {}: {invalid}", job.job_type))
    }

    /// Runs the handler or the steps, which start now, and reports so. Returns how that ended, and how long it took.
    async fn perform(
        &self,
        delivery: &Arc<Delivery>,
        registered: &Registered,
        (attempt, tracked): (Option<Box<steps::Attempt<'_>>>, bool),
        (started, alarm): (Instant, &mut Alarm),
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
                let times = (started, alarm);
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
        let span = tracer.begin(&Facts {
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
                answer = self.beginner.ask(delivery, request.clone()) => answer,
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

    /// Returns the outcome of an attempt that the n-th of its gates refuses: its job waits in that gate's room.
    fn parked(&self, request: &Request, nth: usize) -> Outcome {
        let gates = request.gates.to_vec();
        let room = gates.get(nth).or(gates.first()).map(ToString::to_string).unwrap_or_default();
        match self.admission.refused_rooms.put_off(&room) {
            Some(delay) => Outcome::NotDue(delay),
            None => Outcome::Parked(Parking { room, gates }),
        }
    }

    async fn attempt(
        &self,
        delivery: &Arc<Delivery>,
        policy: &Policy,
        handler: &Erased,
        ((started, alarm), tracked): ((Instant, &mut Alarm), bool),
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
                bounded(running, held_lease, bounds, alarm, || self.dispatcher.yield_to_next()).await;
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

/// Returns what a handler says within its grace period. If this process was frozen, what the handler waits for may have
/// arrived meanwhile, and the runtime does not know yet: it gets to look before the handler is abandoned.
pub(super) async fn outcome_within_grace(
    running: impl Future<Output = Outcome> + Unpin,
    grace: Duration,
) -> Option<Outcome> {
    tokio::task::yield_now().await;
    tokio::time::timeout(grace, running).await.ok()
}

/// Waits until an attempt's time is up. Its deadline moves while its clock is paused.
async fn time_is_up(held_lease: &HeldLease, deadline: Instant, alarm: &mut Alarm) {
    let mut due = deadline;
    loop {
        alarm.reached(due).await;
        let moved = deadline + held_lease.paused_for(Instant::now());
        if moved <= due {
            return;
        }
        due = moved;
    }
}

/// The bounds of one attempt.
pub(super) struct Bounds {
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
    /// How long the handler may continue after its cancellation.
    pub(super) grace: Duration,
}

/// Runs a handler within its bounds. Calls `waits` if the handler is not done at once.
pub(super) async fn bounded(
    mut running: impl Future<Output = Outcome> + Unpin,
    held_lease: &HeldLease,
    bounds: Bounds,
    alarm: &mut Alarm,
    waits: impl FnOnce(),
) -> Outcome {
    // Many handlers are done at once, and need neither a timer nor another slot that takes over.
    if let Poll::Ready(outcome) = futures_util::poll!(&mut running) {
        return outcome;
    }
    waits();
    // It was polled just now, and need not be again before something wakes it. `tokio::select!` may return without polling
    // anything, and then the first poll of `ended` could be the one that the handler has asked for.
    let mut is_fresh = true;
    let ended = poll_fn(|context| match std::mem::take(&mut is_fresh) {
        true => Poll::Pending,
        false => Pin::new(&mut running).poll(context),
    });
    let time_is_up = pin!(time_is_up(held_lease, bounds.deadline, alarm));
    let cancelled = pin!(held_lease.token().cancelled());
    let cut_short = match select(ended, select(time_is_up, cancelled)).await {
        Either::Left((outcome, _)) => {
            // It may have failed because it saw its cancellation before we did.
            let failed = matches!(outcome, Outcome::Failed(_)) && held_lease.is_cut();
            return if failed && held_lease.is_aware() { held_lease.outcome() } else { outcome };
        }
        Either::Right((Either::Left(_), _)) => {
            let error = format!("the handler ran longer than its timeout of {:?}", bounds.timeout);
            held_lease.cut();
            Outcome::Failed(Failure::new(FailureKind::Timeout, error, Retry::Policy))
        }
        Either::Right((Either::Right(_), _)) => held_lease.outcome(),
    };
    // A success within the grace period is a success. Anything else is the consequence of our cutting the attempt
    // short, unless the handler cannot know about that.
    match outcome_within_grace(running, bounds.grace).await {
        Some(Outcome::Done(result)) => Outcome::Done(result),
        Some(outcome) if !held_lease.is_aware() => outcome,
        Some(_) | None => cut_short,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use tokio::io::AsyncReadExt;

    use super::*;

    fn failed() -> Outcome {
        Outcome::Failed(Failure::new(FailureKind::Error, "no", Retry::Policy))
    }

    /// Returns the outcome of an attempt that is cut short while it runs.
    async fn cut(told: bool, running: impl Future<Output = Outcome>) -> Outcome {
        let held_lease = HeldLease::new(Instant::now());
        held_lease.cut();
        if told {
            held_lease.mark_aware();
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let bounds = Bounds { timeout: Duration::from_secs(60), deadline, grace: Duration::ZERO };
        bounded(Box::pin(running), &held_lease, bounds, &mut Alarm::default(), || {}).await
    }

    #[tokio::test]
    async fn an_end_counts_unless_the_cut_may_have_caused_it() {
        let fails = || async {
            tokio::task::yield_now().await;
            failed()
        };
        assert_eq!(cut(false, fails()).await, failed());
        assert_eq!(cut(true, fails()).await, Outcome::Interrupted);
        assert_eq!(cut(true, async { Outcome::Done(None) }).await, Outcome::Done(None));
        assert_eq!(cut(false, pending()).await, Outcome::Interrupted);
    }

    #[tokio::test]
    async fn a_handler_that_never_lets_others_run_meets_its_deadline() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let busy = async {
            // Ready for ever, so only the task's budget interrupts it.
            loop {
                sender.try_send(()).unwrap();
                receiver.recv().await;
            }
        };
        let held_lease = HeldLease::new(Instant::now());
        let timeout = Duration::from_millis(50);
        let bounds = Bounds { timeout, deadline: Instant::now() + timeout, grace: Duration::ZERO };
        let mut alarm = Alarm::default();
        let bounded = bounded(Box::pin(busy), &held_lease, bounds, &mut alarm, || {});
        let outcome =
            tokio::time::timeout(Duration::from_secs(30), bounded).await.expect("it met no deadline");
        let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.kind, FailureKind::Timeout);
    }

    #[tokio::test]
    async fn a_handler_that_waits_is_polled_once_before_it_is_woken() {
        let (polls, held_lease) = (std::cell::Cell::new(0), HeldLease::new(Instant::now()));
        let running = poll_fn(|context| {
            polls.set(polls.get() + 1);
            // The second time, it was woken.
            if polls.get() == 1 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Outcome::Done(None))
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        let bounds = Bounds { timeout: Duration::from_secs(60), deadline, grace: Duration::ZERO };
        let mut alarm = Alarm::default();
        let mut bounded = pin!(bounded(running, &held_lease, bounds, &mut alarm, || {}));
        assert!(futures_util::poll!(&mut bounded).is_pending());
        assert_eq!(bounded.await, Outcome::Done(None));
        assert_eq!(polls.get(), 2);
    }

    #[tokio::test]
    async fn a_handler_is_polled_when_it_is_woken_though_its_task_has_used_up_its_budget() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        while tokio::task::coop::has_budget_remaining() {
            sender.try_send(()).unwrap();
            receiver.recv().await;
        }
        let mut is_woken = false;
        let running = poll_fn(|context| {
            if std::mem::replace(&mut is_woken, true) {
                return Poll::Ready(Outcome::Done(None));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        let (held_lease, timeout) = (HeldLease::new(Instant::now()), Duration::from_secs(3600));
        let bounds = Bounds { timeout, deadline: Instant::now() + timeout, grace: Duration::ZERO };
        let mut alarm = Alarm::default();
        let mut bounded = pin!(bounded(running, &held_lease, bounds, &mut alarm, || {}));
        assert!(futures_util::poll!(&mut bounded).is_pending());
        tokio::task::yield_now().await;
        assert_eq!(futures_util::poll!(&mut bounded), Poll::Ready(Outcome::Done(None)));
    }

    #[tokio::test]
    async fn the_clock_of_a_paused_attempt_does_not_run() {
        let (held_lease, timeout) = (HeldLease::new(Instant::now()), Duration::from_millis(50));
        let started = Instant::now();
        held_lease.pause(started);
        let bounds = Bounds { timeout, deadline: started + timeout, grace: Duration::ZERO };
        let resumed = async {
            tokio::time::sleep(4 * timeout).await;
            held_lease.resume(Instant::now());
            pending().await
        };
        let mut alarm = Alarm::default();
        let bounded = bounded(Box::pin(resumed), &held_lease, bounds, &mut alarm, || {});
        let outcome =
            tokio::time::timeout(Duration::from_secs(30), bounded).await.expect("it met no deadline");
        assert!(matches!(outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Timeout));
        assert!(started.elapsed() >= 5 * timeout, "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn an_answer_that_arrived_before_the_cut_counts() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut ours = tokio::net::UnixStream::from_std(ours).unwrap();
        let answered = async {
            ours.read_u8().await.unwrap();
            Outcome::Done(None)
        };
        theirs.write_all(b"x").unwrap();
        assert_eq!(cut(false, answered).await, Outcome::Done(None));
    }
}
