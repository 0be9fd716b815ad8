//! Which attempts the live workers run, and since when. Redis only knows when a worker last renewed an entry. So each
//! sign of life says how long the longest attempts have run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::server::WorkerInfo;
use crate::client::decode::timestamp;
use crate::job::{EntryId, Lane, QueueName, Timestamp};

/// The most attempts that a worker reports, the longest ones. Each takes about 100 bytes.
const MOST: usize = 64;

/// What a worker claims is pending for another name of its own, which ends like this.
const CLAIMS: &str = ".claims";

/// What follows the attempts if there are more.
const MORE: &str = "+";

/// An attempt that a worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningAttempt {
    /// The queue of the job.
    pub queue: QueueName,
    /// The lane of its entry.
    pub lane: Lane,
    /// The entry.
    pub entry: EntryId,
    /// How long it has been running.
    pub running: Duration,
}

impl RunningAttempt {
    fn shown(&self) -> String {
        format!("{} {} {} {}", self.queue, self.lane, self.entry, self.running.as_millis())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut next = || parts.next();
        let (queue, lane, entry, running) = (next()?, next()?, next()?, next()?);
        Some(Self {
            queue: queue.parse().ok()?,
            lane: lane.parse().ok()?,
            entry: entry.parse().ok()?,
            running: Duration::from_millis(running.parse().ok()?),
        })
    }
}

/// What a worker reports about the attempts that it runs: the longest ones.
pub fn shown(mut attempts: Vec<RunningAttempt>) -> String {
    attempts.sort_by_key(|attempt| std::cmp::Reverse(attempt.running));
    let has_more = attempts.len() > MOST;
    attempts.truncate(MOST);
    let mut parts: Vec<String> = attempts.iter().map(RunningAttempt::shown).collect();
    if has_more {
        parts.push(MORE.to_owned());
    }
    parts.join(",")
}

/// Which attempts the live workers run, and since when, as of their last signs of life.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::admin::{Holdings, JobSearch};
/// use streamfleet::job::State;
///
/// let holdings = Holdings::of(&broker.workers().await?.found);
/// let search = JobSearch::new().states(vec![State::Running]).holdings(holdings);
/// let queue = broker.queue("mail".parse().expect("a valid name"));
/// for job in queue.find_jobs(&search, None).await?.jobs {
///     let Some(holder) = job.holder else { continue };
///     println!("{} runs {} since {}", holder.worker, job.id, holder.since.as_ms());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Holdings {
    workers: Arc<HashMap<String, Report>>,
}

/// What one worker reported.
#[derive(Debug, Clone, Default)]
struct Report {
    at: Timestamp,
    /// Whether it named every attempt that had begun.
    is_complete: bool,
    since: HashMap<(QueueName, Lane, EntryId), Timestamp>,
}

/// The worker that holds a job; see the [example](Holdings).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobHolder {
    /// Its consumer name.
    pub worker: String,
    /// How long ago it last took or renewed the job.
    pub silent: Duration,
    /// How often the entry was delivered or claimed.
    pub deliveries: u64,
    /// When the attempt began, by the server's clock.
    pub since: Timestamp,
    /// True if the worker reported that time. Otherwise the attempt began at that time or later, or has not begun.
    pub is_exact: bool,
    /// False if the worker's last report named all its attempts, and not this one: the job waits there, or has just begun.
    pub has_begun: bool,
}

/// A pending entry, as `XPENDING` lists it.
#[derive(Debug, Clone)]
pub(super) struct PendingEntry {
    pub(super) entry: EntryId,
    pub(super) consumer: String,
    pub(super) silent: Duration,
    pub(super) deliveries: u64,
}

impl Holdings {
    /// Reads what the workers reported. Workers of versions that do not report it are left out.
    pub fn of(workers: &[WorkerInfo]) -> Self {
        let report = |worker: &WorkerInfo| {
            let at = worker.facts.get("beat_ms")?.parse().ok().map(timestamp)?;
            let attempts = worker.facts.get("attempts")?;
            let known = attempts.split(',').filter_map(RunningAttempt::parse);
            let since = known.map(|attempt| {
                let since = at.before(attempt.running);
                ((attempt.queue, attempt.lane, attempt.entry), since)
            });
            let is_complete = attempts.split(',').all(|part| part != MORE);
            Some((worker.consumer.clone(), Report { at, is_complete, since: since.collect() }))
        };
        Self { workers: Arc::new(workers.iter().filter_map(report).collect()) }
    }

