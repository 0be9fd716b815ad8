//! Gives back the places that lost attempts held in gates: once their ends are settled, or Redis refuses to settle them. Their
//! workers no longer do so. A gate finds out by itself that an entry has ended, but only when another job meets it, and an
//! entry that cannot be settled never ends.

use std::sync::{Mutex, PoisonError};

use super::retry::until_answered;
use crate::broker::mutex::lock;
use crate::broker::{AttemptEnd, HeldPlace, MAX_GIVEN_BACK};
use crate::job::{Envelope, JobSpec, Rules};
use crate::maintenance::Context;

/// The places that the lost attempts of one page held.
pub(super) struct Places {
    /// The rules of the gates; none if they could not be read.
    rules: Rules,
    left: Mutex<Vec<HeldPlace>>,
}

impl Places {
    /// Reads which gates jobs have to pass. If that fails, nothing is given back.
    pub(super) async fn open(context: &Context) -> Self {
        let gates = context.queue.gates();
        let rules = until_answered(context, || gates.rules()).await.unwrap_or_default();
        Self { rules, left: Mutex::default() }
    }

    /// Notes that nobody runs this job's attempt any more.
    pub(super) fn leave(&self, job: &JobSpec, envelope: &Envelope) {
        let entry = (job.lane, job.entry);
        let gates = self.rules.gates_of(job, envelope).into_iter();
        let places = gates.map(|gate| HeldPlace::new(gate, entry, AttemptEnd::Other, &self.rules));
        lock(&self.left).extend(places);
    }

    /// Gives back what was noted. The task that empties waiting lists lets other jobs take it.
    pub(super) async fn give_back(self, context: &Context) {
        let places = self.left.into_inner().unwrap_or_else(PoisonError::into_inner);
        for places in places.chunks(MAX_GIVEN_BACK) {
            let drained = until_answered(context, || context.queue.drain(places, &[])).await;
            // Other errors were reported.
            if let Ok(Some(error)) = drained.map(|drained| drained.failed) {
                context.events.redis_error(error.kind(), &error);
            }
        }
    }
}
