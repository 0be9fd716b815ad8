//! Submitting jobs from Rust. Other languages need no library: one `XADD` of the same fields is a submission.
//!
//! A [`Submission`] says what the job shall be; a [`Producer`] sends it, alone or with others in few round trips.

mod batch;
mod batches;
mod error;
mod submission;
mod wait;

use batches::Batches;
pub use error::SubmitError;
use futures_util::{StreamExt, TryStreamExt};
pub use submission::Submission;
pub use wait::{Ended, WaitError};

use crate::broker::{self, Due, NewJob, Queue};
use crate::job::JobId;

/// A greater payload is refused: Redis is for the job, not for its data. Put large data elsewhere and send its address.
pub const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// So many round trips are under way at once.
const IN_FLIGHT: usize = 4;

/// Submits jobs to one queue. Clones share the connection.
#[derive(Clone)]
pub struct Producer {
    queue: Queue,
}

impl Producer {
    /// A producer for this queue.
    pub fn new(queue: Queue) -> Self {
        Self { queue }
    }

    /// Submits one job and returns its id.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Broker`] where Redis refuses or does not answer.
    pub async fn submit(&self, submission: Submission) -> Result<JobId, SubmitError> {
        let mut ids = self.send(vec![submission.job]).await?;
        ids.pop().ok_or_else(|| SubmitError::Payload("no id came back".to_owned()))
    }

    /// Submits many jobs, several round trips at a time, and returns their ids in the same order. `sent` is told how
    /// many more were accepted, each time some were.
    ///
    /// # Errors
    ///
    /// As [`Producer::submit`]. Jobs of earlier round trips are submitted even then.
    pub async fn submit_all(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
        mut sent: impl FnMut(usize),
    ) -> Result<Vec<JobId>, SubmitError> {
        let batches = Batches { submissions: submissions.into_iter().peekable() };
        let sending = futures_util::stream::iter(batches).map(|batch| self.send(batch)).buffered(IN_FLIGHT);
        let mut sending = std::pin::pin!(sending);
        let mut ids = Vec::new();
        while let Some(batch) = sending.try_next().await? {
            sent(batch.len());
            ids.extend(batch);
        }
        Ok(ids)
    }

    /// Sends jobs of one batch: those for now lane by lane, the others to the delayed set.
    async fn send(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, SubmitError> {
        let mut ids: Vec<Option<JobId>> = jobs.iter().map(|job| job.id.clone()).collect();
        let mut now: [Vec<(usize, NewJob)>; 3] = Default::default();
        let mut later = Vec::new();
        for (at, job) in jobs.into_iter().enumerate() {
            match job.due {
                Due::Now => now[job.lane as usize].push((at, job)),
                Due::In(_) | Due::At(_) => later.push((ids[at].get_or_insert_with(random_id).clone(), job)),
            }
        }
        for lane in now.into_iter().filter(|lane| !lane.is_empty()) {
            let (places, jobs): (Vec<_>, Vec<_>) = lane.into_iter().unzip();
            let lane = jobs[0].lane;
            for (place, entry) in places.into_iter().zip(self.queue.append(lane, &jobs).await?) {
                ids[place].get_or_insert(JobId::derived(entry, lane));
            }
        }
        if !later.is_empty() {
            self.schedule(&later).await?;
        }
        Ok(ids.into_iter().flatten().collect())
    }

    /// Scheduling twice does no harm, so a lost answer is met by sending once more.
    async fn schedule(&self, jobs: &[(JobId, NewJob)]) -> Result<(), SubmitError> {
        match self.queue.schedule(jobs).await {
            Err(broker::Error::Unknown { .. }) => {
                self.queue.schedule(jobs).await.map(drop).map_err(Into::into)
            }
            Ok(Some(id)) => Err(SubmitError::AlreadyScheduled { id }),
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// An id for a job that has no entry yet.
fn random_id() -> JobId {
    format!("{:032x}", rand::random::<u128>()).parse().expect("hexadecimal digits are an id")
}
