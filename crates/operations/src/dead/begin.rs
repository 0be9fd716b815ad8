//! Replaying and dropping the letters of a selection by a task.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin::{
    Action, BulkAction, BulkTerms, Filter, Noted, ReplayRules, Selection, SelectionPlan,
};

use super::groups::Group;
use super::sweep::ALL_STEPS;
use crate::tasks::{Plan, TaskReport, start, target};
use crate::{Actor, DEAD_DROP, DEAD_REPLAY, Error};

/// The most groups that a plan shows.
const MAX_GROUPS: usize = 100;

/// The dead letters that would be replayed or dropped.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetterPlan)]
#[non_exhaustive]
pub struct LetterPlan {
    /// The queue.
    pub queue: String,
    /// The filter, as the command names it; empty for all of them.
    pub filter: String,
    /// How many dead letters there are to look at.
    pub total: u64,
    /// How many dead letters match; null if that takes too long to count.
    pub planned: Option<u64>,
    /// How many are left alone, because the filter cannot read their payloads; null if that takes too long to count.
    pub undecided: Option<u64>,
    /// The largest groups of those that match.
    pub groups: Vec<Group>,
}

impl LetterPlan {
    /// Reports on letters that were counted, if they were.
    pub fn of(queue: &Queue, letters: &Selection, counted: Option<SelectionPlan>) -> Self {
        let (planned, undecided) = counted.as_ref().map(|plan| (plan.letters, plan.undecided)).unzip();
        let groups = counted.map(|plan| plan.groups).unwrap_or_default();
        Self {
            queue: queue.name().to_string(),
            filter: letters.filter.to_string(),
            total: letters.total,
            planned,
            undecided,
            groups: groups.into_iter().take(MAX_GROUPS).map(Group::from).collect(),
        }
    }
}

/// The letters that somebody means, and how many they are.
#[derive(Debug, Clone)]
pub struct Selected {
    /// The letters that existed when somebody wanted this.
    pub selection: Selection,
    /// How many of them match, if they were counted.
    pub planned: Option<u64>,
    /// How many dead letters the queue had.
    pub existing: u64,
}

impl Selected {
    /// Selects the letters that exist now and that a filter matches, or only the oldest of them.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`].
    pub async fn now(queue: &Queue, filter: Filter, limit: Option<u64>) -> Result<Self, Error> {
        let (letters, unread) = (queue.dead_letters(), || Error::redis("failed to read the dead letters"));
        let mut selection = letters.select(filter).await.map_err(unread())?;
        let existing = selection.total;
        if let Some(most) = limit {
            selection = letters.oldest(selection, most).await.map_err(unread())?;
        }
        Ok(Self { selection, planned: None, existing })
    }

    /// Counts those that match if one page has all letters, so that nobody begins a task for none of a few.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`].
    pub async fn count_few(&mut self, queue: &Queue) -> Result<(), Error> {
        let page = queue.dead_letters().bare().selected(&self.selection, None).await;
        let page = page.map_err(Error::redis("failed to read the dead letters"))?;
        if page.next.is_none() {
            self.planned = Some(page.letters.len() as u64);
        }
        Ok(())
    }

    /// Adds to an action which letters it is about.
    fn target(&self, action: Action) -> Action {
        action.target(target(&self.selection.filter, self.selection.limit)).count(self.planned)
    }

    /// Returns true if it is known that there are none.
    pub fn is_none(&self) -> bool {
        self.planned == Some(0) || self.selection.last.is_none()
    }

    /// Refuses to begin without a letter.
    fn check(&self) -> Result<(), Error> {
        if self.is_none() {
            return Err(Error::Conflict("there are no such dead letters".to_owned()));
        }
        Ok(())
    }
}

/// Begins a task that replays letters, and counts how their jobs end.
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
    let mut action = letters.target(actor.action(&DEAD_REPLAY));
    if rules.all_steps {
        action.target.insert_str(0, ALL_STEPS);
    }
    start(queue, &Plan::Replay(&letters.selection, rules), &action).await
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
    let (selection, action) = (&letters.selection, letters.target(actor.action(&DEAD_DROP)));
    let jobs = queue.bulk().select(BulkAction::Drop, Filter::new(), None).await;
    let mut jobs = jobs.map_err(Error::redis("failed to read the dead letters"))?;
    // Only the letters that somebody has seen in the plan.
    (jobs.filter, jobs.now) = (selection.filter.clone(), selection.now);
    (jobs.last, jobs.limit) = (selection.last, selection.limit);
    start(queue, &Plan::Change(&jobs, BulkTerms::new(actor.name()).rate(rate)), &action).await
}
