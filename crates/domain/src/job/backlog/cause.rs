//! Why the jobs of a queue wait, the worst cause first, each as one line.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use super::{Backlog, HeldJobs, Hold, Reading};
use crate::job::duration::short;
use crate::job::incident::line::plain_line;
use crate::job::number::grouped;

/// Redis counts as full if this share of its memory is in use: what it refuses needs room, too.
const FULL: f64 = 0.99;

/// A queue in which the oldest job of a lane has waited for less than this is not late.
const LATE: Duration = Duration::from_secs(5);

/// A gate that lets out all its jobs within this time holds up none.
const BRIEF: Duration = Duration::from_secs(1);

/// A gate that lets out its jobs within this time is less bad than attempts that fail.
const LONG: Duration = Duration::from_secs(600);

/// The cause is failing attempts if at least one attempt in this many fails, …
const ONE_FAILS_OF: u64 = 2;

/// … and at least this many were counted.
const FEWEST_ATTEMPTS: u64 = 10;

/// The most bytes of what people and programs have written, in a line.
const MAX_NAME_BYTES: usize = 80;
const MAX_WHY_BYTES: usize = 200;

/// Why jobs of a queue wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// Redis accepts nothing that needs memory.
    RedisFull {
        /// Bytes in use.
        used: u64,
        /// Bytes allowed.
        most: u64,
    },
    /// Somebody has paused the queue.
    Paused {
        /// Who; may be empty.
        by: String,
        /// Why; may be empty.
        reason: String,
    },
    /// No worker serves the queue.
    NoWorker {
        /// How many jobs wait.
        jobs: u64,
    },
    /// No program of a pool can start or keeps running, and no other worker runs its types.
    PoolDown {
        /// The pool.
        pool: String,
        /// A worker that has it.
        worker: String,
        /// The types that wait for it.
        types: Vec<String>,
        /// The last words of its program, the line that says most first.
        why: String,
    },
    /// No live worker knows a type.
    Unserved {
        /// The type.
        job_type: String,
        /// How many of its jobs wait.
        jobs: u64,
    },
    /// A gate does not let jobs pass, or not at once.
    Held {
        /// The gate, and its jobs.
        held: HeldJobs,
        /// How long a gate with a rate takes to let them all pass, if no others come.
        lasts: Option<Duration>,
    },
    /// Most attempts fail.
    Failing {
        /// How many failed, or lost their worker.
        failed: u64,
        /// Of how many.
        attempts: u64,
        /// How many jobs are tried again because of that.
        retried: u64,
        /// In how long.
        time: Duration,
    },
    /// All workers are busy.
    Busy {
        /// How many jobs wait.
        jobs: u64,
        /// How many run.
        running: u64,
    },
}

impl Backlog {
    /// Returns why jobs wait, the worst cause first; nothing if none waits for long. Jobs that fail wait to be tried again. How long a gate
    /// takes is told only if it is known when the queue is empty.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Some((used, most)) = self.memory
            && most > 0
            && used as f64 >= FULL * most as f64
        {
            causes.push(Cause::RedisFull { used, most });
        }
        if let Some(closed) = &self.paused {
            causes.push(Cause::Paused { by: closed.by.clone(), reason: closed.reason.clone() });
            return causes;
        }
        if self.live_workers == Some(0) && self.waiting > 0 {
            causes.push(Cause::NoWorker { jobs: self.waiting });
        }
        causes.extend(self.pools_down.iter().cloned());
        let unserved = self.unserved.iter().filter(|(_, jobs)| *jobs > 0);
        causes.extend(
            unserved.map(|(job_type, jobs)| Cause::Unserved { job_type: job_type.to_string(), jobs: *jobs }),
        );
        let is_bad = |gate: &HeldJobs| gate.hold.is_shut() || gate.lasts().is_some_and(|lasts| lasts > LONG);
        let (bad, limiting): (Vec<_>, Vec<_>) = self.held().into_iter().partition(is_bad);
        let is_known = self.time_to_empty().time().is_some();
        let cause = |held: HeldJobs| Cause::Held { lasts: held.lasts().filter(|_| is_known), held };
        causes.extend(bad.into_iter().map(cause));
        causes.extend(self.failing());
        causes.extend(limiting.into_iter().map(cause));
        let is_late = self.oldest_in_lanes.is_some_and(|oldest| oldest >= LATE);
        if is_late && self.live_workers != Some(0) {
            causes.push(Cause::Busy { jobs: self.in_lanes, running: self.running });
        }
        causes
    }

    /// The gates that hold up jobs: those that are shut first, then those that take longest.
    fn held(&self) -> Vec<HeldJobs> {
        let holds = |gate: &&HeldJobs| {
            let is_brief = gate.lasts().is_some_and(|lasts| lasts < BRIEF);
            gate.jobs > 0 && gate.hold != Hold::Open && !is_brief
        };
        let mut held: Vec<HeldJobs> = self.gates.iter().filter(holds).cloned().collect();
        held.sort_by_key(|gate| Reverse((gate.hold.is_shut(), gate.lasts(), gate.jobs)));
        held
    }

    /// That most attempts fail, if they do and jobs wait because of that.
    fn failing(&self) -> Option<Cause> {
        let (first, counted) = self.readings.split_first()?;
        let last = counted.last()?;
        let sum = |count: fn(&Reading) -> u64| counted.iter().map(count).fold(0, u64::saturating_add);
        let (failed, retried) = (sum(|one| one.failed), sum(|one| one.retried));
        let attempts = failed.saturating_add(sum(|one| one.done));
        let time = last.at.since(first.at);
        let is_missed = self.waiting > 0 || retried > 0 && self.delayed > 0;
        let is_failing =
            is_missed && attempts >= FEWEST_ATTEMPTS && failed.saturating_mul(ONE_FAILS_OF) >= attempts;
        is_failing.then_some(Cause::Failing { failed, attempts, retried, time })
    }
}

