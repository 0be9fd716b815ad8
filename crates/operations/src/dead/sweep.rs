//! Replaying and dropping letters that are named. One script handles each letter, so two operations at once never replay a letter
//! twice. A letter that Redis refuses stays, and stops nothing.

use serde::Serialize;
use streamfleet::job::{DeadReason, JobId, QueueName};
use streamfleet::{Queue, RedisError, Shutdown};
use streamfleet_engine::admin::{DeadLetter, Noted, Replayed, TaskState};

use super::letter::{NOT_FOUND_OUT, found, gone, missing, replaced};
use crate::control::outcome;
use crate::tasks::TaskReport;
use crate::{Actor, DEAD_DROP, DEAD_REPLAY, Error};

/// The most refused letters that are named.
const MAX_ERRORS: usize = 5;

/// The most letters of which a report says what became of them.
const MAX_REMARKS: usize = 100;

/// What the audit says of a replay of all steps, before its letters.
pub(super) const ALL_STEPS: &str = "--steps all ";

/// What is done to each letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Its job goes back to its lane, with its counters at zero.
    Replay,
    /// Its job goes back to its lane with all its steps to run again, also those that are done and those of the kind `once`.
    ReplayAllSteps,
    /// It and its job are deleted for good.
    Drop,
}

/// What became of the letters.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Swept {
    /// The queue.
    pub queue: String,
    /// How many were replayed.
    pub replayed: u64,
    /// Those of the replayed with a step that waits for a decision of a person: until then, their jobs die again.
    pub needs_decision: u64,
    /// How many were dropped.
    pub dropped: u64,
    /// Letters that somebody else replayed or dropped meanwhile, and ids without a letter.
    pub gone: u64,
    /// Letters that were left alone because the filter cannot judge them: their payload is too large or unreadable.
    pub undecided: u64,
    /// Letters that Redis refused to replay or drop.
    pub failed: u64,
    /// Some of the errors with which it did.
    pub errors: Vec<String>,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// The task that did it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What became of letters that are gone.
    #[serde(skip)]
    pub remarks: Vec<String>,
    /// What ended it early.
    #[serde(skip)]
    pub failure: Option<Error>,
}

impl Swept {
    /// What becomes of no letters of a queue.
    pub fn of_none(queue: &QueueName) -> Self {
        Self { queue: queue.to_string(), ..Self::default() }
    }

    /// What a task has dropped so far.
    pub fn of_drop(task: &TaskReport) -> Self {
        Self {
            queue: task.queue.clone(),
            dropped: task.done,
            undecided: task.undecided,
            failed: task.failed,
            errors: task.error.iter().cloned().collect(),
            interrupted: task.task.state != TaskState::Done,
            task: Some(task.id.clone()),
            ..Self::default()
        }
    }

    /// How many letters were replayed or dropped.
    pub fn done(&self) -> u64 {
        self.replayed + self.dropped
    }

    /// Whether a letter was replayed or dropped, or may have been.
    fn has_changed(&self) -> bool {
        self.done() > 0 || self.failure.as_ref().is_some_and(Error::may_have_run)
    }

    /// A letter is gone.
    fn miss(&mut self, remark: String) {
        self.gone += 1;
        if self.remarks.len() < MAX_REMARKS {
            self.remarks.push(remark);
        }
    }

    /// A letter was refused.
    fn fail(&mut self, named: &str, error: &RedisError) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(format!("{named}: {error}"));
        }
    }
}

/// Replays or drops the letters with these ids, or of the jobs with these ids, and notes what was done, if anything was. If something
/// ends it early, the report says so.
pub async fn sweep(queue: &Queue, actor: &Actor, way: Sweep, ids: &[JobId], stop: &Shutdown) -> Noted<Swept> {
    let operation = if way == Sweep::Drop { &DEAD_DROP } else { &DEAD_REPLAY };
    let mut action = actor.action(operation).ids(ids);
    if way == Sweep::ReplayAllSteps {
        action.target.insert_str(0, ALL_STEPS);
    }
    let mut sweeper = Sweeper { queue, way, swept: Swept::of_none(queue.name()) };
    let done = sweeper.named(ids, stop).await;
    let swept = Swept { failure: done.err(), ..sweeper.swept };
    if !swept.has_changed() {
        return Noted::of_nothing(swept);
    }
    let action = action.count(swept.done()).outcome(outcome(swept.failure.as_ref(), swept.interrupted));
    queue.audit().noted(&action, swept).await
}

