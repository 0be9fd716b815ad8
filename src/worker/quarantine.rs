//! What Redis refuses for its own reasons, such as a record of another type, waits in quarantine with growing pauses until
//! somebody has fixed the cause. It holds neither a slot nor a place in a gate, and its lease is renewed, so nobody else runs it
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::delivery::SettlerInput;
use super::lease::EntryKey;
use super::memory_budget::{MemoryBudget, MemoryCharge};
use crate::broker::Entry;
use crate::job::{JobId, Outcome, Parking, doubled, jittered};

/// The first and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What an entry that waits in quarantine takes at least, so that the bound on bytes also bounds how many wait.
const LEAST_BYTES: usize = 700;

/// Something to settle, and how often Redis has refused it.
pub(super) struct Task {
    pub(super) work: SettlerInput,
    pub(super) refused: u32,
}

/// Everything that waits. While it is too much together, the reader reads nothing more, because outcomes must not be
/// forgotten. What was read before is settled all the same.
pub(super) struct Quarantine {
    waiting: FuturesUnordered<BoxFuture<'static, Task>>,
    budget: Arc<MemoryBudget>,
    closing: CancellationToken,
}

impl Task {
    pub(super) fn new(work: SettlerInput) -> Self {
        let refused = match &work {
            SettlerInput::NotStarted(delivery, _) => delivery.refusals.load(Ordering::Relaxed),
            SettlerInput::Finished(_) | SettlerInput::Settled(..) | SettlerInput::Malformed(..) => 0,
        };
        Self { work, refused }
    }

    /// Returns its entry.
    pub(super) fn key(&self) -> EntryKey {
        self.work.delivery().map_or_else(|entry| (entry.lane, entry.id), |delivery| delivery.key())
    }

    /// Returns its job; for bytes that are not a job, the id that their entry stands for.
    pub(super) fn job(&self) -> JobId {
        let derived = |entry: &Entry| JobId::derived(entry.id, entry.lane);
        self.work.delivery().map_or_else(derived, |delivery| delivery.job.id.clone())
    }

    /// Returns the waiting list in which its job has to wait, if any.
    pub(super) fn waitlist(&self) -> Option<String> {
        let SettlerInput::Finished(finished) = &self.work else { return None };
        if let Outcome::Parked(parking) = &finished.outcome {
            return Some(parking.waitlist.clone());
        }
        let is_unroutable = finished.outcome == Outcome::Unroutable;
        is_unroutable.then(|| Parking::unknown(&finished.delivery.job.job_type).waitlist)
    }

    /// Returns the bytes of its fields and of its result.
    pub(super) fn bytes(&self) -> usize {
        match &self.work {
            SettlerInput::Finished(finished) | SettlerInput::Settled(finished, _) => finished.bytes(),
            SettlerInput::NotStarted(delivery, _) => delivery.envelope.size(),
            SettlerInput::Malformed(entry, _) => {
                entry.envelope.as_ref().map_or(0, |envelope| envelope.size())
            }
        }
    }
}

impl Quarantine {
    /// Creates the place. What waits there is part of this load.
    pub(super) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { waiting: FuturesUnordered::new(), budget, closing: CancellationToken::new() }
    }

    /// Lets a task wait for longer than the last time.
    pub(super) fn push(&mut self, mut task: Task) {
        let pause = pause(task.refused, rand::random());
        task.refused = task.refused.saturating_add(1);
        let memory_charge = MemoryCharge::new(&self.budget, task.bytes().max(LEAST_BYTES));
        let closing = self.closing.clone();
        self.waiting.push(Box::pin(async move {
            let _memory_charge = memory_charge;
            // Somebody who wants a job cancelled does not wait for the pause.
            let cut = async {
                match &task.work {
                    SettlerInput::NotStarted(delivery, _) => {
                        delivery.refusals.store(task.refused, Ordering::Relaxed);
                        delivery.held_lease.token().cancelled().await;
                    }
                    SettlerInput::Finished(_) | SettlerInput::Settled(..) | SettlerInput::Malformed(..) => {
                        std::future::pending().await
                    }
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = closing.cancelled() => {}
                () = cut => {}
            }
            task
        }));
    }

    /// Returns the next task whose pause is over; `None` if nothing waits.
    pub(super) async fn next(&mut self) -> Option<Task> {
        self.waiting.next().await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Ends all pauses. What is refused once more is left to its lease.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closing.is_cancelled()
    }
}

fn pause(refused: u32, roll: f64) -> Duration {
    jittered(doubled(PAUSES.0, refused, PAUSES.1), 0.5..1.5, roll)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute() {
        let pauses: Vec<_> = (0..8).map(|refused| pause(refused, 0.5).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
