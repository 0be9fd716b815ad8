//! Beginning, reading, pausing and ending tasks.

use std::time::Duration;

use fred::types::{Key, Value};

use super::advance::Advance;
use super::task::{Change, Plan, Task, TaskAction, Unreadable, fields, word};
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::scripts;
use crate::inspect::audit::{Action, Noted, call_name};
use crate::job::filter::Filter;
use crate::job::task::{ReplayRules, TaskState, check_rate};
use crate::job::{QueueName, State, cut};
use crate::{BulkAction, BulkCursor, BulkError, BulkSelection, BulkTerms, Queue, Selection, bytes, millis};

scripts! { TASK_PUT "task_put", TASK_READ "task_read", TASK_SET "task_set" }

/// The most tasks of a queue that are known at a time: as many that replay letters, and as many others. Those that are over make room
/// for new ones.
const MAX_TASKS: i64 = 200;

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

/// What a new task is, beside its plan.
struct New<'a> {
    id: &'a str,
    state: TaskState,
    cursor: String,
    rate: Option<f64>,
    is_replay: bool,
}

impl Tasks<'_> {
    /// Begins a task that does this to the jobs or letters of a selection, and returns its id. It is the one of the selection: the
    /// same selection begins one task only, however often this is called. `action` says who wants it and why, and how many match,
    /// if that is known. That person is noted in the records of the jobs, in place of the one of the terms.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if it cannot be done, its rate or its filter are unusable, there are too many tasks, or Redis does not answer.
    pub async fn start(
        self,
        selection: &BulkSelection,
        terms: &BulkTerms,
        action: &Action,
    ) -> Result<Noted<String>, TaskError> {
        self.start_from(self.queue.name(), selection, terms, action).await
    }

    /// Begins a task that moves back what a task has moved and what still waits or is due later in the other queue, and returns its
    /// id. It is a task of the same queue, and ends with what it finds: jobs that run or have ended, that were moved on, or that have
    /// [a reason to stay](crate::KeptBack), stay. Nothing but a move can be undone, and no job is moved back that is not there
    /// any more. A few jobs cannot be recognized: delayed ones whose fields are not only texts, or are too many for a mark.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if there is no such task, it is not a move or not over, or Redis does not answer.
    pub async fn undo(self, id: &str, action: &Action) -> Result<Noted<String>, TaskError> {
        let task = self.get(id).await?.ok_or(TaskError::Unknown)?;
        let TaskAction::Change(BulkAction::Move(to)) = &task.action else {
            return Err(TaskError::NotUndoable(task.action.kind()));
        };
        if !task.state.is_over() {
            return Err(TaskError::State(task.state));
        }
        let (there, back) = (self.queue.beside(to), BulkAction::Move(task.from.clone()));
        let mut selection = there.bulk().select(back, Filter::new(), None).await?;
        selection.marked_by = Some(task.id.clone());
        let terms = BulkTerms::new(action.who.clone()).rate(task.rate);
        self.start_from(to, &selection, &terms, action).await
    }

    /// Begins a task about jobs of the queue `from`.
    async fn start_from(
        self,
        from: &QueueName,
        selection: &BulkSelection,
        terms: &BulkTerms,
        action: &Action,
    ) -> Result<Noted<String>, TaskError> {
        terms.rate.map_or(Ok(()), check_rate).map_err(TaskError::Rules)?;
        let queue = self.queue.beside(from);
        queue.bulk().check(&selection.action)?;
        let to = match &selection.action {
            BulkAction::Move(to) => Some(to.to_string()),
            BulkAction::Cancel | BulkAction::RunNow | BulkAction::Drop | BulkAction::Purge => None,
        };
        let change = Change {
            kind: selection.action.as_str().to_owned(),
            from: from.to_string(),
            to,
            undoes: selection.marked_by.clone(),
            states: selection.states.iter().map(State::to_string).collect(),
            retention_ms: u64::try_from(terms.retention.as_millis()).unwrap_or(u64::MAX),
            max_depth: terms.max_depth,
            rate: terms.rate,
        };
        let plan = Plan {
            filter: selection.filter.clone(),
            who: action.who.clone(),
            why: action.why.clone(),
            planned: action.count,
            total: total(&queue, &selection.states).await?,
            last: selection.last.map(|last| last.to_string()).unwrap_or_default(),
            now_ms: selection.now.as_ms(),
            rules: None,
            change: Some(change),
        };
        let cursor = BulkCursor::default().to_string();
        let (id, state) = (selection.id.as_str(), TaskState::Running);
        self.put(New { id, state, cursor, rate: terms.rate, is_replay: false }, &plan, action).await
    }

    /// Begins a task that replays the letters of a selection, and returns its id. `action` says who wants it and why, and how many
    /// letters match, if that is known.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if there are no letters or too many tasks, its rules or its filter are unusable, or Redis does not answer.
    pub async fn start_replay(
        self,
        selection: &Selection,
        rules: ReplayRules,
        action: &Action,
    ) -> Result<Noted<String>, TaskError> {
        let last = selection.last.ok_or(TaskError::NoLetters)?;
        rules.check().map_err(TaskError::Rules)?;
        let plan = Plan {
            filter: selection.filter.clone(),
            who: action.who.clone(),
            why: action.why.clone(),
            planned: action.count,
            total: selection.total,
            last: last.to_string(),
            now_ms: selection.now.as_ms(),
            rules: Some(rules),
            change: None,
        };
        let state = if rules.canary > 0 { TaskState::Canary } else { TaskState::Running };
        let (id, cursor) = (format!("{:08x}", rand::random::<u32>()), "0-0".to_owned());
        self.put(New { id: &id, state, cursor, rate: None, is_replay: true }, &plan, action).await
    }

    async fn put(self, new: New<'_>, plan: &Plan, action: &Action) -> Result<Noted<String>, TaskError> {
        let plan = plan.pack().map_err(|error| TaskError::Plan(error.to_string()))?;
        let action = action.clone().outcome(format!("{} {}", word(new.is_replay), new.id));
        let own = &self.queue.keys;
        let [index, key] = if new.is_replay {
            [own.campaigns.clone(), own.campaign(new.id)]
        } else {
            [own.tasks.clone(), own.task(new.id)]
        };
        let step = new.rate.map(|rate| format!("{:.3}", 1000.0 / rate)).unwrap_or_default();
        let args = vec![
            new.id.into(),
            new.state.as_str().into(),
            Value::Bytes(plan.into()),
            new.cursor.into(),
            step.into(),
            MAX_TASKS.into(),
            call_name(),
            Value::Bytes(action.pack().into()),
        ];
        let keys = vec![index, key, own.audit.clone()];
        let answer = self.queue.run_named(&TASK_PUT, keys, args).await?;
        match answer.status {
            0 => Err(TaskError::TooMany),
            1 => Ok(Noted::read(new.id.to_owned(), answer.rest.first())),
            _ => Err(Error::contract("task_put", answer).into()),
        }
    }

    /// Returns one task; `None` if there is none with this id, or it was over 30 days ago.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or this version cannot read the task.
    pub async fn get(self, id: &str) -> Result<Option<Task>, Error> {
        self.find(id).await?.transpose().map_err(|_| unreadable())
    }

    /// Does the same, and says why a task cannot be read.
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
        let args = vec![
            id.into(),
            from.join(" ").into(),
            to.as_str().into(),
            bytes(why.as_bytes()),
            if to.is_over() { "1" } else { "0" }.into(),
            millis(RETENTION),
            call_name(),
            note.map_or_else(|| "".into(), |note| Value::Bytes(note.into())),
        ];
        let answer = self.queue.run_named(&TASK_SET, keys, args).await?;
        let found = answer.rest.first().map(decode::text).unwrap_or_default();
        let found = TaskState::ALL.into_iter().find(|state| state.as_str() == found);
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

/// How many jobs and letters of a queue are in these states.
async fn total(queue: &Queue, states: &[State]) -> Result<u64, Error> {
    let snapshot = queue.snapshot().await?;
    let has = |state| states.contains(&state);
    let counts = [
        (has(State::Waiting), snapshot.waiting()),
        (has(State::Running), snapshot.running()),
        (has(State::Scheduled) || has(State::Retrying), snapshot.delayed),
        (has(State::Dead), snapshot.dead),
    ];
    Ok(counts.into_iter().filter(|(is_meant, _)| *is_meant).map(|(_, count)| count).sum())
}

/// Who paused or stopped a task, and why.
fn reason(what: &str, action: &Action) -> String {
    let why = if action.why.is_empty() { String::new() } else { format!(": {}", action.why) };
    cut(format!("{what} by {}{why}", action.who), MAX_WHY_BYTES)
}
