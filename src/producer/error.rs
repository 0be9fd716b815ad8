//! Why a job was not submitted.

use crate::broker::{self, JobWithId, NotAccepted};
use crate::job::{InvalidName, InvalidPayload, JobId, JobType, State};

/// Why a job was not submitted; see the [example](crate::Producer::submit_or_find).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The payload cannot be encoded.
    #[error("the payload cannot be encoded: {0}")]
    Payload(String),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes, but at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest size allowed.
        limit: usize,
    },
    /// The job has too many fields. Nothing of this call was submitted, except by its earlier round trips.
    #[error(
        "the job {job} has {fields} fields, including those that submitting adds, but at most {limit} are allowed: put \
             headers into the payload"
    )]
    TooManyFields {
        /// Its id, or its type if it has no id.
        job: String,
        /// How many fields it would have.
        fields: usize,
        /// The most that are allowed.
        limit: usize,
    },
    /// The payload does not fit the schema of the job's type. Nothing of this call was submitted, except by its earlier round
    /// trips.
    #[error("the payload{} does not fit the schema of {job_type}: {invalid}", of_job(.job.as_ref()))]
    InvalidPayload {
        /// The type whose schema it is: that of the job, or of one that follows it.
        job_type: JobType,
        /// The id of the job, if it has one of its own.
        job: Option<JobId>,
        /// What does not fit.
        invalid: InvalidPayload,
    },
    /// A header's name or value is not usable.
    #[error("the header {0:?} is invalid: a name must have 1 to 128 bytes, a value at most 8192")]
    Header(String),
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The id looks like those that the fleet derives from entries, and may collide with another job's.
    #[error("the id {id} looks like one that the fleet gives to jobs without an id: use another format")]
    DerivedId {
        /// The id.
        id: JobId,
    },
    /// The chain of follow-up jobs is too long.
    #[error("the chain has {links} jobs; a chain may have at most {}", crate::job::FollowUps::MAX_CHAIN)]
    Chain {
        /// The number of jobs in the chain.
        links: usize,
    },
    /// The jobs of the chain are too large together.
    #[error(
        "the follow-up jobs have {bytes} bytes in total, but at most {} are allowed: let them fetch their data",
        crate::job::FollowUps::MAX_CHAIN_BYTES
    )]
    ChainTooLarge {
        /// Their size as JSON.
        bytes: usize,
    },
    /// The batch does not accept these jobs.
    #[error("the batch {batch} was refused: {why}")]
    Batch {
        /// The batch.
        batch: crate::job::BatchId,
        /// Why.
        why: String,
    },
    /// Redis cannot confirm the requested durability. Nothing was submitted.
    #[error("the requested durability is not supported: {0}; nothing was submitted")]
    NotOffered(String),
    /// The jobs were accepted, but Redis did not confirm the requested durability. Jobs with an id of their own may be
    /// sent again.
    #[error("{} accepted, but not confirmed to be durable: {why}", listed(.accepted))]
    Unconfirmed {
        /// The jobs of this round trip, with those that existed already.
        accepted: Vec<JobId>,
        /// Why.
        why: String,
    },
    /// The unique key passed from one job to another each time it was checked. Its job was not submitted; try again. Of
    /// several jobs in one call, others may be submitted: see [`Producer::submit_all`](crate::Producer::submit_all).
    #[error("the holder of the unique key {key:?} changed at every attempt; its job was not submitted")]
    Contended {
        /// The key.
        key: String,
    },
    /// Redis refuses only this job, because one of its keys holds something else. Of several jobs in one call, others may
    /// be submitted: see [`Producer::submit_each`](crate::Producer::submit_each).
    #[error("the job {job} was refused: {why}")]
    Refused {
        /// The job.
        job: JobId,
        /// What Redis reports.
        why: String,
    },
    /// The queue has no room; try again later. A single job was not submitted. Of several jobs in one call, some may be: see
    /// [`Producer::submit_all`](crate::Producer::submit_all).
    #[error(
        "the queue is full: it has {depth} of at most {limit} jobs and accepts no more; wait for jobs to end, start more \
             workers, or raise max_depth"
    )]
    Full {
        /// How many jobs are waiting, running or due later.
        depth: u64,
        /// The most that are allowed.
        limit: u64,
    },
    /// Redis refused, or did not answer. After [`RedisError::Unknown`](crate::RedisError::Unknown) the job may have been accepted.
    #[error(transparent)]
    Broker(#[from] broker::Error),
}

impl SubmitError {
    /// A member that matches an existing job whose end the batch would never learn of.
    pub(super) fn left_out(member: &JobWithId, there: &JobId, state: State) -> Self {
        let is = match state {
            State::Cancelled => "is cancelled: give it another id, or leave it out",
            State::Waiting
            | State::Running
            | State::Scheduled
            | State::Retrying
            | State::Done
            | State::Dead => {
                "was not submitted with an id, or counts for 100 other batches: give the member another id or key"
            }
        };
        let why = format!("its member {} was not accepted, and the job {there} ({state}) {is}", member.id);
        Self::Batch { batch: member.batch.clone().expect("a member has a batch"), why }
    }
}

impl From<NotAccepted> for SubmitError {
    fn from(error: NotAccepted) -> Self {
        match error {
            NotAccepted::Full { depth, limit } => Self::Full { depth, limit },
            NotAccepted::Broker(error) => Self::Broker(error),
        }
    }
}

fn of_job(job: Option<&JobId>) -> String {
    job.map(|job| format!(" of the job {job}")).unwrap_or_default()
}

/// Lists the jobs in words.
fn listed(jobs: &[JobId]) -> String {
    match jobs {
        [job] => format!("the job {job} is"),
        jobs => format!("{} jobs are", jobs.len()),
    }
}
