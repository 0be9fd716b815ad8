//! Submits jobs with ids and unique keys, and sends them again if a lock's holder must be looked up.

use std::time::Duration;

use super::{Accepted, Answers, Producer, SubmitError, Submitted};
use crate::broker::{EntrySearch, JobWithId, LockHolder, SubmitOutcome, UniqueMode};
use crate::job::{JobId, Lane, Timestamp};

/// How often a job is sent before it fails because its lock keeps changing hands.
const ROUNDS: usize = 100;

/// How many entries are searched for a holder to replace: this many from when it was due, and as many from the newest
/// backward.
const MAX_SEARCHED: u64 = 10_000;

/// How many entries are searched for a holder that has long been due, to learn whether it still exists.
const GLANCED: u64 = 1000;

/// The most work in one call with the holders of locks, however large they are: see [`work_with_holder`].
const MAX_HOLDER_WORK: usize = 8;

impl Producer {
    /// Submits jobs with ids, and notes the answer about each at its place. A job that is refused stops no other one; the
    /// first such refusal is the error.
    pub(super) async fn submit_with_ids(
        &self,
        jobs: Vec<(usize, JobWithId)>,
        answers: &mut Answers,
    ) -> Result<(), SubmitError> {
        let (mut open, mut refusal) = (jobs, None);
        for round in 0..ROUNDS {
            for call in calls(std::mem::take(&mut open)) {
                let (places, jobs): (Vec<usize>, Vec<JobWithId>) = call.into_iter().unzip();
                let placed = self.retry(|| self.queue.submit(&jobs, self.max_depth)).await?;
                // All answers are noted before a lookup fails.
                let mut unsettled = Vec::new();
                for ((place, job), placed) in places.into_iter().zip(jobs).zip(placed) {
                    match settled(&job, placed) {
                        Ok(answer) => {
                            refusal = refusal.or_else(|| answer.as_ref().err().cloned());
                            answers[place] = Some(answer);
                        }
                        Err(again) => unsettled.push((place, job, again)),
                    }
                }
                for (place, job, again) in unsettled {
                    open.push((place, self.prepared_again(job, again).await?));
                }
            }
            if open.is_empty() {
                return refusal.map_or(Ok(()), Err);
            }
            if round > 1 {
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..10))).await;
            }
        }
        let key = open.into_iter().find_map(|(_, job)| job.unique).map(|unique| unique.key);
        Err(SubmitError::Contended { key: key.map(|key| key.to_string()).unwrap_or_default() })
    }

    /// Returns the job as it must be sent again.
    async fn prepared_again(&self, mut job: JobWithId, again: SendAgain) -> Result<JobWithId, SubmitError> {
        match again {
            SendAgain::Unchanged => {}
            SendAgain::HeldBy(id) => {
                let debounces = job.unique.as_ref().is_some_and(|unique| unique.mode == UniqueMode::Debounce);
                let edit = if debounces { self.queue.debounced_fields(&id, &job).await? } else { None };
                job.holder = Some(LockHolder { id, search: None, edit });
            }
            SendAgain::Hidden(id, was_due) => {
                let replaces = job.unique.as_ref().is_some_and(|unique| unique.mode == UniqueMode::Replace);
                let search =
                    self.queue.seek_due(&id, was_due, if replaces { MAX_SEARCHED } else { GLANCED }).await?;
                // The entry with this id is not the holder's.
                let again = job.holder.as_ref().is_some_and(|holder| holder.search == Some(search));
                let search = if again { EntrySearch::Lost } else { search };
                job.holder = Some(LockHolder { id, search: Some(search), edit: None });
            }
        }
        Ok(job)
    }
}

/// What must be looked up before a job is sent again.
enum SendAgain {
    /// Nothing.
    Unchanged,
    /// This job, which holds the lock.
    HeldBy(JobId),
    /// The entry of this job, which holds the lock and was due at this time.
    Hidden(JobId, (Lane, Timestamp)),
}

/// Returns the answer, or why there is none yet.
fn settled(job: &JobWithId, placed: SubmitOutcome) -> Result<Result<Submitted, SubmitError>, SendAgain> {
    let (id, accepted) = match placed {
        SubmitOutcome::New => (job.id.clone(), Accepted::New),
        SubmitOutcome::Replaced(holder) => (job.id.clone(), Accepted::Replacing(holder)),
        SubmitOutcome::Debounced(holder) => (holder, Accepted::Debounced),
        SubmitOutcome::Known(id, _) if job.has_drawn_id() && id == job.id => (id, Accepted::New),
        SubmitOutcome::Known(id, state) => (id, Accepted::Existing(state)),
        SubmitOutcome::Refused(job, why) => return Ok(Err(SubmitError::Refused { job, why })),
        SubmitOutcome::LeftOut(other, state) => return Ok(Err(SubmitError::left_out(job, &other, state))),
        SubmitOutcome::HeldBy(id) => return Err(SendAgain::HeldBy(id)),
        SubmitOutcome::Hidden(id, was_due) => return Err(SendAgain::Hidden(id, was_due)),
        SubmitOutcome::Again => return Err(SendAgain::Unchanged),
    };
    Ok(Ok(Submitted { id, accepted }))
}

/// Cuts jobs into calls of the script. A holder may weigh much more than the job that the call carries.
fn calls(jobs: Vec<(usize, JobWithId)>) -> Vec<Vec<(usize, JobWithId)>> {
    let (mut calls, mut sum) = (Vec::<Vec<_>>::new(), 0);
    for (place, job) in jobs {
        let work = work_with_holder(&job);
        match calls.last_mut().filter(|_| sum + work <= MAX_HOLDER_WORK) {
            Some(call) => call.push((place, job)),
            None => {
                sum = 0;
                calls.push(vec![(place, job)]);
            }
        }
        sum += work;
    }
    calls
}

/// What the script has to do with the holder that a job names: it reads every holder, and unpacks those that it replaces or
/// postpones.
fn work_with_holder(job: &JobWithId) -> usize {
    match job.unique.as_ref().filter(|_| job.holder.is_some()).map(|unique| unique.mode) {
        None => 0,
        Some(UniqueMode::Reject) => 1,
        Some(UniqueMode::Replace | UniqueMode::Debounce) => 4,
    }
}
