//! Plain successes: attempts of jobs that keep no record. Redis forgets a batch of them in one round trip, without a script.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Settler;
use crate::broker::{Acknowledged, Class};
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
        let (mut places, by_us) = self.acknowledge(lane, &ids, ours.iter().all(|ours| *ours)).await;
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

    /// Settles entries of a lane. Returns the indexes of what was already settled, and whether an earlier command of ours
    /// did that, as far as is known.
    async fn acknowledge(&self, lane: Lane, ids: &[EntryId], held: bool) -> (Vec<usize>, bool) {
        let (mut backoff, mut sent_before) = (RedisBackoff::new(), false);
        if held && !self.only_scripts.load(Ordering::Relaxed) {
            let sent = self.queue.acknowledge_held(self.queue.link(), &self.consumer, lane, ids);
            match self.monitor.ask(Duration::ZERO, sent).await {
                Ok(Acknowledged::All) => return (Vec::new(), false),
                Ok(Acknowledged::AllBut(others)) => {
                    let rest: Vec<EntryId> = others.iter().map(|place| ids[*place]).collect();
                    let (places, by_us) = self.acknowledge_surely(lane, &rest, false, backoff).await;
                    return (places.into_iter().map(|place| others[place]).collect(), by_us);
                }
                Ok(Acknowledged::Deleted) => {
                    // What could still be deleted was for nobody else to settle.
                    self.acknowledge_surely(lane, ids, false, backoff).await;
                    return (Vec::new(), false);
                }
                Ok(Acknowledged::Partly { changed }) => sent_before = changed,
                Err(error) => {
                    sent_before = error.may_have_run();
                    // Redis may have accepted a part of it, which the script never does.
                    if error.class() == Some(Class::Configuration) {
                        self.only_scripts.store(true, Ordering::Relaxed);
                    }
                    self.events.redis_error(error.kind(), &error);
                    backoff.wait(&error).await;
                }
            }
        }
        self.acknowledge_surely(lane, ids, sent_before, backoff).await
    }

    /// Acknowledges by a script, which is sent until Redis has answered, because a lane in which nothing can be settled is not
    /// read any further.
    async fn acknowledge_surely(
        &self,
        lane: Lane,
        ids: &[EntryId],
        mut sent_before: bool,
        mut backoff: RedisBackoff,
    ) -> (Vec<usize>, bool) {
        loop {
            let sent = self.queue.acknowledge(self.queue.link(), lane, ids);
            match self.monitor.ask(Duration::ZERO, sent).await {
                Ok(places) => {
                    // If an earlier command settled all of them, we did it ourselves, unless they were claimed meanwhile.
                    let by_us = sent_before && places.len() == ids.len();
                    return (places, by_us);
                }
                Err(error) => {
                    sent_before |= error.may_have_run();
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
