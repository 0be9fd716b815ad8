//! Plain successes: attempts of jobs that keep no record. Redis forgets a batch of them in one round trip, without a script.

use std::time::{Duration, Instant};

use super::Settler;
use crate::broker::Error;
use crate::job::{EntryId, Lane, Settlement};
use crate::worker::backoff::RedisBackoff;
use crate::worker::delivery::{FinishedAttempt, SettlerInput};

/// The most successes that one round trip settles.
const MAX_BATCH: usize = 500;

impl Settler {
    /// Deletes a lane's plain successes in one round trip. Returns those that were already settled, which need separate work.
    pub(super) async fn settle_plain(&self, finished: Vec<FinishedAttempt>) -> Vec<SettlerInput> {
        let lane = finished[0].delivery.job.lane;
        let ids: Vec<EntryId> = finished.iter().map(|finished| finished.delivery.job.entry).collect();
        let sent = Instant::now();
        let held_then = |finished: &FinishedAttempt| {
            let held_lease = &finished.delivery.held_lease;
            !held_lease.is_lost() && held_lease.silence(sent) < self.lease
        };
        let ours: Vec<bool> = finished.iter().map(held_then).collect();
        let (mut places, lost) = self.acknowledge(lane, &ids, ours.iter().all(|ours| *ours)).await;
        // If an earlier command settled all of them, as far as is known, we did it ourselves, unless they were claimed meanwhile.
        let by_us = lost && places.len() == ids.len();
        let (now, mut settled) = (Instant::now(), Vec::with_capacity(places.len()));
        let mut held = Vec::with_capacity(ids.len());
        places.reverse();
        for (place, finished) in finished.into_iter().enumerate() {
            if places.pop_if(|settled| *settled == place).is_some() {
                settled.push(SettlerInput::Settled(finished, by_us && ours[place]));
            } else {
                self.emit_finished(&finished, &Settlement::Ack, now);
                self.admission.leave(&finished);
                held.push(finished.delivery.key());
            }
        }
        self.held_leases.remove(held.iter());
        settled
    }

    /// Sends until Redis has answered, because a lane in which nothing can be settled is not read any further. Returns
    /// the indexes of what was already settled, and whether an earlier command may have done that.
    async fn acknowledge(&self, lane: Lane, ids: &[EntryId], held: bool) -> (Vec<usize>, bool) {
        let (mut backoff, mut sent_before, mut all_deleted) = (RedisBackoff::new(), false, false);
        if held {
            let sent = self.queue.acknowledge_held(self.queue.link(), &self.consumer, lane, ids);
            match self.monitor.ask(Duration::ZERO, sent).await {
                Ok((deleted, acknowledged)) if deleted == ids.len() => {
                    if acknowledged == Some(deleted) {
                        return (Vec::new(), false);
                    }
                    all_deleted = true;
                }
                Ok((deleted, acknowledged)) => sent_before = deleted > 0 || acknowledged != Some(0),
                Err(error) => {
                    sent_before = matches!(error, Error::Unknown { .. });
                    self.events.redis_error(error.kind(), &error);
                    backoff.wait(&error).await;
                }
            }
        }
        loop {
            let sent = self.queue.acknowledge(self.queue.link(), lane, ids);
            match self.monitor.ask(Duration::ZERO, sent).await {
                // What could still be deleted was for nobody else to settle.
                Ok(_) if all_deleted => return (Vec::new(), false),
                Ok(places) => return (places, sent_before),
                Err(error) => {
                    sent_before |= matches!(error, Error::Unknown { .. });
                    self.events.redis_error(error.kind(), &error);
                    backoff.wait(&error).await;
                }
            }
        }
    }
}

/// Separates plain successes, in batches of one lane each, from everything else.
pub(super) fn sort(
    work: Vec<SettlerInput>,
) -> (impl Iterator<Item = Vec<FinishedAttempt>>, Vec<SettlerInput>) {
    let (mut plain, mut rest) = (<[Vec<FinishedAttempt>; 3]>::default(), Vec::new());
    for work in work {
        match work {
            SettlerInput::Finished(finished) if finished.is_plain_success() => {
                plain[finished.delivery.job.lane as usize].push(finished);
            }
            SettlerInput::Finished(_)
            | SettlerInput::Settled(..)
            | SettlerInput::NotStarted(..)
            | SettlerInput::Malformed(..) => rest.push(work),
        }
    }
    (plain.into_iter().flat_map(in_batches), rest)
}

fn in_batches(mut lane: Vec<FinishedAttempt>) -> impl Iterator<Item = Vec<FinishedAttempt>> {
    std::iter::from_fn(move || {
        let rest = lane.split_off(lane.len().min(MAX_BATCH));
        let batch = std::mem::replace(&mut lane, rest);
        (!batch.is_empty()).then_some(batch)
    })
}

/// The lanes in the order of the batches.
const _: () = assert!(Lane::High as usize == 0 && Lane::Normal as usize == 1 && Lane::Low as usize == 2);
