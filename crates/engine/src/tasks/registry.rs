//! Reading, pausing and ending tasks.

use std::time::Duration;

use fred::types::{Key, Value};

use super::advance::Advance;
use super::stored::{Unreadable, fields};
use super::task::{Task, TaskAction, word};
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::inspect::audit::{Action, Noted, call_name};
use crate::job::cut;
use crate::job::task::TaskState;
use crate::{BulkError, Queue, bytes, millis};

scripts! { TASK_READ "task_read", TASK_SET "task_set" }

/// The most tasks of a queue that are known at a time: as many that replay letters, and as many others. Those that are over make room
/// for new ones.
pub(super) const MAX_TASKS: i64 = 200;

/// The most bytes of what is kept about why a task is paused or stopped.
const MAX_WHY_BYTES: usize = 500;

/// How long a task that is over is kept.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Why a task does not begin or change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// There is no letter to replay.
    #[error("there are no dead letters to replay")]
    NoLetters,
    /// There are too many tasks that are not over.
    #[error("the queue already has {max} tasks that are not over", max = MAX_TASKS)]
    TooMany,
    /// Its rules have a number that is no rate or no share.
    #[error("a task cannot follow these rules: {0}")]
    Rules(&'static str),
    /// Its selection cannot be stored.
    #[error("the plan of the task cannot be stored: {0}")]
    Plan(String),
    /// There is none with this id.
    #[error("there is no such task")]
    Unknown,
    /// It is in a state that does not allow this.
    #[error("the task is {}", .0.as_str())]
    State(TaskState),
    /// What it did cannot be undone.
    #[error("only a move can be undone, not a task of the kind {0}")]
    NotUndoable(&'static str),
    /// It cannot be done.
    #[error(transparent)]
    Change(BulkError),
    /// Redis does not answer or refuses.
    #[error(transparent)]
    Redis(#[from] Error),
}

impl From<BulkError> for TaskError {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Redis(error) => Self::Redis(error),
            BulkError::SameQueue(_) | BulkError::OtherSlot { .. } => Self::Change(error),
        }
    }
}

/// The tasks of a queue: work on many jobs or dead letters that the fleet carries out. [`Queue::tasks`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::admin::{Action, BulkAction, BulkTerms, Filter};
///
/// let to = BulkAction::Move("bulk".parse()?);
/// let selection = queue.bulk().select(to, Filter::new().job_type("report.*")?, None).await?;
/// let ann = Action::new("move", "ann").why("they delay the others");
/// let terms = BulkTerms::new("ann").rate(500.0);
/// let id = queue.tasks().start(&selection, &terms, &ann).await?.value;
///
/// let task = queue.tasks().get(&id).await?.ok_or("it was just begun")?;
/// println!("{}: {} of {} looked at, {} moved", task.id, task.counts.looked, task.total, task.counts.done);
///
/// queue.tasks().stop(&id, &ann).await?;
/// let back = queue.tasks().undo(&id, &ann).await?.value;
/// println!("the task {back} moves them back");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct Tasks<'a> {
    pub(super) queue: &'a Queue,
}

impl Queue {
    /// Gives access to the tasks: what the fleet does to many jobs or dead letters.
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { queue: self }
    }
}