impl Cause {
    /// Returns the kind, as JSON has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::RedisFull { .. } => "redis_full",
            Self::Paused { .. } => "paused",
            Self::NoWorker { .. } => "no_worker",
            Self::PoolDown { .. } => "pool_down",
            Self::Unserved { .. } => "unserved_type",
            Self::Held { .. } => "held",
            Self::Failing { .. } => "failing",
            Self::Busy { .. } => "busy",
        }
    }
}

impl fmt::Display for Cause {
    /// One line, whatever people and programs have written.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RedisFull { used, most } => {
                let percent = used.saturating_mul(100) / most.max(&1);
                let [used, most] = [used, most].map(|bytes| *bytes as f64 / f64::from(1024 * 1024));
                write!(out, "Redis is full: {used:.1} MiB of {most:.1} MiB used ({percent} %)")
            }
            Self::Paused { by, reason } => out.write_str(&paused(by, reason)),
            Self::NoWorker { jobs } => write!(out, "no worker is live: {} waiting", grouped(*jobs)),
            Self::PoolDown { pool, why, .. } => {
                let why = plain_line(why.lines().next().unwrap_or_default(), MAX_WHY_BYTES);
                write!(out, "pool {} cannot start: {why}", plain_line(pool, MAX_NAME_BYTES))
            }
            Self::Unserved { job_type, jobs } => {
                write!(out, "no worker serves type {job_type}: {} waiting", grouped(*jobs))
            }
            Self::Held { held, lasts } => write_held(out, held, *lasts),
            Self::Failing { failed, attempts, retried, time } => {
                let percent = u128::from(*failed) * 100 / u128::from(*attempts).max(1);
                let [failed, attempts, retried] = [failed, attempts, retried].map(|count| grouped(*count));
                write!(
                    out,
                    "{percent} % of attempts fail: {failed} of {attempts} in {}, {retried} retried",
                    short(*time)
                )
            }
            Self::Busy { jobs, running } => {
                write!(out, "{} waiting for a free slot, {} running", grouped(*jobs), grouped(*running))
            }
        }
    }
}

fn write_held(out: &mut fmt::Formatter<'_>, held: &HeldJobs, lasts: Option<Duration>) -> fmt::Result {
    write!(out, "{} held by {}", grouped(held.jobs), plain_line(held.gate.as_str(), 2 * MAX_NAME_BYTES))?;
    match &held.hold {
        Hold::Paused { by, reason } => write!(out, ", {}", paused(by, reason)),
        Hold::Tripped(time) => write!(out, ", which its breaker has shut for {}", short(*time)),
        Hold::Unreadable => out.write_str(", whose rule is unreadable"),
        Hold::Rate(rate) => {
            let time = lasts.map(|time| format!(": {}", short(time))).unwrap_or_default();
            write!(out, " ({rate}){time}")
        }
        Hold::Concurrency(jobs) => write!(out, " ({jobs} at once)"),
        Hold::Open => Ok(()),
    }
}

/// By whom something was paused, and why, as far as that is known.
fn paused(by: &str, reason: &str) -> String {
    let by = Some(plain_line(by, MAX_NAME_BYTES)).filter(|by| !by.is_empty());
    let reason = Some(plain_line(reason, MAX_WHY_BYTES)).filter(|reason| !reason.is_empty());
    match (by, reason) {
        (None, None) => "paused".to_owned(),
        (Some(by), None) => format!("paused by {by}"),
        (None, Some(reason)) => format!("paused: {reason}"),
        (Some(by), Some(reason)) => format!("paused by {by}: {reason}"),
    }
}
