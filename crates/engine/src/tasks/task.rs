//! A task, as those see it who begin and watch it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::inspect::audit::Action;
use crate::job::filter::Filter;
use crate::job::task::{ReplayCounts, ReplayRules, TaskState};
use crate::job::{EntryId, QueueName, State, Timestamp};
use crate::{BulkAction, BulkCursor, BulkSelection, BulkTerms, Selection};

/// The cursor of a task that has come to the end of its jobs.
pub(super) const END: &str = "end";

/// What a task does.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskAction {
    /// Replays dead letters, and watches how their jobs end.
    Replay(ReplayRules),
    /// Changes jobs, or drops dead letters.
    Change(BulkAction),
}

impl TaskAction {
    /// Returns the kind of the task: `replay`, `drop`, `move`, `cancel`, `run-now` or `purge`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Replay(_) => "replay",
            Self::Change(action) => action.as_str(),
        }
    }
}

/// How far a task is. Each job counts once, whichever processes carried the task out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounts {
    /// How many jobs or letters it has looked at. One that was left alone at first and then changed counts twice.
    pub looked: u64,
    /// How many were replayed, dropped, moved, cancelled, or made due.
    pub done: u64,
    /// How many run and were asked to stop.
    pub requested: u64,
    /// How many that match were left alone, by the reason: the name of a [`KeptBack`](crate::KeptBack), or `skipped` for letters.
    pub kept: BTreeMap<String, u64>,
    /// How many Redis refused to change.
    pub failed: u64,
    /// How many nobody can judge, because their payload is too large or cannot be read.
    pub undecided: u64,
    /// The last error of a job, or of a part of the queue that cannot be read.
    pub error: Option<String>,
}

impl TaskCounts {
    /// Returns how many that match were left as they were.
    pub fn refused(&self) -> u64 {
        self.kept.values().sum::<u64>() + self.failed
    }

    /// Returns how many match of those that were looked at.
    pub fn matched(&self) -> u64 {
        self.done + self.requested + self.refused()
    }
}

/// A task; see the [example](crate::Tasks).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Task {
    /// Its id: eight hexadecimal digits.
    pub id: String,
    /// What it does.
    pub action: TaskAction,
    /// Where it is.
    pub state: TaskState,
    /// Why it is there, if it was paused or stopped, or has failed.
    pub state_why: String,
    /// Who began it.
    pub who: String,
    /// Why that person did.
    pub why: String,
    /// Which jobs or letters it is about.
    pub filter: Filter,
    /// Their states.
    pub states: Vec<State>,
    /// The queue that has them: that of the task, unless it undoes a move.
    pub from: QueueName,
    /// The move that it undoes, if it does.
    pub undoes: Option<String>,
    /// When its jobs were selected. Younger ones do not belong to it.
    pub bound: Timestamp,
    /// The newest letter at that time, if it is about letters. Later ones do not belong to it.
    pub last: Option<EntryId>,
    /// How many letters were wanted at most, the oldest ones.
    pub limit: Option<u64>,
    /// How many jobs it changes per second, at most.
    pub rate: Option<f64>,
    /// How many jobs or letters matched when it began, if they were counted.
    pub planned: Option<u64>,
    /// How many there were to look at.
    pub total: u64,
    /// How far it is.
    pub counts: TaskCounts,
    /// How its jobs have ended so far, if it replays letters.
    pub replay: Option<ReplayCounts>,
    /// When it began.
    pub begun: Timestamp,
    /// When its state last changed: when it ended, if it is over.
    pub changed: Timestamp,
    /// Where its next page begins.
    pub(super) cursor: String,
    /// The number of this page.
    pub(super) page: u64,
    /// How many jobs its rate allows by now.
    pub(super) allowed: u64,
    /// How long the records of jobs that it cancels are kept.
    pub(super) retention: Duration,
    /// The most jobs that the queue may have to which it moves jobs.
    pub(super) max_depth: Option<u64>,
}

impl Task {
    /// Returns how many of the jobs or letters that matched when it began it has not dealt with; `None` if they were not counted.
    pub fn left(&self) -> Option<u64> {
        if self.state == TaskState::Done {
            return Some(0);
        }
        Some(self.planned?.saturating_sub(self.counts.matched()))
    }

    /// Returns true if it has come to the end of its jobs or letters.
    pub fn is_read(&self) -> bool {
        match self.action {
            TaskAction::Replay(_) => self.last.is_none_or(|last| self.letter() >= last),
            TaskAction::Change(_) => self.cursor == END,
        }
    }

    /// The last letter that a replay has dealt with.
    pub(super) fn letter(&self) -> EntryId {
        self.cursor.parse().unwrap_or(EntryId::new(0, 0))
    }

    /// Where the next page of a change begins; `None` if the cursor is not one of this version.
    pub(super) fn position(&self) -> Option<BulkCursor> {
        self.cursor.parse().ok()
    }

    /// The jobs of a change.
    pub(super) fn selection(&self, action: &BulkAction) -> BulkSelection {
        BulkSelection {
            action: action.clone(),
            filter: self.filter.clone(),
            states: self.states.clone(),
            now: self.bound,
            last: self.last,
            limit: self.limit,
            id: self.id.clone(),
            marked_by: self.undoes.clone(),
        }
    }

    /// The letters of a replay.
    pub(super) fn letters(&self) -> Selection {
        let Self { filter, last, total, limit, bound: now, .. } = self;
        Selection { filter: filter.clone(), last: *last, total: *total, limit: *limit, now: *now }
    }

    pub(super) fn terms(&self) -> BulkTerms {
        BulkTerms::new(self.who.clone()).retention(self.retention).max_depth(self.max_depth)
    }

    /// What notes in the audit call it.
    pub(super) fn word(&self) -> &'static str {
        word(self.replay.is_some())
    }

    /// Adds to a note what became of its jobs so far.
    pub(super) fn outcome(&self, action: Action) -> Action {
        let TaskCounts { looked, done, requested, failed, undecided, .. } = self.counts;
        let Some(counts) = self.replay else {
            let kept: u64 = self.counts.kept.values().sum();
            return action.count(done + requested).outcome(format!(
                "{looked} looked at: {done} changed, {requested} asked to stop, {kept} left alone, {failed} failed, \
                 {undecided} cannot be judged"
            ));
        };
        let ReplayCounts { replayed, succeeded, died, died_otherwise, needs_decision, cancelled, skipped } =
            counts;
        let alive = counts.alive();
        action.count(replayed).outcome(format!(
            "{replayed} replayed: {succeeded} succeeded, {died} died of the same error, {died_otherwise} of another, \
             {needs_decision} need a decision, {cancelled} cancelled, {alive} still running; {skipped} skipped, {failed} failed"
        ))
    }
}

/// What the audit calls tasks that replay letters, or the others.
pub(super) fn word(is_replay: bool) -> &'static str {
    if is_replay { "campaign" } else { "task" }
}