impl Tasks<'_> {
    /// Returns one task; `None` if there is none with this id, or it was over 30 days ago.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or this version cannot read the task.
    pub async fn get(self, id: &str) -> Result<Option<Task>, Error> {
        self.find(id).await?.transpose().map_err(|_| unreadable())
    }

    /// Returns one task, or why it cannot be read; `None` if there is none with this id.
    pub(super) async fn find(self, id: &str) -> Result<Option<Result<Task, Unreadable>>, Error> {
        let keys = self.both_keys(id).to_vec();
        let names = fields().map(Value::from).collect();
        let answer = self.queue.run(&TASK_READ, keys, names).await?;
        let (Some(Value::Array(fields)), Some(now_ms)) =
            (answer.rest.first(), answer.rest.get(1).and_then(decode::number))
        else {
            return Err(Error::contract("task_read", answer));
        };
        if fields.is_empty() {
            return Ok(None);
        }
        Ok(Some(Task::read(id, self.queue.name(), &decode::envelope(fields), now_ms)))
    }

    /// The key of a task if it replays letters, and if it does not.
    fn both_keys(self, id: &str) -> [Key; 2] {
        [self.queue.keys.campaign(id), self.queue.keys.task(id)]
    }

    /// Pauses a task. What it has changed stays as it is, and jobs that it has replayed go on.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if it is unknown or over, or Redis does not answer.
    pub async fn pause(self, id: &str, action: &Action) -> Result<Noted<()>, TaskError> {
        let from = [TaskState::Canary, TaskState::Running];
        let (word, why) = (self.word(id).await?, reason("paused", action));
        self.set((word, id), &from, (TaskState::Paused, &why), Some(action)).await
    }

    /// What the audit calls this task.
    async fn word(self, id: &str) -> Result<&'static str, Error> {
        let known = self.find(id).await?;
        Ok(word(known.is_some_and(|found| found.is_ok_and(|task| task.replay.is_some()))))
    }

    /// Continues a task that was paused.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if it is unknown or not paused, or Redis does not answer.
    pub async fn resume(self, id: &str, action: &Action) -> Result<Noted<()>, TaskError> {
        let task = self.get(id).await?.ok_or(TaskError::Unknown)?;
        let is_tried = match (&task.action, task.replay) {
            (TaskAction::Replay(rules), Some(counts)) => counts.succeeded >= rules.canary,
            (TaskAction::Replay(_), None) | (TaskAction::Change(_), _) => true,
        };
        let to = if is_tried { TaskState::Running } else { TaskState::Canary };
        self.set((task.word(), id), &[TaskState::Paused], (to, ""), Some(action)).await
    }

    /// Stops a task for good. What it has changed stays as it is, and jobs that it has replayed go on.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if it is unknown or over, or Redis does not answer.
    pub async fn stop(self, id: &str, action: &Action) -> Result<Noted<()>, TaskError> {
        let from = [TaskState::Canary, TaskState::Running, TaskState::Paused];
        // One that cannot be read can be stopped all the same.
        let found = self.get(id).await.ok().flatten();
        let word = found.as_ref().map_or_else(|| word(false), Task::word);
        let noted = found.map_or_else(|| action.clone(), |found| found.outcome(action.clone()));
        let why = reason("stopped", action);
        self.set((word, id), &from, (TaskState::Stopped, &why), Some(&noted)).await
    }

    /// Moves a task to another state. `word`: what the audit calls it.
    pub(super) async fn set(
        self,
        (word, id): (&str, &str),
        from: &[TaskState],
        (to, why): (TaskState, &str),
        action: Option<&Action>,
    ) -> Result<Noted<()>, TaskError> {
        let (own, [campaign, task]) = (&self.queue.keys, self.both_keys(id));
        let keys = vec![own.campaigns.clone(), campaign, own.tasks.clone(), task, own.audit.clone()];
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        let note = action.map(|action| action.clone().target(format!("{word} {id}")).pack());
        let args = Vec::from(args![TASK_SET;
            id,
            from = from.join(" "),
            to = to.as_str(),
            why = bytes(why.as_bytes()),
            is_over = if to.is_over() { "1" } else { "0" },
            keep_ms = millis(RETENTION),
            call = call_name(),
            action = bytes(&note.unwrap_or_default()),
        ]);
        let answer = self.queue.run_named(&TASK_SET, keys, args).await?;
        let found = answer.rest.first().and_then(|state| TaskState::named(&decode::text(state)));
        match (answer.status, found) {
            (1, _) => Ok(Noted::read((), answer.rest.first())),
            // An earlier call did it, whose answer was lost.
            (0, Some(found)) if found == to => Ok(Noted::read((), None)),
            (0, Some(found)) => Err(TaskError::State(found)),
            (0, None) => Err(TaskError::Unknown),
            _ => Err(Error::contract("task_set", answer).into()),
        }
    }
}

/// What a change of a task's state led to, if nobody was faster.
pub(super) fn noted(
    id: &str,
    moved: Result<Noted<()>, TaskError>,
    led_to: Advance,
) -> Result<Advance, Error> {
    match moved {
        Ok(Noted { unnoted, .. }) => {
            if let Some(why) = unnoted {
                tracing::warn!(task = id, why, "the end of a task is not noted in the audit");
            }
            Ok(led_to)
        }
        Err(TaskError::Redis(error)) => Err(error),
        // A person was faster.
        Err(_) => Ok(Advance::Later),
    }
}

/// The error about a task that cannot be read.
pub(super) fn unreadable() -> Error {
    Error::contract("task_read", "a task that this version cannot read")
}

/// Who paused or stopped a task, and why.
fn reason(what: &str, action: &Action) -> String {
    let why = if action.why.is_empty() { String::new() } else { format!(": {}", action.why) };
    cut(format!("{what} by {}{why}", action.who), MAX_WHY_BYTES)
}
