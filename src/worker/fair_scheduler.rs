//! Shares a queue between the values of a field, if its rules say so. Jobs beyond a small window wait in waiting lists, one for each
//! value, and come back in turn. Every worker of the queue does this, because a flood must not wait for a leader. Scripts decide
//! everything; see `share.lua`.

use std::sync::Arc;
use std::time::Duration;

use super::admission::Admission;
use super::backoff::RedisBackoff;
use crate::broker::{Error, Queue};
use crate::event::{Events, QueueEvent};
use crate::health::QueueHealth;
use crate::job::jittered;

/// How many jobs wait in a lane for each slot of the fleet.
const WINDOW_PER_SLOT: usize = 2;

/// The smallest and the largest window.
const WINDOWS: (usize, usize) = (16, 2000);

/// The pauses of a worker, for each worker of the queue, and the longest ones: if more may move at once, …
const AT_ONCE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// … if jobs wait for their turn, …
const BUSY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// … and if none do.
const QUIET: (Duration, Duration) = (Duration::from_millis(150), Duration::from_secs(10));

/// The pause after Redis has refused some of it.
const REFUSED: Duration = Duration::from_secs(1);

/// Shares one queue.
pub(crate) struct FairScheduler {
    pub(crate) queue: Queue,
    pub(crate) admission: Arc<Admission>,
    pub(crate) health: Arc<QueueHealth>,
    /// How many attempts run at once in this process.
    pub(crate) slots: usize,
    pub(crate) events: Events,
}

impl FairScheduler {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut backoff = RedisBackoff::new();
        loop {
            self.admission.until_shared().await;
            match self.share().await {
                Ok(pause) => {
                    backoff = RedisBackoff::new();
                    tokio::time::sleep(pause).await;
                }
                Err(error) => {
                    self.events.redis_error(error.kind(), &error);
                    backoff.wait(&error).await;
                }
            }
        }
    }

    /// Moves some jobs. Returns when to do so again.
    async fn share(&self) -> Result<Duration, Error> {
        let members = self.health.pacing().members();
        let shared = self.queue.share(Some(window(self.slots, members)), &[]).await?;
        let queue = self.queue.name();
        if shared.held_back > 0 {
            self.events.of_queue(queue, QueueEvent::MovedToWaitlists { jobs: shared.held_back });
        }
        if shared.left > 0 {
            self.events.of_queue(queue, QueueEvent::LeftWaitlists { jobs: shared.left });
        }
        if let Some(error) = &shared.failed {
            self.events.redis_error(error.kind(), error);
            return Ok(REFUSED);
        }
        Ok(match (shared.more, shared.has_waitlists) {
            // One worker alone goes on at once.
            (true, _) => spread(AT_ONCE, members - 1),
            (false, true) => spread(BUSY, members),
            (false, false) => spread(QUIET, members),
        })
    }
}

/// Returns how many jobs wait in a lane before others are sorted.
fn window(slots: usize, members: u64) -> usize {
    let members = usize::try_from(members).unwrap_or(usize::MAX);
    slots.saturating_mul(members).saturating_mul(WINDOW_PER_SLOT).clamp(WINDOWS.0, WINDOWS.1)
}

/// Returns a pause that keeps the rate of all workers together about the same, drawn at random, so that they take turns.
fn spread((each, longest): (Duration, Duration), members: u64) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    jittered(each.saturating_mul(members).min(longest), 0.5..1.5, rand::random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_slots_of_the_fleet() {
        assert_eq!([window(1, 1), window(64, 1), window(64, 4)], [16, 128, 512]);
        assert_eq!(window(usize::MAX, u64::MAX), 2000);
    }

    #[test]
    fn many_workers_ask_less_often_each() {
        assert_eq!(spread(AT_ONCE, 0), Duration::ZERO);
        for members in [1, 10, 1000, u64::MAX] {
            assert!(spread(BUSY, members) <= BUSY.1 * 2 && spread(QUIET, members) >= QUIET.0 / 2);
        }
    }
}
