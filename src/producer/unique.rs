//! Submits jobs with ids and unique keys, and sends them again if a lock's holder must be looked up.

use std::time::Duration;

use super::{Accepted, Producer, SubmitError, Submitted};
use crate::broker::{Holder, Identified, Placed, Sought, UniqueMode};

/// How often a job is sent before it fails because its lock keeps changing hands.
const ROUNDS: usize = 100;

/// How many entries are searched for a holder to replace: this many from when it was due, and as many from the newest
/// backward.
const SOUGHT: u64 = 10_000;

/// How many entries are searched for a holder that has long been due, to learn whether it still exists.
const GLANCED: u64 = 1000;

impl Producer {
    /// Submits jobs with ids, and returns the answers in the same order.
    pub(super) async fn place(&self, jobs: Vec<Identified>) -> Result<Vec<Submitted>, SubmitError> {
        let mut answers: Vec<Option<Submitted>> = jobs.iter().map(|_| None).collect();
        let mut open: Vec<(usize, Identified)> = jobs.into_iter().enumerate().collect();
        for round in 0..ROUNDS {
            let (places, jobs): (Vec<usize>, Vec<Identified>) = std::mem::take(&mut open).into_iter().unzip();
            let placed = self.insist(|| self.queue.submit(&jobs, self.max_depth)).await?;
            for ((place, job), placed) in places.into_iter().zip(jobs).zip(placed) {
                match self.read(job, placed).await? {
                    Ok(answer) => answers[place] = Some(answer),
                    Err(again) => open.push((place, again)),
                }
            }
            if open.is_empty() {
                return Ok(answers.into_iter().flatten().collect());
            }
            if round > 1 {
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..10))).await;
            }
        }
        let key = open.into_iter().find_map(|(_, job)| job.unique).map(|unique| unique.key);
        Err(SubmitError::Contended { key: key.map(|key| key.to_string()).unwrap_or_default() })
    }

    /// Returns the answer, or the job as it must be sent again.
    async fn read(
        &self,
        mut job: Identified,
        placed: Placed,
    ) -> Result<Result<Submitted, Identified>, SubmitError> {
        let (id, accepted) = match placed {
            Placed::New => (job.id, Accepted::New),
            Placed::Replaced(holder) => (job.id, Accepted::Replacing(holder)),
            Placed::Debounced(holder) => (holder, Accepted::Debounced),
            Placed::Known(id, _) if job.drawn && id == job.id => (id, Accepted::New),
            Placed::Known(id, state) => (id, Accepted::Existing(state)),
            Placed::Refused(job, why) => return Err(SubmitError::Refused { job, why }),
            Placed::HeldBy(id) => {
                let put_off = job.unique.as_ref().is_some_and(|unique| unique.mode == UniqueMode::Debounce);
                let edit = if put_off { self.queue.put_off(&id, &job).await? } else { None };
                job.holder = Some(Holder { id, sought: None, edit });
                return Ok(Err(job));
            }
            Placed::LeftOut(other, state) => return Err(SubmitError::left_out(&job, &other, state)),
            Placed::Hidden(id, was_due) => {
                let replaces = job.unique.as_ref().is_some_and(|unique| unique.mode == UniqueMode::Replace);
                let sought =
                    self.queue.seek_due(&id, was_due, if replaces { SOUGHT } else { GLANCED }).await?;
                // The entry with this id is not the holder's.
                let again = job.holder.as_ref().is_some_and(|holder| holder.sought == Some(sought));
                let sought = if again { Sought::Lost } else { sought };
                job.holder = Some(Holder { id, sought: Some(sought), edit: None });
                return Ok(Err(job));
            }
        };
        Ok(Ok(Submitted { id, accepted }))
    }
}
