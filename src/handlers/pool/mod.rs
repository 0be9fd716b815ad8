//! The handler that gives jobs to long-lived programs, over their standard input and output: one line of JSON per message.
//! `docs/pools.md` is the contract with the programs.
//!
//! A job waits in the `slots` until a program has room; of several, the `loads` say which one gets it. Each place of the pool
//! (`seat`) starts a `program`, when it is wanted and the `restarts` allow it, and runs its `session`: the session waits for jobs
//! (`taking`), writes (`outgoing`, `written`, `payload`) and reads the lines (`message`), keeps the bounds of its `jobs`, of whose `cuts` it
//! hears, and ends the program. `ended` says what becomes of its jobs then. The `board` shows what all programs are doing, and
//! `reports` logs what they say.

mod board;
mod choice;
mod config;
mod cuts;
mod ended;
mod jobs;
mod loads;
mod message;
mod outcome;
mod outgoing;
mod payload;
mod program;
mod program_capacity;
mod reports;
mod request;
mod restarts;
mod seat;
mod session;
mod slots;
mod taking;
mod words;
mod written;

use std::collections::BTreeSet;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use self::board::{Board, Tally};
use self::cuts::CutFlag;
use self::request::Request;
use self::restarts::Restarts;
use self::seat::Seating;
use self::slots::Slots;
use super::Error;
use super::process::Setting;
use crate::broker::PoolDown;
use crate::broker::mutex::lock;
use crate::event::{Event, Events, ProgramEvent};
use crate::job::{ErrorRules, JobType, Policy, PoolName};
use crate::{Handler, JobContext, JobError, RawPayload};

pub use choice::PoolChoice;
pub use config::{PoolConfig, PoolStart};

/// How long after an attempt was cut short its program is asked to end it.
const CUT_DELAY: Duration = Duration::from_millis(50);

/// How long a program with one job may take to answer after it was asked to end it: usually, it cannot even read that.
const ALONE: Duration = Duration::from_secs(1);

/// The longest that a job waits in the pool for a program.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long it takes at most to reap a program that was killed, and to read the rest of its output.
const REAPING: Duration = Duration::from_secs(2);

/// How often the metrics of a pool are updated.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Gives jobs to long-lived programs; `docs/pools.md` describes what these read and write.
///
/// The fleet runs the programs: [`Builder::pool_for`](crate::Builder::pool_for) adds a type whose jobs they run, and
/// [`Builder::pool`](crate::Builder::pool) adds a pool whose clones are the handlers of steps. Clones share the programs.
///
/// | answer | outcome |
/// |---|---|
/// | `done` | done; none of the result is kept beyond 64 KiB |
/// | `retry` | failed: retried according to the type's policy, but not before `delay_ms`; or what [`Policy::errors`] and [`PoolConfig::errors`] say about its `classes` |
/// | `retry` with `unknown` | failed and unknown |
/// | `fatal` | the job is buried at once |
/// | `snooze` | runs again after `delay_ms`; no attempt is spent, and the job's log says why |
/// | `drop` | ends as cancelled |
/// | none: the program crashed, or wrote nonsense | failed and unknown, with the end of standard error; lost if it had other jobs too |
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    /// The most attempts of the type whose handler this is.
    max_attempts: u32,
    /// The most losses of that type.
    max_losses: u32,
    /// What follows from the classes of errors: the rules of the type over those of the pool.
    errors: Arc<ErrorRules>,
}

/// What all clones and all places of a pool share.
// No `Debug`: the environment may contain secrets.
pub(crate) struct Shared {
    name: PoolName,
    config: PoolConfig,
    setting: Setting,
    /// The types that its programs have to serve.
    types: Mutex<BTreeSet<String>>,
    slots: Slots,
    restarts: Mutex<Restarts>,
    board: Board,
    /// Whether somebody runs it.
    runs: AtomicBool,
    /// Whether one of its programs has ever been ready.
    was_ready: AtomicBool,
}

