//! One place of a pool: starts a program when one is wanted, gives it to its session, and starts the next one.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::ended::Ended;
use super::program::{Fault, Program};
use super::room::Starting;
use super::session::Session;
use super::{PoolStart, Shared};
use crate::event::{Event, Events, PoolEnding};

/// What every place of a pool needs.
pub(super) struct Seating {
    pub(super) pool: Arc<Shared>,
    pub(super) events: Events,
    /// Takes the reason if the program and the configuration contradict each other.
    pub(super) refusals: mpsc::Sender<String>,
    pub(super) stop: CancellationToken,
}

impl Seating {
    /// Runs the programs of the n-th place, until the pool stops and the last one has ended.
    pub(super) async fn run(self, nth: usize) {
        let seat = &self.pool.board.seats[nth];
        let is_eager = self.pool.config.start == PoolStart::Eager;
        // The first one starts in any case, so that a mistake shows at once.
        let mut at_once = is_eager || nth == 0;
        while let Some(starting) = self.wanted(at_once).await {
            at_once = is_eager;
            seat.set_starting();
            let started = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                started = Program::start(&self.pool) => started,
            };
            match started {
                Ok((program, ready)) => {
                    let pool = &self.pool.name;
                    let pid = program.leader.pid().as_raw_nonzero();
                    tracing::debug!(%pool, pid, sdk = ready.sdk, "a program of a pool is ready");
                    let config = &self.pool.config;
                    if self.pool.note_ready() && ready.ahead < config.ahead {
                        let (wants, ahead) = (ready.ahead, config.ahead);
                        tracing::warn!(%pool, wants, ahead, "the programs of a pool take fewer jobs ahead than it has places for; lower its ahead");
                    }
                    let room =
                        starting.ready(ready.inflight.min(config.inflight), ready.ahead.min(config.ahead));
                    seat.set_busy(false);
                    let ended = Session::new(&self.pool, seat, program, room).run(&self.stop).await;
                    self.ended(&ended);
                }
                Err(fault) => {
                    drop(starting);
                    self.not_started(&fault);
                }
            }
            seat.clear();
        }
        seat.clear();
    }

    /// Waits until a program should start; `None` if the pool stops first.
    async fn wanted(&self, at_once: bool) -> Option<Starting<'_>> {
        let room = self.pool.config.inflight;
        let starting = async {
            let slots = &self.pool.slots;
            let starting =
                if at_once { Starting::new(slots, room) } else { Starting::wanted(slots, room).await };
            let not_before = self.pool.restarts().not_before();
            if let Some(at) = not_before {
                sleep_until(at.into()).await;
            }
            starting
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            starting = starting => Some(starting),
        }
    }

    fn not_started(&self, fault: &Fault) {
        self.pool.restarts().failed(Instant::now(), rand::random());
        let why = fault.to_string();
        self.report(PoolEnding::NotStarted, &why);
        if matches!(fault, Fault::Refused(_)) && !self.pool.was_ready() {
            let why = format!("the pool {}: {why}", self.pool.name);
            // One reason is enough.
            self.refusals.try_send(why).ok();
        }
    }

    fn ended(&self, ended: &Ended) {
        let is_failure = match ended.ending {
            PoolEnding::Crashed | PoolEnding::Nonsense => true,
            PoolEnding::Exited => ended.answered == 0,
            PoolEnding::MaxJobs
            | PoolEnding::MaxLifetime
            | PoolEnding::MaxMemory
            | PoolEnding::Idle
            | PoolEnding::Stopped
            | PoolEnding::Cut
            | PoolEnding::NotStarted => false,
        };
        if is_failure {
            self.pool.restarts().failed(Instant::now(), rand::random());
        }
        self.report(ended.ending, &ended.why);
    }

    fn report(&self, ending: PoolEnding, why: &str) {
        self.events.emit(&Event::PoolProgramEnded { pool: &self.pool.name, ending, why });
    }
}
