//! Queues that take no rows of the outbox for now, because they are full or their server does not answer. Their rows wait, and hold up no
//! others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use streamfleet::SubmitError;
use streamfleet::job::QueueName;
use streamfleet_engine::job::doubled;
use streamfleet_sql::outbox::MAX_WITHOUT;

/// The pauses before a queue is tried again.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Queues that did not take all their rows when they were last tried.
#[derive(Debug, Default)]
pub(super) struct StuckQueues {
    known: BTreeMap<QueueName, Stuck>,
}

#[derive(Debug)]
struct Stuck {
    /// How often in a row it has failed.
    failures: u32,
    retry_at: Instant,
    /// Why it takes no more.
    why: String,
}

impl StuckQueues {
    /// The queues that are not tried again yet.
    pub(super) fn names(&self) -> Vec<&str> {
        let now = Instant::now();
        let waiting = self.known.iter().filter(|(_, stuck)| now < stuck.retry_at);
        waiting.map(|(queue, _)| queue.as_str()).collect()
    }

    /// Notes what became of the rows of a queue: whether it has taken some, and why it has not taken all.
    pub(super) fn note(&mut self, queue: QueueName, has_taken: bool, failed: Option<SubmitError>) {
        let Some(error) = failed else {
            if self.known.remove(&queue).is_some() {
                tracing::info!(%queue, "the queue has taken its rows of the outbox");
            }
            return;
        };
        let now = Instant::now();
        if let Some(stuck) = self.known.get_mut(&queue) {
            stuck.failures = if has_taken { 0 } else { stuck.failures.saturating_add(1) };
            stuck.retry_at = now + pause(stuck.failures);
            stuck.why = error.to_string();
            return;
        }
        tracing::error!(%queue, %error, "the queue does not take its rows of the outbox; they wait");
        if self.has_room() {
            let why = error.to_string();
            self.known.insert(queue, Stuck { failures: 0, retry_at: now + pause(0), why });
        }
    }

    /// Why one of them takes no more; `None` if all take what they get.
    pub(super) fn why(&self) -> Option<String> {
        self.known.iter().next().map(|(queue, stuck)| format!("the queue {queue}: {}", stuck.why))
    }

    /// Forgets those that were to be tried again: no row of theirs is left.
    pub(super) fn forget_due(&mut self) {
        let now = Instant::now();
        self.known.retain(|_, stuck| now < stuck.retry_at);
    }

    /// Whether one more queue can be remembered. If not, a queue that is stuck may hold up others.
    pub(super) fn has_room(&self) -> bool {
        self.known.len() < MAX_WITHOUT
    }
}

fn pause(failures: u32) -> Duration {
    let [first, longest] = PAUSES;
    doubled(first, failures, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Option<SubmitError> {
        Some(SubmitError::Full { depth: 1, limit: 1 })
    }

    #[test]
    fn a_queue_that_is_full_is_left_out_until_it_takes_something() {
        let mut stuck = StuckQueues::default();
        let queue = || "mail".parse::<QueueName>().unwrap();
        assert!(stuck.names().is_empty());
        stuck.note(queue(), false, full());
        assert_eq!(stuck.names(), ["mail"]);
        stuck.note(queue(), false, full());
        assert_eq!(stuck.known[&queue()].failures, 1);
        stuck.note(queue(), true, full());
        assert_eq!(stuck.known[&queue()].failures, 0);
        stuck.forget_due();
        assert_eq!(stuck.why().unwrap(), format!("the queue mail: {}", full().unwrap()));
        stuck.known.get_mut(&queue()).unwrap().retry_at = Instant::now();
        stuck.forget_due();
        assert_eq!(stuck.why(), None);
        stuck.note(queue(), false, full());
        stuck.note(queue(), true, None);
        assert!(stuck.names().is_empty());
    }

    #[test]
    fn the_number_of_queues_is_bounded() {
        let mut stuck = StuckQueues::default();
        for nth in 0..=MAX_WITHOUT {
            stuck.note(format!("queue-{nth}").parse().unwrap(), false, full());
        }
        assert!(!stuck.has_room());
        assert_eq!(stuck.names().len(), MAX_WITHOUT);
    }
}
