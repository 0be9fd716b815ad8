//! When a queue is empty: by the rates of the gates that hold its jobs, or by what was measured.

use std::time::Duration;

use super::Backlog;

/// Halves of the measured time whose paces differ by more than this share are unsteady.
const TOLERANCE: f64 = 0.2;

/// Jobs outside of the rooms of gates with a rate may be left out if they are at most this share of those inside.
const FEW: f64 = 0.1;

/// The arrivals and ends of a queue between two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Minute {
    /// The time between the samples: usually one minute. Without any, nothing was counted.
    pub span: Duration,
    /// Jobs that were accepted or replayed. Jobs that were moved here from another queue do not count.
    pub arrived: u64,
    /// Jobs that were done, died or were cancelled. Jobs that were moved away do not count.
    pub ended: u64,
}

/// When a queue is empty, or why nobody can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeToEmpty {
    /// In this time, at the present pace; zero if no job waits.
    After(Duration),
    /// Not before somebody does something: some jobs wait for a gate that is shut, or for a worker that is missing.
    Stopped,
    /// Not at the present pace: at least as many jobs arrive as end.
    NotShrinking,
    /// The pace of the last minutes differs too much from that of the minutes before.
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
    /// The halves of the measured time disagree; this is the slower one.
    Unsteady(f64),
    /// This; not more than zero if the queue does not shrink.
    Steady(f64),
}

impl Pace {
    fn of(minutes: &[Minute]) -> Self {
        let counted: Vec<Minute> = minutes.iter().copied().filter(|minute| !minute.span.is_zero()).collect();
        if counted.len() < 2 {
            return Self::Unknown;
        }
        let (early, late) = counted.split_at(counted.len() / 2);
        let (early, late) = (per_second(early), per_second(late));
        if (early - late).abs() > TOLERANCE * early.abs().max(late.abs()) {
            Self::Unsteady(early.min(late))
        } else {
            Self::Steady(per_second(&counted))
        }
    }
}

/// How many more jobs ended than arrived, per second.
fn per_second(minutes: &[Minute]) -> f64 {
    let sum = |count: fn(&Minute) -> u64| minutes.iter().map(|minute| count(minute) as f64).sum::<f64>();
    let seconds: f64 = minutes.iter().map(|minute| minute.span.as_secs_f64()).sum();
    (sum(|minute| minute.ended) - sum(|minute| minute.arrived)) / seconds
}

/// Returns how long this many jobs last.
pub(super) fn lasting(jobs: u64, per_second: f64) -> Duration {
    Duration::try_from_secs_f64(jobs as f64 / per_second).unwrap_or(Duration::MAX)
}

impl Backlog {
    /// Returns when the queue is empty.
    ///
    /// A gate with a rate lets out its jobs at this rate, so the queue lasts at least as long as the slowest gate that holds jobs.
    /// For all other jobs counts what was measured within [`TimeToEmpty::WINDOW`]: how many more jobs ended than arrived.
    pub fn time_to_empty(&self) -> TimeToEmpty {
        if self.waiting == 0 {
            return TimeToEmpty::After(Duration::ZERO);
        }
        if self.is_stopped() {
            return TimeToEmpty::Stopped;
        }
        let (held, by_gates) = self.by_gates();
        let others = self.waiting.saturating_sub(held);
        let has_few_others = others as f64 <= FEW * held as f64;
        match (Pace::of(&self.minutes), by_gates) {
            (Pace::Steady(pace), _) if pace <= 0.0 => TimeToEmpty::NotShrinking,
            (Pace::Steady(pace), by_gates) => {
                let measured = lasting(self.waiting, pace);
                TimeToEmpty::After(by_gates.unwrap_or_default().max(measured))
            }
            (Pace::Unknown | Pace::Unsteady(_), Some(time)) if has_few_others => TimeToEmpty::After(time),
            (Pace::Unsteady(slow), Some(time)) if slow > 0.0 && lasting(others, slow) <= time => {
                TimeToEmpty::After(time)
            }
            (Pace::Unsteady(_), _) => TimeToEmpty::Unsteady,
            (Pace::Unknown, _) => TimeToEmpty::Unknown,
        }
    }

    /// Returns true if some jobs wait for what does not come by itself.
    fn is_stopped(&self) -> bool {
        self.paused.is_some()
            || self.live_workers == Some(0)
            || self.unserved.iter().any(|(_, jobs)| *jobs > 0)
            || self.gates.iter().any(|gate| gate.jobs > 0 && gate.hold.is_shut())
    }

    /// Returns how many jobs wait at gates with a rate, and how long the slowest of these gates takes.
    fn by_gates(&self) -> (u64, Option<Duration>) {
        let held = self.gates.iter().filter_map(|gate| Some((gate.jobs, gate.lasts()?)));
        held.fold((0, None), |(jobs, longest), (more, lasts)| {
            (jobs.saturating_add(more), longest.max(Some(lasts)))
        })
    }
}
