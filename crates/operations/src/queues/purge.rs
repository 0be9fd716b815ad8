//! Emptying a queue: its waiting and delayed jobs are cancelled, its dead letters are dropped.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::State;
use streamfleet_engine::admin::{BulkAction, BulkTerms, Filter, Noted, TaskState};

use crate::tasks::{Plan, TaskReport, start};
use crate::{Actor, Error, QUEUES_PURGE};

/// What to empty, and how.
#[derive(Debug, Clone, Copy)]
pub struct Purge {
    /// What to empty.
    pub parts: Parts,
    /// For how long the records of the cancelled jobs are kept.
    pub retention: Duration,
}

/// Parts of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// The waiting jobs.
    pub waiting: bool,
    /// The delayed jobs and the retries.
    pub delayed: bool,
    /// The dead letters.
    pub dead: bool,
}

impl Parts {
    /// Returns true if it is nothing.
    pub fn is_empty(self) -> bool {
        !self.waiting && !self.delayed && !self.dead
    }

    /// The names of the parts that are meant.
    pub fn names(self) -> Vec<&'static str> {
        let named = [("waiting", self.waiting), ("delayed", self.delayed), ("dead", self.dead)];
        named.into_iter().filter(|(_, is_meant)| *is_meant).map(|(name, _)| name).collect()
    }

    /// The states of the jobs to cancel, and that of the letters to drop.
    fn states(self) -> Vec<State> {
        let waiting = self.waiting.then_some(State::Waiting);
        let delayed = [State::Scheduled, State::Retrying].into_iter().filter(|_| self.delayed);
        waiting.into_iter().chain(delayed).chain(self.dead.then_some(State::Dead)).collect()
    }

    /// The arguments that mean them.
    fn flags(self) -> String {
        let flags: Vec<String> = self.names().into_iter().map(|name| format!("--{name}")).collect();
        flags.join(" ")
    }
}

/// What became of the queue.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = QueuePurged)]
#[non_exhaustive]
pub struct Purged {
    /// The queue.
    pub queue: String,
    /// True if this is only a plan.
    pub dry_run: bool,
    /// How many waiting jobs there were; `null` if they are not emptied.
    pub waiting: Option<u64>,
    /// How many delayed jobs there were; `null` if they are not emptied.
    pub delayed: Option<u64>,
    /// How many dead letters there were; `null` if they are not emptied.
    pub dead: Option<u64>,
    /// How many jobs were cancelled, and letters dropped.
    pub changed: u64,
    /// How many jobs and letters Redis refused to change.
    pub failed: u64,
    /// The last error with which it did, or with which a part of the queue could not be read.
    pub errors: Vec<String>,
    /// True if the task is not done.
    pub interrupted: bool,
    /// The task that empties the queue; absent if this is only a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl Purged {
    /// How many jobs and letters there were.
    pub fn planned(&self) -> u64 {
        [self.waiting, self.delayed, self.dead].into_iter().flatten().sum()
    }

    /// Takes what a task has done so far.
    pub fn take(&mut self, task: &TaskReport) {
        self.task = Some(task.id.clone());
        (self.changed, self.failed) = (task.done + task.requested, task.failed);
        self.errors = task.error.iter().cloned().collect();
        self.interrupted = task.task.state != TaskState::Done;
    }
}

/// Counts what would be emptied, and changes nothing.
///
/// # Errors
///
/// [`Error::Invalid`] if no part is named; [`Error::Redis`].
pub async fn plan_purge(queue: &Queue, parts: Parts) -> Result<Purged, Error> {
    if parts.is_empty() {
        return Err(Error::invalid("body", "say what to empty: waiting, delayed or dead"));
    }
    let snapshot = queue.snapshot().await.map_err(Error::redis("failed to count the jobs"))?;
    Ok(Purged {
        queue: queue.name().to_string(),
        waiting: parts.waiting.then(|| snapshot.waiting()),
        delayed: parts.delayed.then_some(snapshot.delayed),
        dead: parts.dead.then_some(snapshot.dead),
        ..Purged::default()
    })
}

/// Begins a task that cancels the jobs and drops the letters that exist now. A job or a letter that Redis refuses stays, and stops
/// nothing.
///
/// # Errors
///
/// [`Error::Conflict`] if there are too many tasks; [`Error::Redis`].
pub async fn purge(
    queue: &Queue,
    actor: &Actor,
    input: &Purge,
    planned: &Purged,
) -> Result<Noted<TaskReport>, Error> {
    let states = input.parts.states();
    let selected = queue.bulk().select(BulkAction::Purge, Filter::new(), Some(&states)).await;
    let selection = selected.map_err(Error::redis("failed to read the clock of Redis"))?;
    let terms = BulkTerms::new(actor.name()).retention(input.retention);
    let action = actor.action(&QUEUES_PURGE).target(input.parts.flags()).count(planned.planned());
    start(queue, &Plan::Change(&selection, terms), &action).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_means_its_states_and_its_argument() {
        let parts = Parts { waiting: true, delayed: true, dead: true };
        assert_eq!(parts.flags(), "--waiting --delayed --dead");
        assert_eq!(parts.states(), [State::Waiting, State::Scheduled, State::Retrying, State::Dead]);
        let letters = Parts { dead: true, ..Parts::default() };
        assert!(letters.states() == [State::Dead] && !letters.is_empty() && Parts::default().is_empty());
    }
}
