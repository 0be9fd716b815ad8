//! The faults of a storm: a plan that one number determines, and its execution.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::causes::Note;
use super::worker::Program;
use crate::harness::clock::monotonic_ns;
use crate::harness::process::Worker;
use crate::harness::proxy::{Direction, Mode, Proxy, Scope};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::until_instant;
use crate::harness::weather::{Cause, Event};

pub(super) const WORKERS: usize = 4;
/// The proxy of the producers comes after those of the workers.
pub(super) const PROXIES: usize = WORKERS + 1;
/// The mean pause between two faults.
const PAUSE_MS: u64 = 1_500;

/// One fault to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strike {
    pub(super) after: Duration,
    /// A worker, or a proxy.
    pub(super) slot: usize,
    pub(super) blow: Blow,
    pub(super) length: Duration,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    Kill,
    Term,
    Freeze,
    RedisKill,
    RedisFreeze,
    /// Connections are reset, the new ones too.
    Cut,
    Hole(Way),
    /// The replies to requests with this in them get lost: executed, and the connection closed.
    Drop(&'static str),
    Slow,
}

/// Which way nothing passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    There,
    Back,
    Both,
}

/// Commands whose replies get lost; a script is sent by its hash, so its keys tell what it is.
const LOST: [&str; 6] =
    ["EVALSHA", "XREADGROUP", "XACK", "sf:{default}:job:", "sf:{default}:steps:", "XAUTOCLAIM"];

/// The same strikes for the same seed and lengths. No two of them hit the same part in the same way at once.
pub(super) fn plan(seed: u64, over: Duration, lease: Duration) -> Vec<Strike> {
    let mut random = StdRng::seed_from_u64(seed ^ 0x5701);
    let mut strikes: Vec<Strike> = Vec::new();
    let mut after = Duration::from_secs(2);
    while after < over {
        let slot = random.random_range(0..PROXIES);
        let mut blow = blow(&mut random);
        if slot == WORKERS && matches!(blow, Blow::Kill | Blow::Term | Blow::Freeze) {
            blow = Blow::Cut;
        }
        // Short ones cost nothing, long ones cost the lease.
        let share =
            if random.random() { random.random_range(0.05..0.5) } else { random.random_range(0.5..2.0) };
        let strike = Strike { after, slot, blow, length: lease.mul_f64(share) };
        if strikes.iter().all(|other| !clash(other, &strike)) {
            strikes.push(strike);
        }
        after += Duration::from_millis(random.random_range(0..2 * PAUSE_MS));
    }
    strikes
}

fn blow(random: &mut StdRng) -> Blow {
    match random.random_range(0..100) {
        0..18 => Blow::Kill,
        18..28 => Blow::Term,
        28..44 => Blow::Freeze,
        44..50 => Blow::RedisKill,
        50..58 => Blow::RedisFreeze,
        58..66 => Blow::Cut,
        66..70 => Blow::Hole(Way::There),
        70..74 => Blow::Hole(Way::Back),
        74..78 => Blow::Hole(Way::Both),
        78..96 => Blow::Drop(LOST[random.random_range(0..LOST.len())]),
        _ => Blow::Slow,
    }
}

impl Strike {
    fn part(&self) -> (u8, usize) {
        match self.blow {
            // A killed worker is replaced at once.
            Blow::Kill | Blow::Term => (0, usize::MAX),
            Blow::Freeze => (1, self.slot),
            Blow::RedisKill | Blow::RedisFreeze => (2, 0),
            Blow::Cut | Blow::Hole(_) | Blow::Drop(_) | Blow::Slow => (3, self.slot),
        }
    }

    fn mode(&self) -> Mode {
        let direction = |way| match way {
            Way::There => Direction::Requests,
            Way::Back => Direction::Replies,
            Way::Both => Direction::Both,
        };
        match self.blow {
            Blow::Cut => Mode::Rst,
            Blow::Hole(way) => Mode::Blackhole { scope: Scope::All, direction: direction(way) },
            Blow::Drop(needle) => Mode::drop_reply_to(needle, 2),
            Blow::Slow => Mode::Delay { by: Duration::from_millis(30), direction: Direction::Both },
            Blow::Kill | Blow::Term | Blow::Freeze | Blow::RedisKill | Blow::RedisFreeze => Mode::Pass,
        }
    }
}

fn clash(one: &Strike, other: &Strike) -> bool {
    let within = one.after <= other.after + other.length && other.after <= one.after + one.length;
    one.part().1 != usize::MAX && one.part() == other.part() && within
}

/// The account of it.
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
        let from = monotonic_ns();
        match strike.blow {
            Blow::Kill => {
                let worker = Arc::clone(&self.workers[strike.slot]);
                worker.kill9();
                self.note(Cause::Kill, Some(worker.pid()), from);
                self.workers[strike.slot] = self.start(strike.slot);
                None
            }
            Blow::Term => {
                let worker = Arc::clone(&self.workers[strike.slot]);
                worker.term();
                self.events.push(Event {
                    cause: Cause::Stop,
                    pid: Some(worker.pid()),
                    from,
                    until: u64::MAX,
                });
                self.leaving.push(worker);
                self.workers[strike.slot] = self.start(strike.slot);
                None
            }
            Blow::Freeze => {
                let worker = Arc::clone(&self.workers[strike.slot]);
                worker.freeze();
                Some(Some(worker))
            }
            Blow::RedisKill => {
                self.server.kill9();
                Some(None)
            }
            Blow::RedisFreeze => {
                self.server.freeze();
                Some(None)
            }
            Blow::Cut | Blow::Hole(_) | Blow::Drop(_) | Blow::Slow => {
                self.proxies[strike.slot].set(strike.mode());
                Some(None)
            }
        }
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
                self.note(Cause::Redis, None, since);
            }
            Blow::RedisFreeze => {
                self.server.thaw();
                self.note(Cause::Redis, None, since);
            }
            Blow::Cut | Blow::Hole(_) | Blow::Slow | Blow::Drop(_) => {
                self.proxies[strike.slot].set(Mode::Pass);
                self.network.push((strike.slot, strike.blow, since, monotonic_ns()));
            }
            Blow::Kill | Blow::Term => {}
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
                // A lost reply silences nobody: it is no cause for anything to run twice.
                if !matches!(blow, Blow::Drop(_)) {
                    events.push(Event { cause: Cause::Network, pid: Some(*pid), from, until });
                }
            }
        }
        let processes = lives.into_iter().map(|(pid, _slot, since)| (pid, since)).collect();
        Suffered { events, notes, processes }
    }
}
