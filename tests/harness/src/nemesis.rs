//! The nemesis: kills and freezes workers by a plan that is determined by one number.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::clock::monotonic_ns;
use super::process::Worker;
use super::wait::until_instant;
use super::weather::{Cause, Event};

/// How many faults strike.
pub struct Intensity {
    pub workers: usize,
    pub kills: usize,
    pub freezes: usize,
    pub freeze_for: RangeInclusive<Duration>,
    /// The time within which every strike falls.
    pub over: Duration,
}

/// One fault to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The time since the start of the plan.
    pub after: Duration,
    /// The slot of the worker.
    pub worker: usize,
    pub blow: Blow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    Kill,
    Freeze(Duration),
}

/// Strikes in the order of their times. No worker is frozen twice at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub strikes: Vec<Strike>,
}

/// Returns the seed from the environment variable `SEED`, or a random one. Prints it, so that a run can be repeated.
pub fn seed() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the seed is for the person who runs the tests")]
    let given = std::env::var("SEED").ok();
    let seed = given.map_or_else(rand::random, |text| text.parse().expect("SEED must be a whole number"));
    eprintln!("nemesis: SEED={seed}");
    seed
}

impl Plan {
    /// Returns the same plan for the same seed and intensity.
    pub fn new(seed: u64, intensity: &Intensity) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut strikes: Vec<Strike> = Vec::new();
        for nth in 0..intensity.kills + intensity.freezes {
            let mut tries = 0;
            let strike = loop {
                let strike = Strike {
                    after: random.random_range(Duration::ZERO..=intensity.over),
                    worker: random.random_range(0..intensity.workers),
                    blow: match nth < intensity.kills {
                        true => Blow::Kill,
                        false => Blow::Freeze(random.random_range(intensity.freeze_for.clone())),
                    },
                };
                if strikes.iter().all(|other| !freeze_at_once(other, &strike)) {
                    break strike;
                }
                tries += 1;
                assert!(tries < 10_000, "this many freezes do not fit into {:?}", intensity.over);
            };
            strikes.push(strike);
        }
        strikes.sort_by_key(|strike| strike.after);
        Self { seed, strikes }
    }

    /// Carries out the plan in real time. `restart` fills the slot of a killed worker. Panics if a
    /// worker ended on its own.
    pub fn unleash(&self, workers: &mut [Worker], mut restart: impl FnMut(usize) -> Worker) -> Vec<Event> {
        let started = Instant::now();
        let mut frozen = HashMap::new();
        let mut events = Vec::new();
        for (after, worker, act) in self.acts() {
            until_instant(started + after);
            let slot = &mut workers[worker];
            strike(act, slot, frozen.entry(worker).or_default(), &mut events);
            if act == Act::Kill {
                *slot = restart(worker);
            }
        }
        events
    }

    fn acts(&self) -> Vec<(Duration, usize, Act)> {
        let mut acts = Vec::new();
        for Strike { after, worker, blow } in &self.strikes {
            match blow {
                Blow::Kill => acts.push((*after, *worker, Act::Kill)),
                Blow::Freeze(length) => {
                    acts.push((*after, *worker, Act::Freeze));
                    acts.push((*after + *length, *worker, Act::Thaw));
                }
            }
        }
        acts.sort_by_key(|(after, _worker, _act)| *after);
        acts
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Kill,
    Freeze,
    /// Does nothing if the frozen worker was killed in the meantime.
    Thaw,
}

/// Performs an act. `frozen` is the time since which the worker is frozen.
fn strike(act: Act, worker: &Worker, frozen: &mut Option<u64>, events: &mut Vec<Event>) {
    let from = monotonic_ns();
    let ended = worker.exit_status().filter(|_status| act != Act::Thaw);
    assert!(ended.is_none(), "a worker ended on its own: {ended:?}\n{}", worker.stderr());
    match act {
        Act::Freeze => {
            *frozen = Some(from);
            worker.freeze();
            return;
        }
        Act::Thaw => worker.thaw(),
        Act::Kill => {
            worker.kill9();
            events.push(event(Cause::Kill, worker, from));
        }
    }
    if let Some(since) = frozen.take() {
        events.push(event(Cause::Freeze, worker, since));
    }
}

fn freeze_at_once(one: &Strike, other: &Strike) -> bool {
    let (Blow::Freeze(one_for), Blow::Freeze(other_for)) = (one.blow, other.blow) else { return false };
    one.worker == other.worker && one.after <= other.after + other_for && other.after <= one.after + one_for
}

fn event(cause: Cause, worker: &Worker, from: u64) -> Event {
    Event { cause, pid: Some(worker.pid()), from, until: monotonic_ns() }
}
