//! When a queue is empty: by the rates of the gates that hold its jobs, or by what was measured.

use std::time::Duration;

use super::{Backlog, HeldJobs};
use crate::job::{GateName, Timestamp};

/// A time is named if all that is seen to make it wrong comes to at most this share of it. What is not seen may add a little, and the
/// time shall still be right within 20 %.
const TOLERANCE: f64 = 0.15;

/// Jobs outside of the waiting lists of gates with a rate may be left out if they are at most this share of those inside. So may jobs that
/// still arrive in these waiting lists.
const FEW: f64 = 0.1;

/// Nothing is known of a queue that was counted less often, in a row.
const FEWEST_STRETCHES: usize = 3;

/// Jobs that arrive in bursts are counted once a minute, so about as many as arrive in this time may have come sooner or later.
const BURST: Duration = Duration::from_secs(30);

/// The jobs of a queue at one time, and what had happened since the reading before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// When they were counted, by the clock of Redis.
    pub at: Timestamp,
    /// Jobs that no worker had taken, over all lanes and waiting lists.
    pub waiting: u64,
    /// Those of them that were in waiting lists.
    pub in_rooms: u64,
    /// Jobs that a worker held.
    pub running: u64,
    /// Jobs that were accepted or replayed. Jobs that were moved here from another queue do not count.
    pub arrived: u64,
    /// Attempts that succeeded.
    pub done: u64,
    /// Attempts that failed, or whose worker died.
    pub failed: u64,
    /// Jobs that are tried again because of that.
    pub retried: u64,
    /// How many more jobs were moved here from other queues than away.
    pub moved: i64,
}

/// When a queue is empty, or why nobody can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeToEmpty {
    /// In this time, at the present pace; zero if no job waits.
    After(Duration),
    /// Not before somebody does something: some jobs wait for a gate that is shut, or for a worker that is missing.
    Stopped,
    /// Not at the present pace: the queue never shrank.
    NotShrinking,
    /// The queue shrinks so unevenly that no time is sure to be right within 20 %.
    Unsteady,
    /// Not enough was measured yet.
    Unknown,
}

impl TimeToEmpty {
    /// How far back the pace is measured, in whole minutes.
    pub const WINDOW: Duration = Duration::from_secs(600);

    /// Returns the name, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::After(_) => "known",
            Self::Stopped => "stopped",
            Self::NotShrinking => "not_shrinking",
            Self::Unsteady => "unsteady",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the time, if there is one.
    pub fn time(self) -> Option<Duration> {
        match self {
            Self::After(time) => Some(time),
            Self::Stopped | Self::NotShrinking | Self::Unsteady | Self::Unknown => None,
        }
    }
}

/// How many jobs a queue loses per second.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pace {
    Unknown,
    Unsteady,
    /// The queue never shrank.
    Growing,
    /// This, more than zero.
    Steady(f64),
}

/// What happened between two readings.
struct Stretch {
    seconds: f64,
    /// By how much the jobs that waited or ran became fewer, without those that were moved.
    lost: f64,
    arrived: f64,
    /// How many jobs were in waiting lists before and after it.
    in_rooms: (f64, f64),
}

impl Stretch {
    fn between(before: &Reading, after: &Reading) -> Self {
        let jobs = |reading: &Reading| reading.waiting as f64 + reading.running as f64;
        Self {
            seconds: after.at.since(before.at).as_secs_f64(),
            lost: jobs(before) - jobs(after) + after.moved as f64,
            arrived: after.arrived as f64,
            in_rooms: (before.in_rooms as f64, after.in_rooms as f64),
        }
    }

    /// About how many jobs came to waiting lists whose gates let out this many per second.
    fn came_to_waitlists(&self, per_second: f64) -> f64 {
        let (before, after) = self.in_rooms;
        after - before + before.min(per_second * self.seconds)
    }
}

/// Returns how long this many jobs last.
pub(super) fn lasting(jobs: u64, per_second: f64) -> Duration {
    Duration::try_from_secs_f64(jobs as f64 / per_second).unwrap_or(Duration::MAX)
}

impl Backlog {
    /// Returns when the queue is empty.
    ///
    /// A gate with a rate lets out its jobs at this rate, so the queue lasts at least as long as the slowest gate that holds jobs. All
    /// jobs that wait have to pass the gate of the queue.
    /// For all other jobs counts what was measured within [`TimeToEmpty::WINDOW`]: by how much the queue became shorter.
    pub fn time_to_empty(&self) -> TimeToEmpty {
        if self.waiting == 0 {
            return TimeToEmpty::After(Duration::ZERO);
        }
        if self.is_stopped() {
            return TimeToEmpty::Stopped;
        }
        let stretches = self.stretches();
        let (held, [by_gates, at_most]) = self.by_gates();
        let others = self.waiting.saturating_sub(held);
        let is_sure = at_most <= by_gates.saturating_add(by_gates.mul_f64(TOLERANCE));
        let gates_tell = held > 0 && is_sure && is_quiet(&stretches, held as f64 / by_gates.as_secs_f64());
        if gates_tell && others as f64 <= FEW * held as f64 {
            return TimeToEmpty::After(by_gates);
        }
        match self.pace(&stretches) {
            Pace::Steady(pace) => match lasting(self.waiting, pace) {
                measured if measured >= by_gates => TimeToEmpty::After(measured),
                _ if gates_tell => TimeToEmpty::After(by_gates),
                _ => TimeToEmpty::Unsteady,
            },
            Pace::Growing => TimeToEmpty::NotShrinking,
            Pace::Unsteady => TimeToEmpty::Unsteady,
            Pace::Unknown => TimeToEmpty::Unknown,
        }
    }

