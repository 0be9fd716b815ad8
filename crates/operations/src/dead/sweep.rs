//! Replaying and dropping letters: those that are named, or those of a selection. One script handles each letter, so two
//! operations at once never replay a letter twice. A letter that Redis refuses stays, and stops nothing.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use streamfleet::job::{DeadReason, JobId, QueueName};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{Action, DeadLetter, Noted, Replayed, Selection, TaskState};

use super::letter::{NOT_FOUND_OUT, found, gone, missing, replaced};
use crate::control::outcome;
use crate::tasks::TaskReport;
use crate::{Actor, Control, DEAD_DROP, DEAD_REPLAY, Error};

/// How many scripts are in flight at once.
const AT_ONCE: usize = 32;

/// The most refused letters that are named.
const MAX_ERRORS: usize = 5;

/// The most letters of which a report says what became of them.
const MAX_REMARKS: usize = 100;

/// If a page has at least this many letters, and Redis refuses all of them, the operation ends.
const HOPELESS: usize = 20;

/// Which letters are replayed or dropped.
#[derive(Debug, Clone)]
pub enum Letters {
    /// Those with these ids, or of the jobs with these ids.
    Named(Vec<JobId>),
    /// Those of a selection, oldest first.
    Selected {
        /// The letters that existed when somebody wanted this.
        selection: Selection,
        /// How many of them, at most. Letters that are gone meanwhile do not count.
        limit: Option<u64>,
    },
}

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

    /// How many letters were still there, and count for a limit.
    fn tried(&self) -> u64 {
        self.done() + self.failed
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

/// Replays or drops letters, and notes what was done, if anything was. If something ends it early, the report says so.
pub async fn sweep(
    queue: &Queue,
    actor: &Actor,
    way: Sweep,
    letters: &Letters,
    control: Control<'_>,
) -> Noted<Swept> {
    let operation = if way == Sweep::Drop { &DEAD_DROP } else { &DEAD_REPLAY };
    let action = actor.action(operation);
    let mut action = match letters {
        Letters::Named(ids) => action.ids(ids),
        Letters::Selected { selection, limit } => target(action, selection, *limit),
    };
    if way == Sweep::ReplayAllSteps {
        action.target.insert_str(0, "--steps all ");
    }
    let swept = carry_out(queue, way, letters, control).await;
    if !swept.has_changed() {
        return Noted::of_nothing(swept);
    }
    let action = action.count(swept.done()).outcome(outcome(swept.failure.as_ref(), swept.interrupted));
    queue.audit().noted(&action, swept).await
}

/// Adds to an action which letters it is about.
pub(super) fn target(action: Action, selection: &Selection, limit: Option<u64>) -> Action {
    let filter = selection.filter.to_string();
    let filter = if filter.is_empty() { "--all".to_owned() } else { filter };
    let limit = limit.map_or_else(String::new, |limit| format!(" --limit {limit}"));
    action.target(filter + &limit)
}

async fn carry_out(queue: &Queue, way: Sweep, letters: &Letters, control: Control<'_>) -> Swept {
    let swept = Swept::of_none(queue.name());
    let mut sweeper = Sweeper { queue, way, control, swept };
    let done = match letters {
        Letters::Named(ids) => sweeper.named(ids).await,
        Letters::Selected { selection, limit } => {
            sweeper.selected(selection, limit.unwrap_or(u64::MAX)).await
        }
    };
    Swept { failure: done.err(), ..sweeper.swept }
}

struct Sweeper<'a> {
    queue: &'a Queue,
    way: Sweep,
    control: Control<'a>,
    swept: Swept,
}

impl Sweeper<'_> {
    async fn named(&mut self, ids: &[JobId]) -> Result<(), Error> {
        for (nth, id) in ids.iter().enumerate() {
            if self.is_stopped() {
                return Ok(());
            }
            match found(self.queue.dead_letters().bare(), self.queue, id).await {
                Ok(Some(letter)) => self.letters(&[letter]).await?,
                Ok(None) => self.missing(id).await.map_err(Error::redis(NOT_FOUND_OUT))?,
                Err(error) if is_of_one(&error) => self.swept.fail(&id.to_string(), &error),
                Err(error) => return Err(Error::redis(NOT_FOUND_OUT)(error)),
            }
            (self.control.progress)(nth as u64 + 1);
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

    async fn selected(&mut self, selection: &Selection, most: u64) -> Result<(), Error> {
        let (dead, mut after, mut read) = (self.queue.dead_letters().bare(), None, 0);
        while !self.is_stopped() {
            let page = dead.selected(selection, after).await;
            let page = page.map_err(Error::redis("failed to read the dead letters"))?;
            self.swept.undecided += page.undecided;
            let (mut letters, left) = (page.letters, most.saturating_sub(self.swept.tried()));
            letters.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            self.letters(&letters).await?;
            read += page.read;
            (self.control.progress)(read);
            after = page.next.filter(|_| self.swept.tried() < most);
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Whether somebody wants it to end; notes that.
    fn is_stopped(&mut self) -> bool {
        self.swept.interrupted = self.control.stop.is_requested();
        self.swept.interrupted
    }

    async fn letters(&mut self, letters: &[DeadLetter]) -> Result<(), Error> {
        let (queue, way) = (self.queue, self.way);
        let (mut left, mut running) = (letters.iter(), FuturesUnordered::new());
        let (mut refused, mut failure) = (0, None);
        loop {
            while failure.is_none()
                && running.len() < AT_ONCE
                && let Some(letter) = left.next()
            {
                running.push(async move { (letter, apply(queue, way, letter).await) });
            }
            // Also after an error: what is under way may be done, and must be counted.
            let Some((letter, done)) = running.next().await else { break };
            match done {
                Ok(Some(remark)) => self.swept.miss(remark),
                Ok(None) if way == Sweep::Drop => self.swept.dropped += 1,
                Ok(None) => {
                    self.swept.replayed += 1;
                    self.swept.needs_decision += u64::from(way == Sweep::Replay && needs_decision(letter));
                }
                Err(error) => {
                    let named = format!("the dead letter {} of the job {}", letter.entry, letter.job());
                    let goes_on = is_of_one(&error);
                    if goes_on {
                        self.swept.fail(&named, &error);
                        refused += 1;
                    }
                    // Nothing suggests that the letters of further pages will fare better.
                    let is_hopeless = refused == letters.len() && refused >= HOPELESS;
                    if !goes_on || is_hopeless {
                        failure.get_or_insert((named, error));
                    }
                }
            }
        }
        let Some((named, error)) = failure else { return Ok(()) };
        let what = format!("after {} replayed or dropped: {named}", self.swept.done());
        Err(Error::redis(what)(error))
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
