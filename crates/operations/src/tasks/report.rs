//! A task, as those see it who watch it.

use std::collections::BTreeMap;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin::{BulkAction, Filter, ReplayCounts, ReplayRules, Task, TaskAction, TaskState};

use crate::times::rfc3339;

/// A task.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = Task)]
#[non_exhaustive]
pub struct TaskReport {
    /// Its id.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// What it does: `replay`, `drop`, `move`, `cancel`, `run-now` or `purge`.
    pub kind: &'static str,
    /// `canary` while the first jobs of a replay run, `running`, `paused`, `stopped`, `failed` or `done`.
    pub state: &'static str,
    /// Why it was paused or stopped, or has failed.
    pub why: String,
    /// Which jobs or dead letters it is about, as the command names them.
    pub filter: String,
    /// Their states.
    pub states: Vec<&'static str>,
    /// The queue that has them: another one if it undoes a move.
    pub from: String,
    /// The queue that gets the jobs, if it moves them.
    pub to: Option<String>,
    /// The id of the move that it undoes, if it does.
    pub undoes: Option<String>,
    /// Who began it.
    pub who: String,
    /// Why that person did.
    pub reason: String,
    /// When it began.
    pub created: String,
    /// When it began, in milliseconds since 1970.
    pub created_ms: u64,
    /// When its state last changed: when it ended, if it is over.
    pub changed: String,
    /// When its state last changed, in milliseconds since 1970.
    pub changed_ms: u64,
    /// How many jobs it changes per second, at most; null if as many as it can.
    pub rate: Option<f64>,
    /// How many jobs or letters matched when it began; null if they were not counted.
    pub planned: Option<u64>,
    /// How many jobs or letters there were to look at.
    pub total: u64,
    /// How many of them it has looked at.
    pub looked: u64,
    /// How many matched.
    pub matched: u64,
    /// How many were replayed, dropped, moved, cancelled, or made due.
    pub done: u64,
    /// How many run and were asked to stop.
    pub requested: u64,
    /// How many that match were left as they were: those of `kept` and `failed`.
    pub refused: u64,
    /// How many were left alone, by the reason.
    pub kept: BTreeMap<String, u64>,
    /// How many Redis refused to change.
    pub failed: u64,
    /// How many were left alone because the filter cannot read their payloads.
    pub undecided: u64,
    /// The last error of a job, or of a part of the queue that cannot be read.
    pub error: Option<String>,
    /// How many of those that matched when it began it has not dealt with; null if they were not counted.
    pub left: Option<u64>,
    /// What keeps it from going on, and what to do; absent if nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How its jobs fare, if it replays dead letters.
    #[serde(flatten)]
    pub replay: ReplayFacts,
    /// The task itself.
    #[serde(skip)]
    pub task: Task,
}

/// How a replay goes about its letters, and how their jobs have ended so far. Other tasks have none of it.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct ReplayFacts {
    /// How many jobs must succeed before the others are replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<u64>,
    /// It stops itself when more than this percentage of its jobs dies again of the same error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<f64>,
    /// Jobs that tasks have replayed this often are left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replays: Option<u64>,
    /// Whether all steps of its jobs run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_steps: Option<bool>,
    /// How many letters it has replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<u64>,
    /// How many of these jobs succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<u64>,
    /// How many died again of the same error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died: Option<u64>,
    /// How many died of another error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_otherwise: Option<u64>,
    /// How many died because a person must decide about one of their steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_decision: Option<u64>,
    /// How many were cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<u64>,
    /// How many have not ended yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// How many letters were left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// How many letters were gone when it came to them, because somebody else had replayed, dropped or edited them; absent before it
    /// has come to the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<u64>,
}

/// Says which jobs or letters are meant, as the command names them.
pub(crate) fn target(filter: &Filter, limit: Option<u64>) -> String {
    let filter = match filter.to_string() {
        filter if filter.is_empty() => "--all".to_owned(),
        filter => filter,
    };
    limit.map_or_else(|| filter.clone(), |limit| format!("{filter} --limit {limit}"))
}

impl TaskReport {
    /// Reports on a task of a queue.
    pub(super) fn of(queue: &Queue, task: Task) -> Self {
        let to = if let TaskAction::Change(BulkAction::Move(to)) = &task.action {
            Some(to.to_string())
        } else {
            None
        };
        let counts = &task.counts;
        Self {
            id: task.id.clone(),
            queue: queue.name().to_string(),
            kind: task.action.kind(),
            state: task.state.as_str(),
            why: task.state_why.clone(),
            filter: target(&task.filter, task.limit),
            states: task.states.iter().map(|state| state.as_str()).collect(),
            from: task.from.to_string(),
            to,
            undoes: task.undoes.clone(),
            who: task.who.clone(),
            reason: task.why.clone(),
            created: rfc3339(task.begun),
            created_ms: task.begun.as_ms(),
            changed: rfc3339(task.changed),
            changed_ms: task.changed.as_ms(),
            rate: task.rate,
            planned: task.planned,
            total: task.total,
            looked: counts.looked,
            matched: counts.matched(),
            done: counts.done,
            requested: counts.requested,
            refused: counts.refused(),
            kept: counts.kept.clone(),
            failed: counts.failed,
            undecided: counts.undecided,
            error: counts.error.clone(),
            left: task.left(),
            hint: None,
            replay: ReplayFacts::of(&task),
            task,
        }
    }

    /// Returns true if nothing was left out by accident of all that it was to do.
    pub fn is_complete(&self) -> bool {
        let is_stopped = matches!(self.task.state, TaskState::Stopped | TaskState::Failed);
        self.is_settled() && !is_stopped && self.failed == 0 && self.error.is_none()
    }

    /// Returns true if it changes nothing any more: it is over, or has replayed its letters and only counts how their jobs end.
    pub fn is_settled(&self) -> bool {
        let is_replay = matches!(self.task.action, TaskAction::Replay(_));
        self.task.state.is_over() || is_replay && !self.is_watched() && self.task.is_read()
    }

    /// Returns true if what it does next depends on how its jobs end. Then only workers carry it on.
    pub fn is_watched(&self) -> bool {
        matches!(&self.task.action, TaskAction::Replay(rules) if rules.watches())
    }

    /// Returns true if it goes on as soon as somebody carries it on.
    pub fn needs_somebody(&self) -> bool {
        !self.is_settled() && self.task.state != TaskState::Paused
    }
}

impl ReplayFacts {
    fn of(task: &Task) -> Self {
        let (TaskAction::Replay(rules), Some(counts)) = (&task.action, task.replay) else {
            return Self::default();
        };
        let ReplayRules { canary, stop_at, max_replays, all_steps, .. } = *rules;
        let ReplayCounts { replayed, succeeded, died, died_otherwise, needs_decision, cancelled, skipped } =
            counts;
        Self {
            canary: Some(canary),
            stop_at,
            max_replays: Some(max_replays),
            all_steps: Some(all_steps),
            replayed: Some(replayed),
            succeeded: Some(succeeded),
            died: Some(died),
            died_otherwise: Some(died_otherwise),
            needs_decision: Some(needs_decision),
            cancelled: Some(cancelled),
            running: Some(counts.alive()),
            skipped: Some(skipped),
            gone: task.is_read().then(|| task.total.saturating_sub(task.counts.looked)),
        }
    }
}
