//! Submitting jobs: what describes one, and what became of it. Errors are those of the library, which each door words in its own
//! way. The audit does not note submissions: the jobs themselves show what was submitted.

mod draft;
mod line;

use serde::Serialize;
use streamfleet::job::{BatchId, Lane, QueueName, State};
use streamfleet::{Accepted, Producer, Queue, Submission, SubmitError, Submitted};

pub use draft::{Chain, Draft, Follow, When, chain, encode, mode, scope, timeout_in_bounds};
pub use line::{Invalid, Length, Line, NewJob, parse, read_draft};

/// Where jobs go.
#[derive(Clone)]
pub struct Target {
    /// The queue.
    pub queue: Queue,
    /// Submits to the queue, with its limits.
    pub producer: Producer,
    /// The most bytes that a payload may have.
    pub max_payload: usize,
}

/// What was submitted.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = Submitted)]
#[non_exhaustive]
pub struct Receipt {
    /// The id of the job.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// The lane for which it was meant.
    pub lane: &'static str,
    /// The state of the job.
    pub state: &'static str,
    /// True if the job existed already, with this id or this unique key.
    pub existing: bool,
    /// The job that held the unique key and was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// True if the job that holds the unique key got this payload and time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub debounced: bool,
    /// The answer of Redis.
    #[serde(skip)]
    pub submitted: Submitted,
}

impl Receipt {
    /// Says what became of a job for this lane, which would be in this state if it is new.
    pub fn of(submitted: Submitted, queue: &QueueName, (lane, state): (Lane, State)) -> Self {
        let existing = submitted.existing();
        Self {
            id: submitted.id.to_string(),
            queue: queue.to_string(),
            lane: lane.as_str(),
            state: existing.unwrap_or(state).as_str(),
            existing: existing.is_some(),
            replaced: submitted.replaced().map(ToString::to_string),
            debounced: submitted.accepted == Accepted::Debounced,
            submitted,
        }
    }
}

/// Submits a job. One that exists already, with its id or its unique key, is found in its place.
///
/// # Errors
///
/// [`SubmitError`]: the job is not valid, was not accepted, or may or may not be submitted.
pub async fn submit(target: &Target, draft: Draft) -> Result<Receipt, SubmitError> {
    let place = draft.place();
    let submission = draft.submission(target.max_payload)?;
    let submitted = target.producer.submit_or_find(submission).await?;
    Ok(Receipt::of(submitted, target.queue.name(), place))
}

/// A batch whose members are submitted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BatchOpened)]
#[non_exhaustive]
pub struct Opened {
    /// Its name.
    pub batch: String,
    /// The queue.
    pub queue: String,
    /// How many members it has.
    pub members: usize,
    /// The ids of the members, in their order.
    pub ids: Vec<String>,
}

/// Submits the members of a batch, and the job `follow` once all of them have succeeded.
///
/// # Errors
///
/// The errors of [`Producer::submit_batch`].
pub async fn open_batch(
    target: &Target,
    batch: &BatchId,
    follow: Submission,
    members: Vec<Submission>,
) -> Result<Opened, SubmitError> {
    let ids = target.producer.submit_batch(batch, follow, members).await?;
    Ok(Opened {
        batch: batch.to_string(),
        queue: target.queue.name().to_string(),
        members: ids.len(),
        ids: ids.iter().map(ToString::to_string).collect(),
    })
}

/// Whether the job itself is wrong, so that it will never be accepted.
pub fn is_about_job(error: &SubmitError) -> bool {
    matches!(
        error,
        SubmitError::Payload(_)
            | SubmitError::TooLarge { .. }
            | SubmitError::TooManyFields { .. }
            | SubmitError::InvalidPayload { .. }
            | SubmitError::Header(_)
            | SubmitError::Name(_)
            | SubmitError::DerivedId { .. }
            | SubmitError::Chain { .. }
            | SubmitError::ChainTooLarge { .. }
    )
}
