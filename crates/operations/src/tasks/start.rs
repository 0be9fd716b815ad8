//! Beginning a task. The audit notes it together with the beginning, and again when it ends.

use streamfleet::Queue;
use streamfleet_engine::admin::{
    Action, BulkError, BulkSelection, BulkTerms, Noted, ReplayRules, Selection, TaskError,
};

use super::TaskReport;
use super::list::{show, unknown};
use crate::Error;

/// What is to be done, to which jobs or letters.
pub(crate) enum Plan<'a> {
    /// Jobs are changed, or letters dropped.
    Change(&'a BulkSelection, BulkTerms),
    /// Letters are replayed.
    Replay(&'a Selection, ReplayRules),
}

/// Begins a task that carries out a plan.
///
/// # Errors
///
/// [`Error::Invalid`] if its rate or its rules cannot be used; [`Error::Conflict`] if it cannot be done, there are no letters, or there
/// are too many tasks; [`Error::Redis`].
pub(crate) async fn start(
    queue: &Queue,
    plan: &Plan<'_>,
    action: &Action,
) -> Result<Noted<TaskReport>, Error> {
    let tasks = queue.tasks();
    let begun = match plan {
        Plan::Change(selection, terms) => tasks.start(selection, terms, action).await,
        Plan::Replay(selection, rules) => tasks.start_replay(selection, *rules, action).await,
    };
    reported(queue, begun.map_err(|error| refused(queue, "", error))?).await
}

/// Reports on the task that an operation has begun.
pub(super) async fn reported(queue: &Queue, begun: Noted<String>) -> Result<Noted<TaskReport>, Error> {
    let report = show(queue, &begun.value).await?;
    Ok(begun.map(|_| report))
}

/// Why a task does not begin or change.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other error says why it cannot be done")]
pub(super) fn refused(queue: &Queue, id: &str, error: TaskError) -> Error {
    match error {
        TaskError::Redis(error) => Error::unsure("the task may or may not have begun or changed")(error),
        TaskError::Unknown => unknown(queue, id),
        TaskError::Rules(why) => Error::invalid("body", why),
        TaskError::Change(error @ BulkError::SameQueue(_)) => Error::invalid("to", error.to_string()),
        error => Error::Conflict(error.to_string()),
    }
}
