//! Replaying and dropping the letters of a selection by a task.

use streamfleet::Queue;
use streamfleet_engine::admin::{BulkAction, BulkTerms, Filter, Noted, ReplayRules, Selection};

use super::sweep::target;
use crate::tasks::{Plan, TaskReport, start};
use crate::{Actor, DEAD_DROP, DEAD_REPLAY, Error};

/// The letters that somebody means, and how many they are.
#[derive(Debug, Clone)]
pub struct Selected {
    /// The letters that existed when somebody wanted this.
    pub selection: Selection,
    /// How many of them match, if they were counted.
    pub planned: Option<u64>,
}

impl Selected {
    /// Refuses to begin without a letter.
    fn check(&self) -> Result<(), Error> {
        if self.planned == Some(0) || self.selection.last.is_none() {
            return Err(Error::Conflict("there are no such dead letters".to_owned()));
        }
        Ok(())
    }
}

/// Begins a task that replays letters at a rate, and watches how their jobs end.
///
/// # Errors
///
/// [`Error::Conflict`] if there are no letters, or too many tasks; [`Error::Invalid`] if the rules cannot be used; [`Error::Redis`].
pub async fn begin_replay(
    queue: &Queue,
    actor: &Actor,
    letters: &Selected,
    rules: ReplayRules,
) -> Result<Noted<TaskReport>, Error> {
    letters.check()?;
    let Selected { selection, planned } = letters;
    let action = target(actor.action(&DEAD_REPLAY), selection, None).count(*planned);
    start(queue, &Plan::Replay(selection, rules), &action).await
}

/// Begins a task that drops letters, at a rate if there is one.
///
/// # Errors
///
/// [`Error::Conflict`] if there are no letters, or too many tasks; [`Error::Invalid`] if the rate cannot be used; [`Error::Redis`].
pub async fn begin_drop(
    queue: &Queue,
    actor: &Actor,
    letters: &Selected,
    rate: Option<f64>,
) -> Result<Noted<TaskReport>, Error> {
    letters.check()?;
    let Selected { selection, planned } = letters;
    let jobs = queue.bulk().select(BulkAction::Drop, Filter::new(), None).await;
    let mut jobs = jobs.map_err(Error::redis("failed to read the dead letters"))?;
    // Only the letters that somebody has seen in the plan.
    (jobs.filter, jobs.now, jobs.last) = (selection.filter.clone(), selection.now, selection.last);
    let action = target(actor.action(&DEAD_DROP), selection, None).count(*planned);
    start(queue, &Plan::Change(&jobs, BulkTerms::new(actor.name()).rate(rate)), &action).await
}
