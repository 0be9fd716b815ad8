//! When a queue is empty, and why its jobs wait.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin::{Cause, HeldJobs, Hold, QueueSnapshot, TimeToEmpty};

use crate::times::short;

/// The most causes that are named.
const MOST_CAUSES: usize = 10;

/// When a queue is empty.
#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct EmptyIn {
    /// `known`, or why it is not: `stopped` if some jobs wait for a person or a worker, `not_shrinking` if the queue never shrank,
    /// `unsteady` if it shrinks so unevenly that no time is sure to be right within 20 %, `unknown` if not enough was measured yet.
    pub state: &'static str,
    /// After how long, if that is known.
    pub ms: Option<u64>,
    /// How far back the pace is measured.
    pub window_ms: u64,
    #[serde(skip)]
    time: TimeToEmpty,
}

/// Why the jobs of a queue wait. Which of the facts there are depends on the kind.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[schema(as = Cause)]
#[non_exhaustive]
pub struct CauseReport {
    /// `redis_full`, `paused`, `no_worker`, `pool_down`, `unserved_type`, `held` by a gate, `failing`, or `busy`.
    pub kind: &'static str,
    /// The cause in one line.
    pub text: String,
    /// How many jobs wait because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// The gate that holds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Why the gate holds them: `paused`, `tripped`, `unreadable`, `rate` or `concurrency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<&'static str>,
    /// How many of them start in a period, as in `2/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How many of them run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// For how long its breaker still keeps the gate shut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tripped_for_ms: Option<u64>,
    /// How long they take at this rate, if it is known when the queue is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasts_ms: Option<u64>,
    /// Who has paused the queue or the gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The type that no worker serves.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// The pool that cannot start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// A worker that has this pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The last words of its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The types that wait for the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// How many jobs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// How many bytes Redis uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// How many it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How many attempts failed, or lost their worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Of how many attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// How many jobs are tried again because of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried: Option<u64>,
    /// In how long these attempts ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_ms: Option<u64>,
}

/// Returns when a queue is empty, and why its jobs wait: at most ten causes, the worst first. What cannot be read is not known.
pub async fn outlook(queue: &Queue, snapshot: &QueueSnapshot) -> (Option<EmptyIn>, Vec<CauseReport>) {
    match queue.backlog(snapshot).await {
        Ok(known) => {
            let causes = known.causes().into_iter().take(MOST_CAUSES).map(CauseReport::from).collect();
            (Some(EmptyIn::from(known.time_to_empty())), causes)
        }
        Err(error) => {
            tracing::debug!(queue = %queue.name(), %error, "the causes of a queue's backlog cannot be read");
            (None, Vec::new())
        }
    }
}

impl EmptyIn {
    /// When the queue is empty, in words.
    pub fn shown(self) -> String {
        match self.time {
            TimeToEmpty::After(time) if time.is_zero() => "empty".to_owned(),
            TimeToEmpty::After(time) => short(time),
            TimeToEmpty::Stopped => "stopped".to_owned(),
            TimeToEmpty::NotShrinking => "not shrinking".to_owned(),
            TimeToEmpty::Unsteady => "unsteady".to_owned(),
            TimeToEmpty::Unknown => "?".to_owned(),
        }
    }
}

impl From<TimeToEmpty> for EmptyIn {
    fn from(time: TimeToEmpty) -> Self {
        let (ms, window_ms) = (time.time().map(millis), millis(TimeToEmpty::WINDOW));
        Self { state: time.as_str(), ms, window_ms, time }
    }
}

impl From<Cause> for CauseReport {
    fn from(cause: Cause) -> Self {
        let base = Self { kind: cause.kind(), text: cause.to_string(), ..Self::default() };
        match cause {
            Cause::RedisFull { used, most } => Self { used_bytes: Some(used), max_bytes: Some(most), ..base },
            Cause::Failing { failed, attempts, retried, time } => Self {
                failed: Some(failed),
                attempts: Some(attempts),
                retried: Some(retried),
                over_ms: Some(millis(time)),
                ..base
            },
            Cause::Paused { by, reason } => Self { by: Some(by), reason: Some(reason), ..base },
            Cause::NoWorker { jobs } => Self { jobs: Some(jobs), ..base },
            Cause::Busy { jobs, running } => Self { jobs: Some(jobs), running: Some(running), ..base },
            Cause::PoolDown { pool, worker, types, why } => {
                Self { pool: Some(pool), worker: Some(worker), error: Some(why), types, ..base }
            }
            Cause::Unserved { job_type, jobs } => Self { job_type: Some(job_type), jobs: Some(jobs), ..base },
            Cause::Held { held, lasts } => base.held(held, lasts),
        }
    }
}

impl CauseReport {
    fn held(self, held: HeldJobs, lasts: Option<Duration>) -> Self {
        let lasts_ms = lasts.map(millis);
        let (jobs, gate) = (Some(held.jobs), Some(held.gate.to_string()));
        let base = Self { jobs, gate, lasts_ms, ..self };
        let base = |hold| Self { hold: Some(hold), ..base };
        match held.hold {
            Hold::Paused { by, reason } => Self { by: Some(by), reason: Some(reason), ..base("paused") },
            Hold::Tripped(time) => Self { tripped_for_ms: Some(millis(time)), ..base("tripped") },
            Hold::Unreadable => base("unreadable"),
            Hold::Rate(rate) => Self { rate: Some(rate.to_string()), ..base("rate") },
            Hold::Concurrency(jobs) => Self { concurrency: Some(jobs), ..base("concurrency") },
            Hold::Open => base("open"),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_not_known_says_why() {
        let shown = |time: TimeToEmpty| EmptyIn::from(time).shown();
        assert_eq!(shown(TimeToEmpty::After(Duration::ZERO)), "empty");
        assert_eq!(shown(TimeToEmpty::After(Duration::from_secs(84_000))), "23h 20m");
        let unknown = [TimeToEmpty::Stopped, TimeToEmpty::NotShrinking, TimeToEmpty::Unsteady];
        assert_eq!(unknown.map(shown), ["stopped", "not shrinking", "unsteady"]);
        let json = serde_json::to_value(EmptyIn::from(TimeToEmpty::Unsteady)).unwrap();
        assert_eq!(json, serde_json::json!({"state": "unsteady", "ms": null, "window_ms": 600_000}));
    }

    #[test]
    fn a_cause_has_its_facts_and_no_others() {
        let held = HeldJobs {
            gate: "type:mail.newsletter".parse().unwrap(),
            jobs: 168_000,
            hold: Hold::Rate("2/s".parse().unwrap()),
        };
        let cause = Cause::Held { lasts: held.lasts(), held };
        let json = serde_json::to_value(CauseReport::from(cause)).unwrap();
        let want = serde_json::json!({
            "kind": "held", "text": "168,000 held by type:mail.newsletter (2/s): 23h 20m", "jobs": 168_000,
            "gate": "type:mail.newsletter", "hold": "rate", "rate": "2/s", "lasts_ms": 84_000_000,
        });
        assert_eq!(json, want);
    }
}
