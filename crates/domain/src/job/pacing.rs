//! How many workers a queue has, and how often each may query Redis, so that together they cost little while the queue
//! is idle: the more workers there are, the less often each one asks.

use std::ops::Range;
use std::time::Duration;

use super::jittered;

/// Up to this many workers all wait on the streams. More would make every XADD expensive: since Redis 7.2, each XADD
/// runs every waiting read again.
const ALL_WAIT: u64 = 64;

/// In a larger fleet, about this many workers wait on the streams. The others stand by until they are called. The
/// probability that chance leaves nobody waiting is 1 in e^16, or 9 million.
const WAITING: f64 = 16.0;

/// The commands per second of all workers of an idle queue together. With the leader's maintenance (about five commands per
/// second), the total stays below twenty.
const READS: f64 = 6.0;
const CALLS_AWAITED: f64 = 4.5;
const REPORTS: f64 = 2.0;
const WAITLISTS_ASKED: f64 = 2.0;
const WAITLISTS_ASKED_BY_MANY: f64 = 1.0;

/// A fleet of more workers than this asks about waiting lists less often.
const FEW: u64 = 8;

/// The shortest and the longest time that a read waits. Longer reads would delay the discovery of a dead connection,
/// and shutdown if nothing ends a wait early.
const READ_WAIT: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(12)];

/// However many workers there are, each one sends a query within this time.
const LONGEST: Duration = Duration::from_secs(600);

/// The shortest time between two reports of a worker that it is alive.
const MIN_REPORT_EVERY: Duration = Duration::from_secs(5);

/// The shortest and the longest time between two questions of a worker about waiting lists.
const WAITLISTS_ASKED_EVERY: [Duration; 2] = [Duration::from_millis(400), Duration::from_secs(3600)];

/// A live member has touched its group within this time, or within `TOUCHED_EACH` per member if that is longer.
const TOUCHED: Duration = Duration::from_secs(20);
const TOUCHED_EACH: Duration = Duration::from_millis(600);

/// A process checks within this time on a recurring job's tick that it left to the others. In a large fleet, it does so
/// within `TICK_CHECKED_EACH` per process, so that all of them together check at most twenty times per second.
const TICK_CHECKED: Duration = Duration::from_secs(2);
const TICK_CHECKED_EACH: Duration = Duration::from_millis(50);

/// By how much the times of workers vary that started together.
const SPREAD: Range<f64> = 0.75..1.25;

/// How many workers a queue has: the consumers of its group, some of which may be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pacing(u64);

impl Pacing {
    /// Creates the pacing for this many workers; zero counts as one.
    pub fn of(workers: u64) -> Self {
        Self(workers.max(1))
    }

    /// Returns how many workers the queue has.
    pub fn members(self) -> u64 {
        self.0
    }

    /// Returns true if some workers stand by and have to be called.
    pub fn is_large(self) -> bool {
        self.0 > ALL_WAIT
    }

    /// Returns true if a worker with this random number, from 0 to 1, stands by instead of waiting on the streams.
    pub fn stands_by(self, roll: f64) -> bool {
        if !self.is_large() {
            return false;
        }
        // This is a share of time, not of turns: a worker stands by for longer than it waits.
        let workers = self.0 as f64;
        let waiting = WAITING * self.standby_time(0.5).as_secs_f64();
        let standing_by = (workers - WAITING) * self.read_wait(0.5).as_secs_f64();
        roll >= waiting / (waiting + standing_by)
    }

    /// Returns how long a read waits for the first entry.
    pub fn read_wait(self, roll: f64) -> Duration {
        let waiting = if self.is_large() { f64::INFINITY } else { self.0 as f64 };
        jittered(share(waiting, READS, READ_WAIT), SPREAD, roll)
    }

    /// Returns how long a standby worker waits for a call.
    pub fn standby_time(self, roll: f64) -> Duration {
        jittered(share(self.0 as f64, CALLS_AWAITED, [READ_WAIT[0], LONGEST]), SPREAD, roll)
    }

    /// Returns how long a live worker may go without touching the group.
    pub fn max_silence(self) -> Duration {
        Duration::from_millis(self.0.saturating_mul(600))
    }

