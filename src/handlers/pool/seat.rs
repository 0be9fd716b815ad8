//! One place of a pool: starts a program when one is wanted, gives it to its session, and starts the next one. When new programs
//! are requested, one starts beside the old one, and takes its place once it is ready.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, mpsc, watch};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::ended::Ended;
use super::program::{Fault, Program};
use super::program_capacity::Starting;
use super::session::Session;
use super::{PoolStart, Shared};
use crate::event::{Event, Events, PoolEnding, ProgramEvent};

/// What to know about a new program that could not replace an old one.
const OLD_STAY: &str =
    "the old programs go on; new ones are tried after the next reload, or with --watch after the next change";

/// What every place of a pool needs.
pub(super) struct Seating {
    pub(super) pool: Arc<Shared>,
    pub(super) events: Events,
    /// Takes the reason if the program and the configuration contradict each other.
    pub(super) refusals: mpsc::Sender<String>,
    /// How often new programs were requested.
    pub(super) requests: watch::Receiver<u64>,
    pub(super) trial: Arc<Mutex<Trial>>,
    /// Held by a program that was replaced until it has ended: a place has two programs at most.
    pub(super) spare: Semaphore,
    pub(super) stop: CancellationToken,
}

/// Whether new programs can replace the old ones. The first one of each request shows it for all places.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// The last request whose first program was ready.
    passed: u64,
    /// The last request whose first program was not.
    failed: u64,
}

/// When the next program of a place starts.
#[derive(Debug, Clone, Copy)]
enum When {
    AtOnce,
    /// When there are more jobs than programs.
    Wanted,
    /// When there are more jobs than programs, or when new programs are requested: while none was ready, one that starts then shows
    /// whether what was mended works.
    Requested,
}

/// A program that serves.
struct Serving<'a> {
    /// Ends with the program.
    session: BoxFuture<'a, ()>,
    /// Cancelled when another program has taken its place.
    leave: CancellationToken,
    /// How often new programs had been requested when it started.
    generation: u64,
}

/// The programs of a place that were replaced, and end the jobs that they have begun.
type Leaving<'a> = FuturesUnordered<BoxFuture<'a, ()>>;

/// Waits for something while programs that were replaced work on.
async fn meanwhile<T>(leaving: &mut Leaving<'_>, awaited: impl Future<Output = T>) -> T {
    let mut awaited = pin!(awaited);
    loop {
        tokio::select! {
            biased;
            Some(()) = leaving.next() => {}
            done = &mut awaited => return done,
        }
    }
}

impl Seating {
    /// Runs the programs of one place, until the pool stops and the last one has ended. The first place of a pool starts its
    /// program in any case, so that a mistake shows at once.
    pub(super) async fn run(self, is_first: bool) {
        let is_eager = self.pool.config.start == PoolStart::Eager;
        let mut when = if is_eager || is_first { When::AtOnce } else { When::Wanted };
        let (mut leaving, mut requests) = (Leaving::new(), self.requests.clone());
        while let Some(starting) = meanwhile(&mut leaving, self.wanted(when, &mut requests)).await {
            requests.mark_unchanged();
            match meanwhile(&mut leaving, self.start(starting)).await {
                Some(Ok(serving)) => self.serve(serving, &mut leaving).await,
                Some(Err(fault)) => self.not_started(&fault),
                None => break,
            }
            when = match is_eager {
                true => When::AtOnce,
                false if is_first && !self.pool.was_ready() => When::Requested,
                false => When::Wanted,
            };
        }
        while leaving.next().await.is_some() {}
    }

