//! The plan of a storm's faults, which one number determines.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::faults::{PROXIES, WORKERS};
use crate::harness::proxy::{Direction, Mode, Scope};

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
    /// All workers at once.
    KillAll,
    TermAll,
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
        0..15 => Blow::Kill,
        15..17 => Blow::KillAll,
        17..26 => Blow::Term,
        26..28 => Blow::TermAll,
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
            Blow::Kill | Blow::Term | Blow::KillAll | Blow::TermAll => (0, usize::MAX),
            Blow::Freeze => (1, self.slot),
            Blow::RedisKill | Blow::RedisFreeze => (2, 0),
            Blow::Cut | Blow::Hole(_) | Blow::Drop(_) | Blow::Slow => (3, self.slot),
        }
    }

    /// What a proxy does meanwhile.
    pub(super) fn mode(&self) -> Mode {
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
            Blow::Kill | Blow::Term | Blow::KillAll | Blow::TermAll => Mode::Pass,
            Blow::Freeze | Blow::RedisKill | Blow::RedisFreeze => Mode::Pass,
        }
    }
}

fn clash(one: &Strike, other: &Strike) -> bool {
    let within = one.after <= other.after + other.length && other.after <= one.after + one.length;
    one.part().1 != usize::MAX && one.part() == other.part() && within
}
