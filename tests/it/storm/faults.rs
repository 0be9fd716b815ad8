//! The faults of a storm: carries a plan out, and keeps account of what has hit whom.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::causes::Note;
use super::plan::{Blow, Strike};
use super::worker::Program;
use crate::harness::clock::monotonic_ns;
use crate::harness::process::Worker;
use crate::harness::proxy::{Mode, Proxy};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::until_instant;
use crate::harness::weather::{Cause, Event};

pub(super) const WORKERS: usize = 4;
/// The proxy of the producers comes after those of the workers.
pub(super) const PROXIES: usize = WORKERS + 1;
/// The account of a storm's faults.
pub(super) struct Suffered {
    /// The faults that silence somebody, each for whom it hit.
    pub(super) events: Vec<Event>,
    /// What hit the network.
    pub(super) notes: Vec<Note>,
    /// When each process began.
    pub(super) processes: Vec<(u32, u64)>,
}

/// What is hit, and what has hit it.
pub(super) struct Targets {
    pub(super) server: Arc<RedisServer>,
    pub(super) programs: Vec<Program>,
    pub(super) proxies: Vec<Proxy>,
    workers: Vec<Arc<Worker>>,
    /// Those that were asked to stop.
    pub(super) leaving: Vec<Arc<Worker>>,
    /// Each process with its slot and its life.
    lives: Vec<(u32, usize, u64)>,
    events: Vec<Event>,
    /// Faults of the network, by slot.
    network: Vec<(usize, Blow, u64, u64)>,
}

impl Targets {
    pub(super) fn new(server: Arc<RedisServer>, programs: Vec<Program>, proxies: Vec<Proxy>) -> Self {
        let (workers, leaving, lives) = (Vec::new(), Vec::new(), Vec::new());
        let mut targets = Self {
            server,
            programs,
            proxies,
            workers,
            leaving,
            lives,
            events: Vec::new(),
            network: Vec::new(),
        };
        for slot in 0..WORKERS {
            let worker = targets.start(slot);
            targets.workers.push(worker);
        }
        targets
    }

    fn start(&mut self, slot: usize) -> Arc<Worker> {
        let worker = Arc::new(self.programs[slot].launch().start());
        self.lives.push((worker.pid(), slot, monotonic_ns()));
        worker
    }

    /// Carries the plan out.
    pub(super) fn suffer(&mut self, plan: &[Strike]) {
        let started = Instant::now();
        let mut ends: Vec<(Duration, Strike, u64, Option<Arc<Worker>>)> = Vec::new();
        for strike in plan {
            ends.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
            while let Some((at, ..)) = ends.last()
                && *at <= strike.after
            {
                let (at, strike, since, whom) = ends.pop().expect("there is a last one");
                until_instant(started + at);
                self.relieve(&strike, since, whom);
            }
            until_instant(started + strike.after);
            let since = monotonic_ns();
            if let Some(whom) = self.strike(strike) {
                ends.push((strike.after + strike.length, strike.clone(), since, whom));
            }
        }
        ends.sort_by_key(|(at, ..)| *at);
        for (at, strike, since, whom) in ends {
            until_instant(started + at);
            self.relieve(&strike, since, whom);
        }
    }

    /// `None` where it is over at once.
    #[expect(
        clippy::option_option,
        reason = "the outer one says whether there is an end, the inner one whose"
    )]
    fn strike(&mut self, strike: &Strike) -> Option<Option<Arc<Worker>>> {
        match strike.blow {
            Blow::Kill => self.kill(strike.slot),
            Blow::Term => self.term(strike.slot),
            Blow::KillAll => (0..WORKERS).for_each(|slot| self.kill(slot)),
            Blow::TermAll => (0..WORKERS).for_each(|slot| self.term(slot)),
            Blow::Freeze => {
                let worker = Arc::clone(&self.workers[strike.slot]);
                worker.freeze();
                return Some(Some(worker));
            }
            Blow::RedisKill => self.server.kill9(),
            Blow::RedisFreeze => self.server.freeze(),
            Blow::Cut | Blow::Hole(_) | Blow::Drop(_) | Blow::Slow => {
                self.proxies[strike.slot].set(strike.mode());
            }
        }
        let is_over = matches!(strike.blow, Blow::Kill | Blow::Term | Blow::KillAll | Blow::TermAll);
        (!is_over).then_some(None)
    }

    fn kill(&mut self, slot: usize) {
        let (worker, from) = (Arc::clone(&self.workers[slot]), monotonic_ns());
        worker.kill9();
        self.note(Cause::Kill, Some(worker.pid()), from);
        self.workers[slot] = self.start(slot);
    }

    /// Its successor is there at once.
    fn term(&mut self, slot: usize) {
        let (worker, from) = (Arc::clone(&self.workers[slot]), monotonic_ns());
        worker.term();
        self.events.push(Event { cause: Cause::Stop, pid: Some(worker.pid()), from, until: u64::MAX });
        self.leaving.push(worker);
        self.workers[slot] = self.start(slot);
    }

    fn relieve(&mut self, strike: &Strike, since: u64, whom: Option<Arc<Worker>>) {
        match strike.blow {
            Blow::Freeze => {
                let worker = whom.expect("somebody was frozen");
                worker.thaw();
                self.note(Cause::Freeze, Some(worker.pid()), since);
            }
            Blow::RedisKill => {
                self.server.restart();
                self.note(Cause::Network, None, since);
            }
            Blow::RedisFreeze => {
                self.server.thaw();
                self.note(Cause::Redis, None, since);
            }
            Blow::Cut | Blow::Hole(_) | Blow::Slow | Blow::Drop(_) => {
                self.proxies[strike.slot].set(Mode::Pass);
                self.network.push((strike.slot, strike.blow, since, monotonic_ns()));
            }
            Blow::Kill | Blow::Term | Blow::KillAll | Blow::TermAll => {}
        }
    }

    fn note(&mut self, cause: Cause, pid: Option<u32>, from: u64) {
        self.events.push(Event { cause, pid, from, until: monotonic_ns() });
    }

    /// Asks all workers to stop.
    pub(super) fn stop(&mut self) {
        for worker in self.workers.drain(..) {
            worker.term();
            self.leaving.push(worker);
        }
    }

    /// What has hit whom.
    pub(super) fn account(self) -> Suffered {
        let Self { lives, mut events, network, .. } = self;
        let mut notes = Vec::new();
        for (slot, blow, from, until) in network {
            for (pid, ..) in lives.iter().filter(|(_pid, own, _since)| *own == slot) {
                notes.push(Note { pid: *pid, at: from, what: format!("{blow:?}") });
                // Who loses a reply or is slow is heard all the same: that is no cause for anything to run twice.
                if !matches!(blow, Blow::Drop(_) | Blow::Slow) {
                    events.push(Event { cause: Cause::Network, pid: Some(*pid), from, until });
                }
            }
        }
        let processes = lives.into_iter().map(|(pid, _slot, since)| (pid, since)).collect();
        Suffered { events, notes, processes }
    }
}