impl Pool {
    /// Creates a pool of programs, which start when a fleet runs it. The variables that it passes on from the worker's
    /// environment are read now, and their user is looked up.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if [`PoolConfig::validate`] finds a problem, the user is not known, or this process must not run programs as
    /// that user. Whether the program exists is only checked when
    /// it is started.
    pub fn new(name: PoolName, config: PoolConfig) -> Result<Self, Error> {
        Error::unless_valid(config.validate())?;
        let setting = config.template().setting().map_err(Error::invalid)?;
        let shared = Shared {
            name,
            setting,
            types: Mutex::default(),
            slots: Slots::new(config.inflight),
            restarts: Mutex::default(),
            board: Board::default(),
            runs: AtomicBool::new(false),
            was_ready: AtomicBool::new(false),
            config,
        };
        let errors = Arc::new(shared.config.errors.clone());
        let Policy { max_attempts, max_losses, .. } = Policy::default();
        Ok(Self { shared: Arc::new(shared), max_attempts, max_losses, errors })
    }

    /// Returns its name, as metrics have it.
    pub fn name(&self) -> &PoolName {
        &self.shared.name
    }

    /// Returns the handler of a type, or of its steps: the programs have to serve the type.
    #[doc(hidden)]
    pub fn serving(&self, job_type: &JobType, policy: &Policy) -> Self {
        lock(&self.shared.types).insert(job_type.to_string());
        let errors = Arc::new(policy.errors.over(&self.shared.config.errors));
        let Policy { max_attempts, max_losses, .. } = *policy;
        Self { shared: Arc::clone(&self.shared), max_attempts, max_losses, errors }
    }

    /// Returns true if both have the same programs.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns how many jobs its programs have at once at most.
    pub(crate) fn places(&self) -> usize {
        self.shared.config.places()
    }

    /// Says why no program serves, if the last one could not start, or if programs keep failing.
    pub(crate) fn down(&self) -> Option<PoolDown> {
        let serves = self.shared.board.serves();
        let why = self.shared.restarts().fault(Instant::now().into_std(), serves)?;
        let (pool, types) = (self.shared.name.to_string(), self.shared.types());
        Some(PoolDown { pool, types, why, ..PoolDown::default() })
    }

    /// Starts one program, exchanges greetings and ends it, to see whether it works and serves the types. Returns which settings
    /// it leaves unused, for people.
    ///
    /// # Errors
    ///
    /// What is wrong, for people.
    #[doc(hidden)]
    pub async fn try_start(&self) -> Result<Vec<String>, String> {
        let started = program::Program::start(&self.shared).await;
        let (mut program, ready) = started.map_err(|fault| fault.to_string())?;
        program.stdin = None;
        tokio::time::timeout(self.shared.config.grace, program.leader.exited()).await.ok();
        drop(program.end().await);
        Ok(self.shared.config.unused_by(&ready))
    }

    /// Starts one program and has it say what the types of its handlers need. Returns the last line that it writes, which is JSON.
    ///
    /// # Errors
    ///
    /// What is wrong, for people.
    #[doc(hidden)]
    pub async fn describe(&self) -> Result<Vec<u8>, String> {
        let described = program::Program::describe(&self.shared).await;
        described.map(|line| line.to_vec()).map_err(|fault| fault.to_string())
    }

    /// Runs the programs until `stop` is cancelled and all of them have ended. New ones replace them whenever `requests` grows.
    /// If the program and the configuration contradict each other from the start, the reason goes to `refusals`.
    pub(crate) async fn supervise(
        self,
        events: Events,
        refusals: mpsc::Sender<String>,
        (requests, stop): (watch::Receiver<u64>, CancellationToken),
    ) {
        let pool = self.shared;
        let (mut seats, trial) = (JoinSet::new(), Arc::default());
        for nth in 0..pool.config.processes {
            let seating = Seating {
                pool: Arc::clone(&pool),
                events: events.clone(),
                refusals: refusals.clone(),
                requests: requests.clone(),
                trial: Arc::clone(&trial),
                spare: Semaphore::new(1),
                stop: stop.clone(),
            };
            seats.spawn(seating.run(nth == 0));
        }
        let mut reports = interval(REPORT_EVERY);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting = pin!(pool.slots.drop_overdue());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = &mut waiting => {}
                _ = reports.tick() => pool.report(&events),
            }
        }
        pool.slots.close();
        while seats.join_next().await.is_some() {}
        pool.report(&events);
    }

    /// Notes that a fleet is about to run it.
    pub(crate) fn set_running(&self) {
        self.shared.slots.open();
        self.shared.runs.store(true, Ordering::Release);
    }

    /// Gives back the jobs that no program has begun, and those that still come: a fleet that stops waits only for the others.
    pub(crate) fn drain(&self) {
        self.shared.slots.close();
    }

    /// Returns true if the job has to run alone: it has been lost, and would be dead if it was lost once more, perhaps because of
    /// another job. A program that has one job at a time loses none.
    fn runs_alone(&self, context: &JobContext) -> bool {
        let lost = context.job().lost;
        self.shared.config.inflight > 1 && lost > 0 && lost.saturating_add(1) >= self.max_losses
    }
}

