//! What follows a job's end, and batches: jobs after whose success together one more follows.

use super::{Producer, Submission, SubmitError};
use crate::broker::{Due, Untaken};
use crate::job::{BatchId, ChainedJob, Envelope, FollowUps, JobId, JobType, TraceContext};

/// One round trip names at most so many members.
const NAMED: usize = 250;

impl Submission {
    /// A job of this type follows this one's success; its payload says which job it was, and its result.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Name`] where the type breaks the rule for types.
    pub fn on_success(self, job_type: &str) -> Result<Self, SubmitError> {
        let job_type: JobType = job_type.parse()?;
        Ok(self.field("on_success", job_type.as_str()))
    }

    /// A job of this type follows this one's death; its payload says which job it was, and why.
    ///
    /// # Errors
    ///
    /// As [`Submission::on_success`].
    pub fn on_failure(self, job_type: &str) -> Result<Self, SubmitError> {
        let job_type: JobType = job_type.parse()?;
        Ok(self.field("on_failure", job_type.as_str()))
    }

    /// These jobs follow this one's success one after the other, as long as each succeeds.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Chain`] where there are more than [`FollowUps::MAX_CHAIN`], [`SubmitError::ChainTooLarge`] where they have
    /// more than [`FollowUps::MAX_CHAIN_BYTES`] as JSON.
    pub fn then(self, links: &[ChainedJob]) -> Result<Self, SubmitError> {
        if links.len() > FollowUps::MAX_CHAIN {
            return Err(SubmitError::Chain { links: links.len() });
        }
        let chain = serde_json::to_string(links).map_err(|error| SubmitError::Payload(error.to_string()))?;
        if chain.len() > FollowUps::MAX_CHAIN_BYTES {
            return Err(SubmitError::ChainTooLarge { bytes: chain.len() });
        }
        Ok(self.field("then", &chain))
    }
}

impl Producer {
    /// Submits the members of a batch, and `follow` once all of them have succeeded: it goes to the lane of the last one.
    /// Returns the members' ids; those without an own id get `<batch>.<number>`.
    ///
    /// After an error, or a crash, call it again with the same members in the same order: what was accepted before is not
    /// submitted again while its id is remembered, and `follow` comes once. A batch that is never done is forgotten after
    /// 30 days.
    ///
    /// # Errors
    ///
    /// [`SubmitError::TooManyFields`] where `follow` has more fields than a job may have, [`SubmitError::Batch`] where it has a delay, or the batch was closed before; otherwise as
    /// [`Producer::submit_all`].
    pub async fn submit_batch(
        &self,
        batch: &BatchId,
        follow: Submission,
        members: impl IntoIterator<Item = Submission>,
    ) -> Result<Vec<JobId>, SubmitError> {
        let follow = last(batch, follow, crate::traces::current().or(self.trace))?;
        let mut members = members.into_iter().enumerate().map(|(nth, member)| member.of(batch, nth));
        let (mut ids, mut some) = (Vec::new(), Vec::new());
        loop {
            some.extend(members.by_ref().take(NAMED));
            if some.is_empty() {
                break;
            }
            // Before they are named: the batch would wait for what is refused.
            self.refuse(&some)?;
            let named: Vec<JobId> = some.iter().filter_map(|member| member.id.clone()).collect();
            // Named first: a member that is done before it is known would not be counted.
            let open = self.note(batch, &follow, &named).await?;
            let closed = || SubmitError::Batch {
                batch: batch.clone(),
                why: "it was closed before, without some of these members".to_owned(),
            };
            open.then_some(()).ok_or_else(closed)?;
            ids.extend(self.submit_all(some.drain(..), |_| {}).await?);
        }
        self.note(batch, &follow, &[]).await?;
        Ok(ids)
    }

    /// Names members of a batch, or closes it. Sending it twice changes nothing.
    async fn note(&self, batch: &BatchId, follow: &Envelope, members: &[JobId]) -> Result<bool, SubmitError> {
        let send = || async { self.queue.batch(batch, follow, members).await.map_err(Untaken::from) };
        Ok(self.insist(send).await?)
    }
}

impl Submission {
    fn of(mut self, batch: &BatchId, nth: usize) -> Self {
        let named = || format!("{batch}.{nth}").parse().expect("a batch's name and a number are an id");
        self.id.get_or_insert_with(named);
        self.field("batch", batch.as_str())
    }
}

/// The fields of the job that follows a batch.
fn last(
    batch: &BatchId,
    mut follow: Submission,
    trace: Option<TraceContext>,
) -> Result<Envelope, SubmitError> {
    if let Some(trace) = trace {
        follow.belong_to(&trace);
    }
    if follow.job.due != Due::Now {
        return Err(SubmitError::Batch {
            batch: batch.clone(),
            why: "what follows cannot have a delay".to_owned(),
        });
    }
    if follow.bytes > FollowUps::MAX_CHAIN_BYTES {
        let (bytes, most) = (follow.bytes, FollowUps::MAX_CHAIN_BYTES);
        return Err(SubmitError::Batch {
            batch: batch.clone(),
            why: format!("what follows has {bytes} bytes, but at most {most} are allowed"),
        });
    }
    // Told now: when its last member ends, nobody is there who could be told.
    follow.fits()?;
    let id = follow.id.map(|id| id.to_string());
    let own = id.iter().map(|id| (b"id".as_slice(), id.as_bytes()));
    let fields = follow.job.fields.iter().map(|(name, value)| (&name[..], &value[..]));
    Ok(Envelope::new(own.chain(fields)))
}