    /// Returns when an attempt began, by the server's clock; `None` if its worker has not reported that.
    pub fn since(&self, worker: &str, queue: &QueueName, entry: EntryId) -> Option<Timestamp> {
        let worker = worker.strip_suffix(CLAIMS).unwrap_or(worker);
        let attempts = &self.workers.get(worker)?.since;
        Lane::ALL.into_iter().find_map(|lane| attempts.get(&(queue.clone(), lane, entry)).copied())
    }

    /// Returns who holds an entry, and since when.
    pub(super) fn holder(&self, queue: &QueueName, lane: Lane, pending: PendingEntry) -> JobHolder {
        let PendingEntry { entry, consumer, silent, deliveries } = pending;
        let worker = consumer.strip_suffix(CLAIMS).unwrap_or(&consumer).to_owned();
        let report = self.workers.get(&worker);
        let exact = report.and_then(|report| report.since.get(&(queue.clone(), lane, entry)).copied());
        // What a complete report lacks began after it.
        let after = report.filter(|report| report.is_complete).map(|report| report.at);
        let since = exact.unwrap_or_else(|| after.unwrap_or_default().max(timestamp(entry.ms)));
        let is_exact = exact.is_some();
        JobHolder { worker, silent, deliveries, since, is_exact, has_begun: is_exact || after.is_none() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(nth: u64, ms: u64) -> RunningAttempt {
        RunningAttempt {
            queue: "mail".parse().unwrap(),
            lane: Lane::High,
            entry: EntryId::new(1_000, nth),
            running: Duration::from_millis(ms),
        }
    }

    fn worker(attempts: &str) -> WorkerInfo {
        let facts = [("beat_ms", "9000"), ("attempts", attempts)];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        WorkerInfo { consumer: "w1".to_owned(), facts: facts.into() }
    }

    fn holder(attempts: &str, nth: u64) -> (u64, bool) {
        let holder = full_holder(attempts, nth);
        (holder.since.as_ms(), holder.is_exact)
    }

    fn full_holder(attempts: &str, nth: u64) -> JobHolder {
        let pending = PendingEntry {
            entry: EntryId::new(1_000, nth),
            consumer: "w1.claims".to_owned(),
            silent: Duration::ZERO,
            deliveries: 1,
        };
        let queue: QueueName = "mail".parse().unwrap();
        let holder = Holdings::of(&[worker(attempts)]).holder(&queue, Lane::High, pending);
        assert_eq!(holder.worker, "w1");
        holder
    }

    #[test]
    fn a_job_that_a_complete_report_lacks_is_not_said_to_run() {
        let has_begun = |attempts: &str, nth| full_holder(attempts, nth).has_begun;
        assert!(has_begun("mail high 1000-1 5", 1));
        assert!(!has_begun("mail high 1000-1 5", 2));
        assert!(has_begun("mail high 1000-1 5,+", 2), "only the longest were reported");
    }

    #[test]
    fn an_attempt_that_was_reported_has_an_exact_start() {
        let attempts = shown(vec![attempt(1, 500), attempt(2, 3_000)]);
        assert_eq!(attempts, "mail high 1000-2 3000,mail high 1000-1 500");
        assert_eq!(holder(&attempts, 2), (6_000, true));
        assert_eq!(holder(&attempts, 1), (8_500, true));
    }

    #[test]
    fn an_unreported_attempt_began_after_a_complete_report() {
        assert_eq!(holder("", 1), (9_000, false));
        let many = shown((0..=MOST as u64).map(|nth| attempt(nth, 10 + nth)).collect());
        assert!(many.ends_with(",+") && many.len() < 8_192, "{many}");
        assert_eq!(holder(&many, 0), (1_000, false));
        assert_eq!(holder(&many, 64), (8_926, true));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(holder("nonsense,mail high 1000-1 x,,mail high 1000-2 5", 1), (9_000, false));
        assert_eq!(holder("nonsense,mail high 1000-1 x,,mail high 1000-2 5", 2), (8_995, true));
    }
}
