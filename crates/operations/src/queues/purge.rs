//! Emptying a queue: its waiting and delayed jobs are cancelled, its dead letters are dropped.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::State;
use streamfleet_engine::admin::{Filter, Noted};

use crate::control::outcome;
use crate::dead::drop_selected;
use crate::jobs::bulk::{self, Bulk, BulkReport, Change};
use crate::{Actor, Control, Error, QUEUES_PURGE};

/// What to empty, and how.
#[derive(Debug, Clone, Copy)]
pub struct Purge {
    /// What to empty.
    pub parts: Parts,
    /// Count what would be emptied, and change nothing.
    pub dry_run: bool,
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

    /// The states of the jobs to cancel.
    fn states(self) -> Vec<State> {
        let waiting = self.waiting.then_some(State::Waiting);
        let delayed = [State::Scheduled, State::Retrying].into_iter().filter(|_| self.delayed);
        waiting.into_iter().chain(delayed).collect()
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
    /// Whether nothing was to be changed.
    pub dry_run: bool,
    /// How many waiting jobs there were; `null` if they are not emptied.
    pub waiting: Option<u64>,
    /// How many delayed jobs there were; `null` if they are not emptied.
    pub delayed: Option<u64>,
    /// How many dead letters there were; `null` if they are not emptied.
    pub dead: Option<u64>,
    /// How many jobs were cancelled.
    pub cancelled: u64,
    /// How many letters were dropped.
    pub dropped: u64,
    /// How many jobs and letters had gone by themselves.
    pub gone: u64,
    /// How many jobs and letters Redis refused to change.
    pub failed: u64,
    /// Some of the errors with which it did.
    pub errors: Vec<String>,
    /// Parts of the queue that cannot be read, and why.
    pub unread: Vec<String>,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// What ended it early.
    #[serde(skip)]
    pub failure: Option<Error>,
}

impl Purged {
    /// How many jobs and letters there were.
    pub fn planned(&self) -> u64 {
        [self.waiting, self.delayed, self.dead].into_iter().flatten().sum()
    }

    /// How many jobs and letters are no longer there.
    fn done(&self) -> u64 {
        self.cancelled + self.dropped
    }

    /// Returns true if nothing is left of what existed when it began.
    pub fn is_complete(&self) -> bool {
        !self.interrupted && self.failure.is_none() && self.failed == 0 && self.unread.is_empty()
    }

    fn take_cancelled(&mut self, report: BulkReport) -> Result<(), Error> {
        (self.cancelled, self.gone) = (report.changed + report.requested, report.gone);
        (self.failed, self.errors, self.unread) = (report.failed, report.errors, report.unread);
        self.interrupted = report.interrupted;
        report.failure.map_or(Ok(()), Err)
    }
}

/// Cancels the jobs and drops the letters that exist now. A job or a letter that Redis refuses stays, and stops nothing. If
/// something ends it early, the report says what was done, and why it ended.
///
/// # Errors
///
/// [`Error::Invalid`] if no part is named; [`Error::Redis`] if the jobs cannot be counted beforehand.
pub async fn purge(
    queue: &Queue,
    actor: &Actor,
    input: &Purge,
    control: Control<'_>,
) -> Result<Noted<Purged>, Error> {
    if input.parts.is_empty() {
        return Err(Error::invalid("body", "say what to empty: waiting, delayed or dead"));
    }
    let mut purged = plan(queue, input).await?;
    if !input.dry_run {
        purged.failure = empty(queue, actor, input, control, &mut purged).await.err();
    }
    if purged.done() == 0 && !purged.failure.as_ref().is_some_and(Error::may_have_run) {
        return Ok(Noted::of_nothing(purged));
    }
    let action = actor.action(&QUEUES_PURGE).target(input.parts.flags()).count(purged.done());
    let action = action.outcome(outcome(purged.failure.as_ref(), purged.interrupted));
    Ok(queue.audit().noted(&action, purged).await)
}

async fn plan(queue: &Queue, Purge { parts, dry_run, .. }: &Purge) -> Result<Purged, Error> {
    let snapshot = queue.snapshot().await.map_err(Error::redis("failed to count the jobs"))?;
    Ok(Purged {
        queue: queue.name().to_string(),
        dry_run: *dry_run,
        waiting: parts.waiting.then(|| snapshot.waiting()),
        delayed: parts.delayed.then_some(snapshot.delayed),
        dead: parts.dead.then_some(snapshot.dead),
        ..Purged::default()
    })
}

async fn empty(
    queue: &Queue,
    actor: &Actor,
    input: &Purge,
    control: Control<'_>,
    purged: &mut Purged,
) -> Result<(), Error> {
    cancel(queue, actor, input, control, purged).await?;
    if !input.parts.dead || purged.interrupted {
        return Ok(());
    }
    let selected = queue.dead_letters().select(Filter::new()).await;
    let selection = selected.map_err(Error::redis("failed to read the dead letters"))?;
    let before = purged.cancelled + purged.gone;
    let progress = |read: u64| (control.progress)(before + read);
    let swept = drop_selected(queue, selection, Control { progress: &progress, ..control }).await;
    (purged.dropped, purged.interrupted) = (swept.dropped, swept.interrupted);
    (purged.gone, purged.failed) = (purged.gone + swept.gone, purged.failed + swept.failed);
    purged.errors.extend(swept.errors);
    swept.failure.map_or(Ok(()), Err)
}

/// Cancels the jobs of the parts that are meant.
async fn cancel(
    queue: &Queue,
    actor: &Actor,
    Purge { parts, retention, .. }: &Purge,
    control: Control<'_>,
    purged: &mut Purged,
) -> Result<(), Error> {
    let states = parts.states();
    if states.is_empty() {
        return Ok(());
    }
    let input = Bulk {
        change: Change::Cancel,
        filter: Filter::new(),
        all: true,
        states,
        retention: *retention,
        max_depth: None,
        is_sure: false,
    };
    let selected = bulk::select(queue, &input).await?;
    purged.take_cancelled(bulk::walk(queue, actor, &input, selected, control).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_means_its_states_and_its_argument() {
        let parts = Parts { waiting: true, delayed: true, dead: true };
        assert_eq!(parts.flags(), "--waiting --delayed --dead");
        assert_eq!(parts.states(), [State::Waiting, State::Scheduled, State::Retrying]);
        let letters = Parts { dead: true, ..Parts::default() };
        assert!(letters.states().is_empty() && !letters.is_empty() && Parts::default().is_empty());
    }
}
