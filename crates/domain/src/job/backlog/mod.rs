//! What is known about the jobs that wait in a queue, and the two figures that follow from it: when the queue is empty, and why
//! its jobs wait.

mod cause;
mod pace;
mod standing;

use std::time::Duration;

pub use self::cause::Cause;
pub use self::pace::{Reading, TimeToEmpty};
pub use self::standing::GateStanding;
use super::{Closed, GateName, JobType, Rate, Rule, Timestamp};

/// What is known about the jobs that wait in a queue.
#[derive(Debug, Clone, Default)]
pub struct Backlog {
    /// The time of the clock of Redis.
    pub now: Timestamp,
    /// Jobs that no worker has taken, over all lanes and waiting lists.
    pub waiting: u64,
    /// Those of them that wait for nothing but a worker: in lanes, and for the turn of their value.
    pub in_lanes: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Jobs in the delayed set, among them those that wait to be tried again.
    pub delayed: u64,
    /// How long the oldest job of a lane has waited there.
    pub oldest_in_lanes: Option<Duration>,
    /// How many workers are live; `None` if that is not known.
    pub live_workers: Option<u64>,
    /// How many bytes Redis uses, and how many it may use; `None` if it has no limit, or does not tell.
    pub memory: Option<(u64, u64)>,
    /// Who has paused the whole queue, if somebody has.
    pub paused: Option<Closed>,
    /// The gates that hold jobs. Jobs that wait at another gate count for that of the queue, too, if it has a rate.
    pub gates: Vec<HeldJobs>,
    /// The types that no live worker knows, and how many of their jobs wait.
    pub unserved: Vec<(JobType, u64)>,
    /// The pools because of which some types run nowhere: each a [`Cause::PoolDown`].
    pub pools_down: Vec<Cause>,
    /// The readings within [`TimeToEmpty::WINDOW`], the oldest first: usually one a minute.
    pub readings: Vec<Reading>,
}

/// Jobs that have yet to pass a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldJobs {
    /// The gate.
    pub gate: GateName,
    /// How many jobs have yet to pass it, as far as is known.
    pub jobs: u64,
    /// Why they do not pass.
    pub hold: Hold,
}

/// Why jobs do not pass a gate.
#[derive(Debug, Clone, PartialEq)]
pub enum Hold {
    /// Somebody has closed it.
    Paused {
        /// Who; may be empty.
        by: String,
        /// Why; may be empty.
        reason: String,
    },
    /// Its breaker is open for this long.
    Tripped(Duration),
    /// Its rule cannot be read.
    Unreadable,
    /// At most this many start in a period.
    Rate(Rate),
    /// At most this many run at once.
    Concurrency(u32),
    /// They pass.
    Open,
}

impl Hold {
    /// Returns why jobs do not pass a gate, with the time until which its breaker is open.
    pub fn of(rule: &Rule, tripped_until: Option<Timestamp>, now: Timestamp) -> Self {
        let limits = rule.limits();
        match GateStanding::of(rule, tripped_until, now) {
            GateStanding::Unreadable => Self::Unreadable,
            GateStanding::Paused { by, reason, .. } => Self::Paused { by, reason },
            GateStanding::Tripped(until) => Self::Tripped(until.since(now)),
            // The limits of a rule for each value apply to each value alone.
            GateStanding::Open if !rule.gate.is_for_each() => {
                let concurrency = limits.concurrency.map(Self::Concurrency);
                limits.rate.map(Self::Rate).or(concurrency).unwrap_or(Self::Open)
            }
            GateStanding::Open | GateStanding::Ignored => Self::Open,
        }
    }

    /// Returns true if no job passes.
    pub fn is_shut(&self) -> bool {
        match self {
            Self::Paused { .. } | Self::Tripped(_) | Self::Unreadable => true,
            Self::Rate(_) | Self::Concurrency(_) | Self::Open => false,
        }
    }
}

impl HeldJobs {
    /// Returns how long a gate with a rate takes to let them all pass; `None` for other gates.
    pub fn lasts(&self) -> Option<Duration> {
        self.lasts_with(0)
    }

    /// Returns how long it takes if it has to let this many more pass.
    fn lasts_with(&self, more: u64) -> Option<Duration> {
        let Hold::Rate(rate) = &self.hold else { return None };
        let per_second = f64::from(rate.jobs()) / rate.period().as_secs_f64();
        Some(pace::lasting(self.jobs.saturating_add(more), per_second))
    }
}

#[cfg(test)]
mod tests;
