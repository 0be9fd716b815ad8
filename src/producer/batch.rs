//! Follow-up jobs after a job's end, and batches: groups of jobs after whose success one more job follows.

use super::{Producer, Submission, SubmitError};
use crate::broker::{BatchFollower, Due, NotAccepted};
use crate::job::{BatchId, ChainedJob, Envelope, FollowUps, JobId, JobType, QueueName};
use crate::traces::Trace;

/// The most members that one round trip names.
const MEMBERS_PER_CALL: usize = 250;

impl Submission {
    /// Submits a job of this type when this one succeeds; its payload has this job's id and result.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Name`] if the type breaks the rule for types.
    pub fn on_success(self, job_type: &str) -> Result<Self, SubmitError> {
        let job_type: JobType = job_type.parse()?;
        Ok(self.field("on_success", job_type.as_str()))
    }

    /// Submits a job of this type when this one dies; its payload has this job's id and the reason.
    ///
    /// # Errors
    ///
    /// The errors of [`Submission::on_success`].
    pub fn on_failure(self, job_type: &str) -> Result<Self, SubmitError> {
        let job_type: JobType = job_type.parse()?;
        Ok(self.field("on_failure", job_type.as_str()))
    }

    /// Runs these jobs one after the other once this one has succeeded, as long as each succeeds.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Chain`] if there are more than [`FollowUps::MAX_CHAIN`], [`SubmitError::ChainTooLarge`] if they
    /// have more than [`FollowUps::MAX_CHAIN_BYTES`] as JSON.
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

impl Submission {
    /// Notes the job whose end submits this one, which is in another queue.
    pub(crate) fn submitted_by(self, parent: &str, queue: &QueueName) -> Self {
        self.field("parent", parent).field("parent_queue", queue.as_str())
    }
}

impl Producer {
    /// Submits the members of a batch, and `follow` once all of them have succeeded.
    ///
    /// `follow` goes to the lane of the member that finishes last. Returns the members' ids; a member without an id of
    /// its own gets `<batch>.<number>`.
    ///
    /// After an error or a crash, call it again with the same members in the same order. A member that was accepted
    /// before is not submitted again while its id is remembered, and `follow` is submitted once. A batch that never
    /// completes is forgotten after 30 days.
    ///
    /// # Errors
    ///
    /// [`SubmitError::TooManyFields`] if `follow` has more fields than a job may have, [`SubmitError::Batch`] if
    /// `follow` has a delay or the batch was closed before; otherwise as [`Producer::submit_all`].
    pub async fn submit_batch(
        &self,
        batch: &BatchId,
        mut follow: Submission,
        members: impl IntoIterator<Item = Submission>,
    ) -> Result<Vec<JobId>, SubmitError> {
        self.check_payloads(std::slice::from_ref(&follow)).await?;
        self.encode_payloads(std::slice::from_mut(&mut follow)).await?;
        let follow =
            follow_up_fields(batch, follow, crate::traces::current().or_else(|| self.trace.clone()))?;
        let send = || async { self.queue.batch_follower(follow.clone()).await.map_err(NotAccepted::from) };
        let follow = self.retry(send).await?;
        let mut members = members.into_iter().enumerate().map(|(nth, member)| member.member_of(batch, nth));
        let (mut ids, mut some) = (Vec::new(), Vec::new());
        loop {
            some.extend(members.by_ref().take(MEMBERS_PER_CALL));
            if some.is_empty() {
                break;
            }
            // Before the members are named: the batch would wait for a member that is refused.
            self.check(&some)?;
            self.check_payloads(&some).await?;
            let named: Vec<JobId> = some.iter().filter_map(|member| member.id.clone()).collect();
            // Named first: a member that is done before the batch knows it would not be counted.
            let open = self.update_batch(batch, &follow, &named).await?;
            let closed = || SubmitError::Batch {
                batch: batch.clone(),
                why: "it is already closed, without some of these members".to_owned(),
            };
            open.then_some(()).ok_or_else(closed)?;
            ids.extend(self.submit_all(some.drain(..)).await?);
        }
        self.update_batch(batch, &follow, &[]).await?;
        Ok(ids)
    }

    /// Names members of a batch, or closes it. Sending it twice changes nothing.
    async fn update_batch(
        &self,
        batch: &BatchId,
        follow: &BatchFollower,
        members: &[JobId],
    ) -> Result<bool, SubmitError> {
        let send = || async { self.queue.batch(batch, follow, members).await.map_err(NotAccepted::from) };
        Ok(self.retry(send).await?)
    }
}

impl Submission {
    fn member_of(mut self, batch: &BatchId, nth: usize) -> Self {
        let named = || format!("{batch}.{nth}").parse().expect("a batch's name and a number form a valid id");
        self.id.get_or_insert_with(named);
        self.field("batch", batch.as_str())
    }
}

/// Returns the fields of the job that follows a batch.
fn follow_up_fields(
    batch: &BatchId,
    mut follow: Submission,
    trace: Option<Trace>,
) -> Result<Envelope, SubmitError> {
    if let Some(trace) = trace {
        follow.belong_to(&trace);
    }
    if follow.job.due != Due::Now {
        return Err(SubmitError::Batch {
            batch: batch.clone(),
            why: "its follow-up job cannot have a delay".to_owned(),
        });
    }
    if follow.bytes > FollowUps::MAX_CHAIN_BYTES {
        let (bytes, most) = (follow.bytes, FollowUps::MAX_CHAIN_BYTES);
        return Err(SubmitError::Batch {
            batch: batch.clone(),
            why: format!("its follow-up job has {bytes} bytes, but at most {most} are allowed"),
        });
    }
    // Checked now: when the last member ends, nobody could receive the error.
    follow.fits()?;
    let id = follow.id.map(|id| id.to_string());
    let own = id.iter().map(|id| (b"id".as_slice(), id.as_bytes()));
    let fields = follow.job.fields.iter().map(|(name, value)| (&name[..], &value[..]));
    Ok(Envelope::new(own.chain(fields)))
}