    fn stretches(&self) -> Vec<Stretch> {
        let pairs = self.readings.windows(2).filter(|pair| pair[1].at > pair[0].at);
        pairs.map(|pair| Stretch::between(&pair[0], &pair[1])).collect()
    }

    /// Returns how many jobs the queue loses per second, if it does so evenly. What may make a time wrong is added up: that the pace
    /// has changed lately, that the counts are small, and that some jobs come or go earlier or later than at this pace.
    fn pace(&self, stretches: &[Stretch]) -> Pace {
        let Some(last) = self.readings.last().filter(|_| stretches.len() >= FEWEST_STRETCHES) else {
            return Pace::Unknown;
        };
        // A queue that was empty lately has workers that keep up.
        let mut lately = self.readings.iter().rev().take(FEWEST_STRETCHES);
        if stretches.iter().all(|one| one.lost <= 0.0) && lately.all(|reading| reading.waiting > 0) {
            return Pace::Growing;
        }
        let sum = |of: fn(&Stretch) -> f64| stretches.iter().map(of).sum::<f64>();
        let (seconds, lost, arrived) = (sum(|one| one.seconds), sum(|one| one.lost), sum(|one| one.arrived));
        let pace = lost / seconds;
        if pace <= 0.0 {
            return Pace::Unsteady;
        }
        // How many more jobs the queue has lost than at this pace, and how much of the time is left.
        let (mut ahead, mut rest) = (0.0_f64, seconds);
        let (mut most, mut least, mut change) = (0.0_f64, 0.0_f64, 0.0_f64);
        for one in stretches {
            change = change.max(ahead.abs() / (pace * rest));
            ahead += one.lost - pace * one.seconds;
            rest -= one.seconds;
            (most, least) = (most.max(ahead), least.min(ahead));
        }
        let expected =
            last.waiting as f64 + last.running as f64 - pace * self.now.since(last.at).as_secs_f64();
        let since = (expected - self.waiting as f64 - self.running as f64).abs();
        let burst = arrived / seconds * BURST.as_secs_f64();
        let uneven = (most - least + since + burst + self.running as f64) / self.waiting as f64;
        let by_chance = (lost + 2.0 * arrived).sqrt() / lost;
        if change + by_chance + uneven <= TOLERANCE { Pace::Steady(pace) } else { Pace::Unsteady }
    }

    /// Returns true if some jobs wait for what does not come by itself.
    fn is_stopped(&self) -> bool {
        self.paused.is_some()
            || self.live_workers == Some(0)
            || self.unserved.iter().any(|(_, jobs)| *jobs > 0)
            || self.gates.iter().any(|gate| gate.jobs > 0 && gate.hold.is_shut())
    }

    /// Returns how many jobs gates with a rate hold, and how long the slowest of these gates takes: at least, and at most. Jobs that wait
    /// at the gate of the queue may all have to pass the slowest of the others, too, also if none waits there yet.
    fn by_gates(&self) -> (u64, [Duration; 2]) {
        let is_queue = |gate: &&HeldJobs| gate.gate.as_str() == GateName::QUEUE;
        let sum = |jobs: u64, gate: &HeldJobs| jobs.saturating_add(gate.jobs);
        let with_rate = || self.gates.iter().filter(|gate| gate.jobs > 0 && gate.lasts().is_some());
        let of_queue = with_rate().filter(is_queue).fold(0, sum);
        let of_others = with_rate().filter(|gate| !is_queue(gate)).fold(0, sum);
        let at_others = self.gates.iter().filter(|gate| !is_queue(gate)).fold(0, sum);
        let elsewhere = of_queue.saturating_sub(at_others);
        let longest = |more: u64| {
            let lasts = |gate: &HeldJobs| match if is_queue(&gate) { 0 } else { more } {
                0 if gate.jobs == 0 => None,
                more => gate.lasts_with(more),
            };
            self.gates.iter().filter_map(lasts).max().unwrap_or_default()
        };
        (of_queue.max(of_others), [longest(0), longest(elsewhere)])
    }
}

/// Returns true if hardly any jobs came to waiting lists whose gates let out this many per second, but for two stretches in a row in which
/// somebody may have submitted many at once.
fn is_quiet(stretches: &[Stretch], per_second: f64) -> bool {
    let came: Vec<f64> = stretches.iter().map(|one| one.came_to_waitlists(per_second)).collect();
    let pairs = came.windows(2).map(|pair| pair[0] + pair[1]).enumerate();
    let Some((busiest, _)) = pairs.max_by(|(_, one), (_, other)| one.total_cmp(other)) else { return true };
    let others = (0..came.len()).filter(|nth| *nth != busiest && *nth != busiest + 1);
    let sums = |(jobs, seconds): (f64, f64), nth: usize| (jobs + came[nth], seconds + stretches[nth].seconds);
    let (jobs, seconds) = others.fold((0.0, 0.0), sums);
    jobs <= 1.0 + FEW * per_second * seconds
}