    /// Returns the time within which an idle worker hears from Redis while all is well.
    pub fn max_answer_gap(self) -> Duration {
        let wait = if self.is_large() { self.standby_time(1.0) } else { self.read_wait(1.0) };
        wait + Duration::from_secs(5)
    }

    /// Returns the longest time between two reports of a worker that it is alive.
    pub fn report_every(self) -> Duration {
        share(self.0 as f64, REPORTS, [MIN_REPORT_EVERY, LONGEST])
    }

    /// Returns the time between two questions of an idle worker about waiting lists of unknown types.
    pub fn waitlists_asked_every(self) -> Duration {
        let per_second = if self.0 > FEW { WAITLISTS_ASKED_BY_MANY } else { WAITLISTS_ASKED };
        share(self.0 as f64, per_second, WAITLISTS_ASKED_EVERY)
    }

    /// Returns how long no worker has asked about a waiting list whose type none of them knows. Each worker that knows a type asks at
    /// least twice in this time, if it finds all waiting lists in this many questions.
    pub fn unasked_for(self, questions: u64) -> Duration {
        let questions = u32::try_from(questions.max(1)).unwrap_or(u32::MAX);
        self.waitlists_asked_every().saturating_mul(2).saturating_mul(questions) + Duration::from_secs(2)
    }

    /// Returns true if a member that touched the group this long ago counts as alive. While a queue is idle, members
    /// touch the normal lane's group only when they ask to become its leader (before Redis 7.2, a waiting read touches
    /// nothing). The more members there are, the less often each one asks.
    pub fn counts_as_live(self, idle: Duration) -> bool {
        idle < TOUCHED.max(TOUCHED_EACH.saturating_mul(u32::try_from(self.0).unwrap_or(u32::MAX)))
    }

    /// Returns the time within which each process checks on a recurring job's tick that it left to the others.
    pub fn tick_checked_within(self) -> Duration {
        TICK_CHECKED.max(TICK_CHECKED_EACH.saturating_mul(u32::try_from(self.0).unwrap_or(u32::MAX)))
    }

    /// Returns how long a worker counts as alive after it has reported.
    pub fn alive_for(self) -> Duration {
        (self.report_every() * 5 / 2).max(6 * MIN_REPORT_EVERY)
    }
}

fn share(workers: f64, per_second: f64, [least, longest]: [Duration; 2]) -> Duration {
    Duration::from_secs_f64((workers / per_second).clamp(least.as_secs_f64(), longest.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands per second of all workers of an idle queue, without the leader's maintenance and the requests to become leader.
    fn sent(workers: u64) -> f64 {
        let (pacing, workers) = (Pacing::of(workers), workers as f64);
        let waiting = if pacing.is_large() { WAITING } else { workers };
        let each = |time: Duration| 1.0 / time.as_secs_f64();
        waiting * each(pacing.read_wait(0.5))
            + (workers - waiting) * each(pacing.standby_time(0.5))
            + workers * each(pacing.report_every())
            + workers * each(pacing.waitlists_asked_every())
    }

    #[test]
    fn all_workers_together_stay_within_the_budget() {
        for workers in [1, 2, 10, 64, 65, 100, 200, 500, 1000, 2000] {
            assert!(sent(workers) < 12.0, "{workers} workers send {} commands/s", sent(workers));
        }
    }

    #[test]
    fn no_read_waits_for_longer_than_fifteen_seconds() {
        for workers in [1, 64, 65, 1_000_000] {
            assert!(Pacing::of(workers).read_wait(1.0) <= Duration::from_secs(15), "{workers}");
        }
    }

    #[test]
    fn few_workers_never_stand_by_and_many_nearly_always() {
        assert!(!Pacing::of(64).stands_by(1.0));
        assert!(!Pacing::of(200).stands_by(0.2));
        assert!(Pacing::of(200).stands_by(0.3));
    }

    #[test]
    fn a_worker_counts_as_alive_longer_than_its_reports_are_apart() {
        for workers in [0, 1, 30, 64, 1000, u64::MAX] {
            let pacing = Pacing::of(workers);
            assert!(pacing.alive_for() > pacing.report_every() * 2, "{workers}");
        }
    }
}