struct Sweeper<'a> {
    queue: &'a Queue,
    way: Sweep,
    swept: Swept,
}

impl Sweeper<'_> {
    async fn named(&mut self, ids: &[JobId], stop: &Shutdown) -> Result<(), Error> {
        for id in ids {
            self.swept.interrupted = stop.is_requested();
            if self.swept.interrupted {
                return Ok(());
            }
            match found(self.queue.dead_letters().bare(), self.queue, id).await {
                Ok(Some(letter)) => self.letter(&letter).await?,
                Ok(None) => self.missing(id).await.map_err(Error::redis(NOT_FOUND_OUT))?,
                Err(error) if is_of_one(&error) => self.swept.fail(&id.to_string(), &error),
                Err(error) => return Err(Error::redis(NOT_FOUND_OUT)(error)),
            }
        }
        Ok(())
    }

    /// A letter that was named is not there. Dropping it takes back what it held if somebody deleted it by hand.
    async fn missing(&mut self, id: &JobId) -> Result<(), RedisError> {
        if self.way == Sweep::Drop
            && let Some(letter) = self.queue.status(id).await?.and_then(|status| status.dead)
            && self.queue.dead_letters().forget(letter, id).await?
        {
            self.swept.dropped += 1;
        } else {
            self.swept.miss(missing(self.queue, id).await?);
        }
        Ok(())
    }

    async fn letter(&mut self, letter: &DeadLetter) -> Result<(), Error> {
        match apply(self.queue, self.way, letter).await {
            Ok(Some(remark)) => self.swept.miss(remark),
            Ok(None) if self.way == Sweep::Drop => self.swept.dropped += 1,
            Ok(None) => {
                self.swept.replayed += 1;
                self.swept.needs_decision += u64::from(self.way == Sweep::Replay && needs_decision(letter));
            }
            Err(error) => {
                let named = format!("the dead letter {} of the job {}", letter.entry, letter.job());
                if !is_of_one(&error) {
                    let what = format!("after {} replayed or dropped: {named}", self.swept.done());
                    return Err(Error::redis(what)(error));
                }
                self.swept.fail(&named, &error);
            }
        }
        Ok(())
    }
}

/// Returns true if Redis may refuse this letter alone, for example because the record of its job has another type.
fn is_of_one(error: &RedisError) -> bool {
    matches!(error, RedisError::Refused { .. }) && !error.is_transient()
}

/// Whether somebody has to decide about a step of the job before a replay can finish it.
fn needs_decision(letter: &DeadLetter) -> bool {
    letter.text("dead_reason") == DeadReason::NeedsDecision.as_str()
}

/// Does it. Returns what became of the letter if it no longer existed.
async fn apply(queue: &Queue, way: Sweep, letter: &DeadLetter) -> Result<Option<String>, RedisError> {
    let (dead, entry, job) = (queue.dead_letters(), letter.entry, letter.job());
    let replayed = match way {
        Sweep::Replay => dead.replay(entry, &job).await?,
        Sweep::ReplayAllSteps => dead.replay_all_steps(entry, &job).await?,
        Sweep::Drop => {
            let is_dropped = dead.drop(entry, &job).await?;
            let remark =
                || format!("somebody else replayed, edited or dropped the dead letter {entry} meanwhile");
            return Ok((!is_dropped).then(remark));
        }
    };
    Ok(match replayed {
        Replayed::As(_) => None,
        Replayed::Edited(edited) => Some(replaced(queue, &job, edited).await?),
        Replayed::Gone(state) => Some(gone(queue, &job, state)),
    })
}
