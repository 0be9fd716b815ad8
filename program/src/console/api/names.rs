//! The queues that a request may name.

use streamfleet::Queue;
use streamfleet::job::QueueName;
use streamfleet_operations::{Error, gates};

use super::call::Call;
use super::failure::redis;
use crate::console::access::Role;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;

/// The queues that a person may see.
pub(super) struct Visible {
    pub(super) queues: Vec<QueueName>,
    /// The servers of a cluster that could not be asked, and why.
    pub(super) unread: Vec<String>,
}

/// Returns the queues that a person may see.
///
/// # Errors
///
/// [`Problem`] if Redis does not answer.
pub(super) async fn visible(call: &Call) -> Result<Visible, Problem> {
    let known = call.app.known().await?;
    let queues = known.queues.iter().filter(|queue| call.person.may(Role::Viewer, queue)).cloned().collect();
    Ok(Visible { queues, unread: known.missing.clone() })
}

/// Refuses a queue that does not exist: Redis has no key of it, and the configuration does not name it.
///
/// # Errors
///
/// [`Problem`] with the status 404, or if Redis does not answer.
pub(super) async fn must_have(app: &AppState, queue: &QueueName) -> Result<(), Problem> {
    if app.effective.config.queues.contains_key(queue) {
        return Ok(());
    }
    // A queue that has jobs may be newer than the list.
    let snapshot = app.queue(queue.clone()).snapshot().await.map_err(redis("failed to count the jobs"))?;
    let jobs = snapshot.jobs().saturating_add(snapshot.delayed).saturating_add(snapshot.dead);
    if jobs > 0 || snapshot.leader.is_some() {
        return Ok(());
    }
    let known = app.known().await?;
    // A queue that is not listed may be on a server that could not be asked.
    if known.queues.contains(queue) || !known.missing.is_empty() {
        return Ok(());
    }
    Err(Problem::not_found(format!("there is no queue {queue}")))
}

/// Refuses to change the gates of a queue that does not exist, unless the request says that it is meant.
///
/// # Errors
///
/// [`Problem`] with the status 409.
pub(super) async fn must_be_meant(call: &Call, queue: &Queue, is_sure: bool) -> Result<(), Problem> {
    if is_sure {
        return Ok(());
    }
    let configured: Vec<QueueName> = call.app.effective.config.queues.keys().cloned().collect();
    let may_see = |name: &QueueName| call.person.may(Role::Viewer, name);
    let doubt = gates::unknown_queue((&call.app.broker, &configured[..]), queue, may_see).await;
    doubt.map_or(Ok(()), |doubt| Err(Error::Doubtful(doubt).into()))
}