    /// Waits until a program should start; `None` if the pool stops first.
    async fn wanted<'a>(&'a self, when: When, requests: &mut watch::Receiver<u64>) -> Option<Starting<'a>> {
        let starting = async {
            let slots = &self.pool.slots;
            let starting = match when {
                When::AtOnce => Starting::new(slots, 1),
                When::Wanted => Starting::wanted(slots).await,
                When::Requested => tokio::select! {
                    starting = Starting::wanted(slots) => starting,
                    Ok(()) = requests.changed() => return Starting::new(slots, 1),
                },
            };
            let not_before = self.pool.restarts().not_before;
            if let Some(at) = not_before {
                tokio::select! {
                    () = sleep_until(at.into()) => {}
                    // Somebody who has requested new programs since the last one started has probably mended something.
                    Ok(()) = requests.changed() => {}
                }
            }
            starting
        };
        self.stop.run_until_cancelled(starting).await
    }

    /// Starts a program; `None` if the pool stops first.
    async fn start<'a>(&'a self, starting: Starting<'a>) -> Option<Result<Serving<'a>, Fault>> {
        let (generation, seat) = (*self.requests.borrow(), self.pool.board.add());
        let started = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            started = Program::start(&self.pool) => started,
        };
        let (program, ready) = match started {
            Ok(started) => started,
            Err(fault) => return Some(Err(fault)),
        };
        let (pool, config) = (&self.pool.name, &self.pool.config);
        let pid = program.leader.pid().as_raw_nonzero();
        tracing::debug!(%pool, pid, sdk = ready.sdk, "a program of a pool is ready");
        seat.set_busy(false);
        if self.pool.note_ready() {
            for remark in config.unused_by(&ready) {
                tracing::warn!(%pool, remark, "the programs of a pool do not use all of its settings");
            }
        }
        let capacity = starting.ready(ready.inflight.min(config.inflight), ready.ahead.min(config.ahead));
        let leave = CancellationToken::new();
        let left = leave.clone();
        let session = Box::pin(async move {
            let session = Session::new(&self.pool, seat, program, capacity);
            self.ended(&session.run(&self.stop, &left).await);
        });
        Some(Ok(Serving { session, leave, generation }))
    }

    /// Waits until a program has ended, or the last one of those that replaced it.
    async fn serve<'a>(&'a self, mut serving: Serving<'a>, leaving: &mut Leaving<'a>) {
        loop {
            let generation = serving.generation;
            let replaced = async {
                tokio::select! {
                    biased;
                    () = &mut serving.session => None,
                    next = self.replacement(generation) => Some(next),
                }
            };
            let Some((next, spare)) = meanwhile(leaving, replaced).await else { return };
            let old = std::mem::replace(&mut serving, next);
            old.leave.cancel();
            leaving.push(Box::pin(async move {
                old.session.await;
                drop(spare);
            }));
        }
    }

    /// Returns a program that is ready to replace one of this generation, once new programs are requested.
    async fn replacement(&self, mut generation: u64) -> (Serving<'_>, SemaphorePermit<'_>) {
        let mut requests = self.requests.clone();
        loop {
            let requested = requests.wait_for(|latest| *latest > generation).await.is_ok();
            let spare = self.spare.acquire().await.ok().filter(|_| requested);
            // Without a handle, nothing more will be requested.
            let Some(spare) = spare else { return pending().await };
            generation = *requests.borrow_and_update();
            let trial = self.trial.lock().await;
            if trial.failed >= generation {
                continue;
            }
            // The others wait for what becomes of the first one, and then start together.
            let mut trial = (trial.passed < generation).then_some(trial);
            match self.start(Starting::new(&self.pool.slots, 0)).await {
                Some(Ok(next)) => {
                    if let Some(trial) = &mut trial {
                        trial.passed = generation;
                        tracing::info!(pool = %self.pool.name, "a new program of a pool is ready; new ones replace all");
                    }
                    return (next, spare);
                }
                Some(Err(fault)) => {
                    if let Some(trial) = &mut trial {
                        trial.failed = generation;
                    }
                    self.not_replaced(&fault);
                }
                // The pool stops, and so does the old one.
                None => pending().await,
            }
        }
    }

    fn not_started(&self, fault: &Fault) {
        let why = fault.to_string();
        self.pool.note_fault(&why);
        self.report(PoolEnding::NotStarted, &why);
        if matches!(fault, Fault::Refused(_)) && !self.pool.was_ready() {
            let why = format!("the pool {}: {why}", self.pool.name);
            // One reason is enough.
            self.refusals.try_send(why).ok();
        }
    }

    fn not_replaced(&self, fault: &Fault) {
        let why = format!("{fault}\n{OLD_STAY}");
        self.report(PoolEnding::NotStarted, &why);
    }

    fn ended(&self, ended: &Ended) {
        let is_failure = match ended.ending {
            PoolEnding::Crashed | PoolEnding::Nonsense => true,
            PoolEnding::Exited => ended.answered == 0,
            PoolEnding::MaxJobs
            | PoolEnding::MaxLifetime
            | PoolEnding::MaxMemory
            | PoolEnding::Idle
            | PoolEnding::Reload
            | PoolEnding::Stopped
            | PoolEnding::Cut
            | PoolEnding::NotStarted => false,
        };
        if is_failure {
            self.pool.note_crash(&ended.why);
        }
        self.report(ended.ending, &ended.why);
    }

    fn report(&self, ending: PoolEnding, why: &str) {
        self.events.emit(&Event::Program(ProgramEvent::PoolEnded { pool: &self.pool.name, ending, why }));
    }
}
