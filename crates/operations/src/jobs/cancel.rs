//! Cancelling one job, wherever it is.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobId, State};
use streamfleet_engine::admin::{Cancellation, Noted};

use super::{find, unknown};
use crate::{Actor, CANCEL, Error};

/// What became of a job that somebody wants to cancel.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Cancelled {
    /// The job.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// The state of the job.
    pub state: &'static str,
    /// True if it is running and was asked to stop.
    pub cancelling: bool,
    /// The queue that has the job, if it was moved there. It goes on there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// What was done.
    #[serde(skip)]
    pub outcome: CancelOutcome,
}

/// What was done to cancel a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is cancelled now.
    Done,
    /// It is running, and was asked to stop.
    Requested,
    /// Nothing: it was cancelled before.
    Repeated,
    /// Nothing: it had ended in this state.
    Ended(State),
    /// Nothing: it was moved to this queue, and goes on there.
    Moved(String),
}

/// Cancels one job. A running one is asked to stop. The record of a cancelled job is kept for `retention`.
///
/// # Errors
///
/// [`Error::NotFound`] if the queue does not know it; [`Error::Redis`].
pub async fn cancel(
    queue: &Queue,
    actor: &Actor,
    id: &JobId,
    retention: Duration,
) -> Result<Noted<Cancelled>, Error> {
    let failed = || Error::unsure("the job may or may not be cancelled");
    let mut id = id.clone();
    let mut cancellation = queue.cancel(&id, actor.name(), retention).await.map_err(failed())?;
    // The job may be in another lane than the entry id implies.
    if cancellation == Cancellation::Unknown
        && let Some(status) = find(queue, &id).await?
    {
        id = status.id;
        cancellation = queue.cancel(&id, actor.name(), retention).await.map_err(failed())?;
    }
    let (state, outcome) = match cancellation {
        Cancellation::Done => (State::Cancelled, CancelOutcome::Done),
        Cancellation::Requested => (State::Running, CancelOutcome::Requested),
        Cancellation::Ended(State::Cancelled) => (State::Cancelled, repeated(queue, &id).await?),
        Cancellation::Ended(state) => (state, CancelOutcome::Ended(state)),
        Cancellation::Unknown => return Err(unknown(queue, &id).await),
    };
    let cancelled = Cancelled {
        id: id.to_string(),
        queue: queue.name().to_string(),
        state: state.as_str(),
        cancelling: outcome == CancelOutcome::Requested,
        moved_to: if let CancelOutcome::Moved(to) = &outcome { Some(to.clone()) } else { None },
        outcome,
    };
    let how = match cancelled.outcome {
        CancelOutcome::Done => "done",
        CancelOutcome::Requested => "asked to stop",
        CancelOutcome::Repeated | CancelOutcome::Ended(_) | CancelOutcome::Moved(_) => {
            return Ok(Noted::of_nothing(cancelled));
        }
    };
    let action = actor.action(&CANCEL).target(id.to_string()).count(1).outcome(how);
    Ok(queue.audit().noted(&action, cancelled).await)
}

/// Why a job is cancelled already: because it was moved, only its trace is.
async fn repeated(queue: &Queue, id: &JobId) -> Result<CancelOutcome, Error> {
    let status = queue.status(id).await.map_err(Error::redis("failed to look up the job"))?;
    let error = status.and_then(|status| status.error).unwrap_or_default();
    let to = error.strip_prefix("moved to the queue ").map(str::to_owned);
    Ok(to.map_or(CancelOutcome::Repeated, CancelOutcome::Moved))
}
