//! The faults of an audit: carries out the plan, and records which fault hit which process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::causes::Note;
use super::offsets::Offsets;
use super::plan::{Blow, Strike};
use super::register::Register;
use super::slow::Slowest;
use super::worker::Program;
use harness::clock::monotonic_ns;
use harness::process::Worker;
use harness::proxy::{Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::wait::until_instant;
use harness::weather::{Cause, Event};

/// The account of an audit's faults.
pub(crate) struct Suffered {
    /// The faults that silence a worker, each with the worker that it hit.
    pub events: Vec<Event>,
    /// The faults of the network.
    pub notes: Vec<Note>,
    /// When each process started.
    pub processes: Vec<(u32, u64)>,
    pub offsets: Offsets,
    /// How often each fault struck, by its name.
    pub counts: BTreeMap<&'static str, usize>,
    /// From when to when Redis was down or frozen.
    pub redis_away: Vec<(u64, u64)>,
    pub slowest: Slowest,
}

/// The targets of faults, and which faults hit them.
pub(crate) struct Targets {
    server: Arc<RedisServer>,
    register: Arc<Register>,
    programs: Vec<Program>,
    proxies: Vec<Proxy>,
    workers: Vec<Arc<Worker>>,
    /// The workers that were asked to stop.
    pub leaving: Vec<Arc<Worker>>,
    /// Each process id with its slot and the time when it started.
    lives: Vec<(u32, usize, u64)>,
    events: Vec<Event>,
    /// Faults of the network, by slot.
    network: Vec<(usize, Blow, u64, u64)>,
    offsets: Offsets,
    counts: BTreeMap<&'static str, usize>,
    redis_away: Vec<(u64, u64)>,
    slowest: Slowest,
    /// How many strikes there were, for the progress.
    struck: Arc<AtomicUsize>,
}

impl Targets {
    /// The last proxy belongs to the producers.
    pub(crate) fn new(
        server: Arc<RedisServer>,
        register: Arc<Register>,
        programs: Vec<Program>,
        proxies: Vec<Proxy>,
        struck: Arc<AtomicUsize>,
    ) -> Self {
        let mut targets = Self {
            server,
            register,
            programs,
            proxies,
            workers: Vec::new(),
            leaving: Vec::new(),
            lives: Vec::new(),
            events: Vec::new(),
            network: Vec::new(),
            offsets: Offsets::default(),
            counts: BTreeMap::new(),
            redis_away: Vec::new(),
            slowest: Slowest::default(),
            struck,
        };
        for slot in 0..targets.programs.len() {
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

    /// Carries out the plan.
    pub(crate) fn suffer(&mut self, plan: &[Strike]) {
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
            self.replace_who_crashed();
            self.struck.fetch_add(1, Ordering::SeqCst);
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

    /// Replaces workers that ended on their own, which none should, and complains about them.
    pub(crate) fn replace_who_crashed(&mut self) {
        for slot in 0..self.workers.len() {
            let worker = Arc::clone(&self.workers[slot]);
            if let Some(status) = worker.exit_status() {
                let (pid, stderr) = (worker.pid(), worker.stderr());
                self.register.complain(format!("worker {pid} ended on its own: {status:?}\n{stderr}"));
                self.workers[slot] = self.start(slot);
            }
        }
    }

    /// Strikes; returns `None` if the fault is over immediately.
    #[expect(
        clippy::option_option,
        reason = "the outer one says whether there is an end, the inner one whose"
    )]
    fn strike(&mut self, strike: &Strike) -> Option<Option<Arc<Worker>>> {
        let slots = self.workers.len();
        let hit = if matches!(strike.blow, Blow::KillAll | Blow::TermAll) { slots } else { 1 };
        *self.counts.entry(strike.blow.name()).or_default() += hit;
        match strike.blow {
            Blow::Kill => self.kill(strike.slot),
            Blow::Term => self.term(strike.slot),
            Blow::KillAll => (0..slots).for_each(|slot| self.kill(slot)),
            Blow::TermAll => (0..slots).for_each(|slot| self.term(slot)),
            Blow::Freeze => {
                let worker = Arc::clone(&self.workers[strike.slot]);
                worker.freeze();
                return Some(Some(worker));
            }
            Blow::RedisKill => {
                self.slowest.look(&self.server);
                self.server.kill9();
            }
            Blow::RedisFreeze => self.server.freeze(),
            Blow::Cut | Blow::Hole(_) | Blow::Drop(_) | Blow::Slow => {
                self.proxies[strike.slot].set(strike.mode());
            }
            Blow::Flush => drop(self.server.try_cmd(&["SCRIPT", "FLUSH"])),
            Blow::Clock(by_ms) => {
                self.server.shift_clock(by_ms);
                self.offsets.step(monotonic_ns(), by_ms);
            }
        }
        (!strike.blow.is_momentary()).then_some(None)
    }

    fn kill(&mut self, slot: usize) {
        let (worker, from) = (Arc::clone(&self.workers[slot]), monotonic_ns());
        worker.kill9();
        self.note(Cause::Kill, Some(worker.pid()), from);
        self.workers[slot] = self.start(slot);
    }

    /// Asks a worker to stop, and starts its successor immediately.
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
                let worker = whom.expect("a worker was frozen");
                worker.thaw();
                self.note(Cause::Freeze, Some(worker.pid()), since);
            }
            Blow::RedisKill => {
                self.server.restart();
                self.note(Cause::Network, None, since);
                self.redis_away.push((since, monotonic_ns()));
            }
            Blow::RedisFreeze => {
                self.server.thaw();
                self.note(Cause::Redis, None, since);
                self.redis_away.push((since, monotonic_ns()));
            }
            Blow::Cut | Blow::Hole(_) | Blow::Slow | Blow::Drop(_) => {
                self.proxies[strike.slot].set(Mode::Pass);
                self.network.push((strike.slot, strike.blow, since, monotonic_ns()));
            }
            Blow::Kill | Blow::Term | Blow::KillAll | Blow::TermAll | Blow::Flush | Blow::Clock(_) => {}
        }
    }

    fn note(&mut self, cause: Cause, pid: Option<u32>, from: u64) {
        self.events.push(Event { cause, pid, from, until: monotonic_ns() });
    }

    /// Asks all workers to stop.
    pub(crate) fn stop(&mut self) {
        self.slowest.look(&self.server);
        for worker in self.workers.drain(..) {
            worker.term();
            self.leaving.push(worker);
        }
    }

    /// Returns which faults hit which process.
    pub(crate) fn account(self) -> Suffered {
        let Self { lives, mut events, network, offsets, counts, redis_away, slowest, .. } = self;
        let mut notes = Vec::new();
        for (slot, blow, from, until) in network {
            for (pid, ..) in lives.iter().filter(|(_pid, own, _since)| *own == slot) {
                notes.push(Note { pid: *pid, at: from, what: format!("{blow:?}") });
                // A worker that loses a reply or is slow is still heard: that is no cause for anything to run twice.
                if !matches!(blow, Blow::Drop(_) | Blow::Slow) {
                    events.push(Event { cause: Cause::Network, pid: Some(*pid), from, until });
                }
            }
        }
        let processes = lives.into_iter().map(|(pid, _slot, since)| (pid, since)).collect();
        Suffered { events, notes, processes, offsets, counts, redis_away, slowest }
    }
}
