//! Beginning and undoing tasks.

use fred::types::Value;

use super::registry::{MAX_TASKS, TaskError, Tasks};
use super::stored::{Change, Plan};
use super::task::{TaskAction, word};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::inspect::audit::{Action, Noted, call_name};
use crate::job::filter::Filter;
use crate::job::task::{ReplayRules, TaskState, check_rate};
use crate::job::{QueueName, State};
use crate::{BulkAction, BulkCursor, BulkSelection, BulkTerms, Queue, Selection};

scripts! { TASK_PUT "task_put" }

/// What a new task is, beside its plan.
struct New<'a> {
    id: &'a str,
    state: TaskState,
    cursor: String,
    rate: Option<f64>,
    is_replay: bool,
    /// Whether it makes room in Redis, so that even a full one must allow it.
    is_freeing: bool,
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
        let target = format!("{} from {to} back to {}", action.target, task.from);
        self.start_from(to, &selection, &terms, &action.clone().target(target)).await
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
            limit: selection.limit,
            rules: None,
            change: Some(change),
        };
        let cursor = BulkCursor::default().to_string();
        let (id, state) = (selection.id.as_str(), TaskState::Running);
        let is_freeing =
            matches!(selection.action, BulkAction::Cancel | BulkAction::Drop | BulkAction::Purge);
        let new = New { id, state, cursor, rate: terms.rate, is_replay: false, is_freeing };
        let begun = self.put(new, &plan, action).await?;
        let BulkAction::Move(to) = &selection.action else { return Ok(begun) };
        Ok(self.noted_there((from, to), action, begun).await)
    }

    /// Notes a move in the audit of the queue that is not the one of the task, too.
    async fn noted_there(
        self,
        (from, to): (&QueueName, &QueueName),
        action: &Action,
        begun: Noted<String>,
    ) -> Noted<String> {
        let own = self.queue.name();
        let (other, target) = if from == own {
            (to, format!("--from {from} {}", action.target))
        } else {
            (from, action.target.clone())
        };
        let outcome = format!("{} {} of the queue {own}", word(false), begun.value);
        let note = action.clone().target(target).outcome(outcome);
        let noted = self.queue.beside(other).audit().note(&note).await;
        Noted { unnoted: begun.unnoted.or(noted.err().map(|error| error.to_string())), value: begun.value }
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
            limit: selection.limit,
            rules: Some(rules),
            change: None,
        };
        let state = if rules.canary > 0 { TaskState::Canary } else { TaskState::Running };
        let (id, cursor) = (format!("{:08x}", rand::random::<u32>()), "0-0".to_owned());
        let new = New { id: &id, state, cursor, rate: None, is_replay: true, is_freeing: false };
        self.put(new, &plan, action).await
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
        let args = Vec::from(args![TASK_PUT;
            id = new.id,
            state = new.state.as_str(),
            plan = Value::Bytes(plan.into()),
            cursor = new.cursor,
            step_ms = new.rate.map(|rate| format!("{:.3}", 1000.0 / rate)).unwrap_or_default(),
            most = MAX_TASKS,
            is_freeing = if new.is_freeing { "1" } else { "0" },
            call = call_name(),
            action = Value::Bytes(action.pack().into()),
        ]);
        let keys = vec![index, key, own.audit.clone()];
        let answer = self.queue.run_named(&TASK_PUT, keys, args).await?;
        match answer.status {
            0 => Err(TaskError::TooMany),
            1 => Ok(Noted::read(new.id.to_owned(), answer.rest.first())),
            _ => Err(Error::contract("task_put", answer).into()),
        }
    }
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