impl Shared {
    /// Returns the types that the programs have to serve.
    fn types(&self) -> Vec<String> {
        lock(&self.types).iter().cloned().collect()
    }

    fn restarts(&self) -> MutexGuard<'_, Restarts> {
        lock(&self.restarts)
    }

    /// Notes that a program is ready. Returns true the first time.
    fn note_ready(&self) -> bool {
        self.restarts().ready(Instant::now().into_std());
        !self.was_ready.swap(true, Ordering::AcqRel)
    }

    /// Notes that a program did not start.
    fn note_fault(&self, why: &str) {
        let serves = self.board.serves();
        let mut restarts = self.restarts();
        restarts.failed(Instant::now().into_std(), rand::random());
        if !serves {
            restarts.note_fault(why);
        }
    }

    /// Notes that a program failed after it was ready.
    fn note_crash(&self, why: &str) {
        let now = Instant::now().into_std();
        let mut restarts = self.restarts();
        restarts.failed(now, rand::random());
        restarts.note_crash(why, now);
    }

    fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Acquire)
    }

    /// Returns how long a program may take to answer a job that it was asked to end.
    fn patience(&self) -> Duration {
        if self.config.inflight == 1 { self.config.grace.min(ALONE) } else { self.config.grace }
    }

    fn report(&self, events: &Events) {
        let Tally { busy, idle, starting, leaving, memory } = self.board.tally();
        let event = ProgramEvent::Pool { pool: &self.name, busy, idle, starting, leaving, memory };
        events.emit(&Event::Program(event));
    }
}

/// Waits until an instant, forever if there is none.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// The place of a job in the pool, given up when this is dropped.
struct Ticket<'a> {
    slots: &'a Slots,
    /// `None` once there is an answer.
    number: Option<u64>,
    cut: Arc<CutFlag>,
}

impl Ticket<'_> {
    /// Takes the job out if it still waits for a program.
    fn withdraw(&self) -> bool {
        self.number.is_some_and(|number| self.slots.withdraw(number))
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.number.is_some() {
            self.withdraw();
            self.cut.raise();
        }
    }
}

impl Handler for Pool {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, RawPayload(payload): RawPayload, context: JobContext) -> Result<Value, JobError> {
        let shared = &self.shared;
        if !shared.runs.load(Ordering::Acquire) {
            let why = format!("the fleet does not run the pool {}: add it with Builder::pool", shared.name);
            return Err(JobError::retry(why));
        }
        let (answer, mut answered) = oneshot::channel();
        let flag = Arc::<CutFlag>::default();
        let cut = Arc::clone(&flag);
        let (seen, max_attempts) = (context.clone(), self.max_attempts);
        let now = Instant::now();
        let is_alone = self.runs_alone(&context);
        let patience = LONGEST_WAIT.min(context.time_left_at(now.into_std()) / 2);
        let number = shared.slots.push(|number| Request {
            number,
            context: seen,
            payload,
            max_attempts,
            is_alone,
            patience,
            until: now + patience,
            answer,
            cut,
        });
        let mut ticket = Ticket { slots: &shared.slots, number: Some(number), cut: flag };
        let cancellation = context.cancellation();
        let mut is_cut = false;
        loop {
            tokio::select! {
                biased;
                answer = &mut answered => {
                    ticket.number = None;
                    return self.outcome(answer, &context);
                }
                () = cancellation.cancelled(), if !is_cut => {
                    is_cut = true;
                    if ticket.withdraw() {
                        return Err(self.not_run(&context));
                    }
                    ticket.cut.raise();
                }
            }
        }
    }

    /// The time to ask the program, to end it, and a little more to reap it.
    fn grace(&self) -> Duration {
        CUT_DELAY + self.shared.patience() + self.shared.config.grace + REAPING
    }
}

#[cfg(test)]
mod tests;
