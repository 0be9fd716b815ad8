//! The progress of a batch.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{BatchId, Timestamp};
use streamfleet_engine::admin::Awaited;

use crate::Error;
use crate::times::rfc3339;

/// A batch.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Batch {
    /// Its name.
    pub name: String,
    /// The queue.
    pub queue: String,
    /// `open` while members can be added, `closed` while it waits for them, or `done`.
    pub state: String,
    /// How many members it has.
    pub members: u64,
    /// How many of them have not succeeded yet.
    pub left: u64,
    /// When it was created.
    pub created: String,
    /// When it was created.
    #[serde(skip)]
    pub created_at: Timestamp,
    /// Some of the members that have not succeeded.
    pub waiting_for: Vec<String>,
    /// Each of these members, with the job that stands for it.
    pub awaited: Vec<AwaitedMember>,
}

/// A member that the batch waits for: the job that stands for it, and the state of that job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct AwaitedMember {
    /// The member.
    pub member: String,
    /// The job whose success counts for it.
    pub job: String,
    /// The state of that job, or `unknown`.
    pub state: &'static str,
}

impl From<Awaited> for AwaitedMember {
    fn from(Awaited { member, job, state }: Awaited) -> Self {
        Self { member, job, state: state.map_or("unknown", |state| state.as_str()) }
    }
}

/// Shows the progress of a batch.
///
/// # Errors
///
/// [`Error::NotFound`] if the queue does not have it; [`Error::Redis`].
pub async fn batch(queue: &Queue, name: &BatchId) -> Result<Batch, Error> {
    let found = queue.batch_status(name).await.map_err(Error::redis("failed to look up the batch"))?;
    let none = || {
        let why = "a batch is deleted 30 days after its last member was added";
        Error::NotFound(format!("the queue {} has no batch {name}; {why}", queue.name()))
    };
    let batch = found.ok_or_else(none)?;
    Ok(Batch {
        name: name.to_string(),
        queue: queue.name().to_string(),
        state: batch.state,
        members: batch.size,
        left: batch.left,
        created: rfc3339(batch.created),
        created_at: batch.created,
        waiting_for: batch.waiting_for.iter().map(|awaited| awaited.member.clone()).collect(),
        awaited: batch.waiting_for.into_iter().map(AwaitedMember::from).collect(),
    })
}
