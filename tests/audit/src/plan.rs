//! The plan of an audit's faults, determined by one number.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::options::Options;
use harness::proxy::{Direction, Mode, Scope};

/// No fault strikes before the workers are up.
const FIRST: Duration = Duration::from_secs(2);

/// How often to look for a time at which no other fault hits the same part. A fault that does not fit is left out.
const TRIES: usize = 200;

/// How far the server's clock may be off, in milliseconds.
const OFF_MS: i64 = 15_000;

/// One fault to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    pub after: Duration,
    /// The number of a worker or of a proxy.
    pub slot: usize,
    pub blow: Blow,
    pub length: Duration,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    Kill,
    Term,
    /// All workers at once.
    KillAll,
    TermAll,
    Freeze,
    RedisKill,
    RedisFreeze,
    /// Connections are reset, including new ones.
    Cut,
    Hole(Way),
    /// The replies to requests that contain this are lost: the request is executed and the connection closed.
    Drop(&'static str),
    Slow,
    /// Redis forgets its scripts.
    Flush,
    /// The server's clock is shifted by this many milliseconds.
    Clock(i64),
}

/// The direction in which nothing passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    There,
    Back,
    Both,
}

/// What is in the requests whose replies are lost. A script is sent by its hash, so its keys identify it.
const LOST: [&str; 6] =
    ["EVALSHA", "XREADGROUP", "XACK", "sf:{default}:job:", "sf:{default}:steps:", "XAUTOCLAIM"];

/// Returns the same strikes for the same options. No two of them hit the same part in the same way at once.
pub fn plan(options: &Options) -> Vec<Strike> {
    let mut random = StdRng::seed_from_u64(options.seed ^ 0x5701);
    let mut strikes: Vec<Strike> = Vec::new();
    for blow in blows(options, &mut random) {
        for _try in 0..TRIES {
            let strike = strike(blow, options, &mut random);
            if strikes.iter().all(|other| !clash(other, &strike)) {
                strikes.push(strike);
                break;
            }
        }
    }
    strikes.sort_by_key(|strike| strike.after);
    keep_clock_near(&mut strikes);
    strikes
}

fn blows(options: &Options, random: &mut StdRng) -> Vec<Blow> {
    let (dose, mut blows) = (options.dose, Vec::new());
    for (count, one, all) in
        [(dose.kills, Blow::Kill, Blow::KillAll), (dose.stops, Blow::Term, Blow::TermAll)]
    {
        let mut left = count;
        while left > 0 {
            let at_once = left >= options.workers && random.random_range(0..8) == 0;
            left -= if at_once { options.workers } else { 1 };
            blows.push(if at_once { all } else { one });
        }
    }
    let holes = [Way::There, Way::Back, Way::Both].map(Blow::Hole);
    let lost = LOST.map(Blow::Drop);
    blows.extend(std::iter::repeat_n(Blow::RedisKill, dose.redis_kills));
    blows.extend(std::iter::repeat_n(Blow::RedisFreeze, dose.redis_freezes));
    blows.extend(std::iter::repeat_n(Blow::Freeze, dose.freezes));
    blows.extend(std::iter::repeat_n(Blow::Cut, dose.cuts));
    blows.extend(holes.iter().cycle().take(dose.holes));
    blows.extend(lost.iter().cycle().skip(random.random_range(0..LOST.len())).take(dose.lost_replies));
    blows.extend(std::iter::repeat_n(Blow::Slow, dose.slow));
    blows.extend(std::iter::repeat_n(Blow::Flush, dose.flushes));
    let step = |_| Blow::Clock(random.random_range(1_000..10_000) * if random.random() { 1 } else { -1 });
    blows.extend((0..dose.clock_steps).map(step));
    blows
}

fn strike(blow: Blow, options: &Options, random: &mut StdRng) -> Strike {
    let first = FIRST.min(options.length / 4);
    // The proxy of the producers comes after those of the workers.
    let slots = if blow.hits_network() { options.workers + 1 } else { options.workers };
    // Short faults cost nothing, long ones cost the lease.
    let share = if random.random() { random.random_range(0.05..0.5) } else { random.random_range(0.5..2.0) };
    Strike {
        after: random.random_range(first..options.length.max(first + Duration::from_millis(1))),
        slot: random.random_range(0..slots),
        length: if blow.is_momentary() { Duration::ZERO } else { options.lease.mul_f64(share) },
        blow,
    }
}

/// Reverses clock steps that would lead too far away.
fn keep_clock_near(strikes: &mut [Strike]) {
    let mut off = 0;
    for strike in strikes {
        if let Blow::Clock(step) = &mut strike.blow {
            if (off + *step).abs() > OFF_MS {
                *step = -*step;
            }
            off += *step;
        }
    }
}

impl Blow {
    /// What the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill | Self::KillAll => "worker killed",
            Self::Term | Self::TermAll => "worker stopped",
            Self::Freeze => "worker frozen",
            Self::RedisKill => "Redis killed",
            Self::RedisFreeze => "Redis frozen",
            Self::Cut => "connections cut",
            Self::Hole(_) => "network silent",
            Self::Drop(_) => "replies lost",
            Self::Slow => "network slow",
            Self::Flush => "scripts flushed",
            Self::Clock(_) => "server clock set",
        }
    }

    fn hits_network(self) -> bool {
        matches!(self, Self::Cut | Self::Hole(_) | Self::Drop(_) | Self::Slow)
    }

    /// Whether it is over immediately.
    pub fn is_momentary(self) -> bool {
        let of_workers = matches!(self, Self::Kill | Self::Term | Self::KillAll | Self::TermAll);
        of_workers || matches!(self, Self::Flush | Self::Clock(_))
    }
}

impl Strike {
    /// Returns the part that is hit; `None` if another strike may hit it at the same time.
    fn part(&self) -> Option<(u8, usize)> {
        match self.blow {
            // A killed worker is replaced immediately.
            Blow::Kill | Blow::Term | Blow::KillAll | Blow::TermAll | Blow::Clock(_) => None,
            Blow::Freeze => Some((1, self.slot)),
            Blow::RedisKill | Blow::RedisFreeze | Blow::Flush => Some((2, 0)),
            Blow::Cut | Blow::Hole(_) | Blow::Drop(_) | Blow::Slow => Some((3, self.slot)),
        }
    }

    /// Returns what a proxy does during the strike.
    pub fn mode(&self) -> Mode {
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
            Blow::Kill | Blow::Term | Blow::KillAll | Blow::TermAll | Blow::Freeze => Mode::Pass,
            Blow::RedisKill | Blow::RedisFreeze | Blow::Flush | Blow::Clock(_) => Mode::Pass,
        }
    }
}

fn clash(one: &Strike, other: &Strike) -> bool {
    let within = one.after <= other.after + other.length && other.after <= one.after + one.length;
    one.part().is_some() && one.part() == other.part() && within
}
