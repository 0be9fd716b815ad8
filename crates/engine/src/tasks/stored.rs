//! How Redis holds a task.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::task::{Task, TaskAction, TaskCounts};
use crate::client::decode;
use crate::job::filter::Filter;
use crate::job::task::{ReplayCounts, ReplayRules, TaskState, allowed};
use crate::job::{EntryId, Envelope, QueueName, State};
use crate::{BulkAction, KeptBack};

/// The fields of a task's key, beside those that say how many jobs were left alone.
const NAMES: [&str; 21] = [
    "plan",
    "state",
    "why",
    "cursor",
    "page",
    "created_ms",
    "changed_ms",
    "due_ms",
    "looked",
    "done",
    "requested",
    "failed",
    "undecided",
    "error",
    "replayed",
    "succeeded",
    "died",
    "died_otherwise",
    "needs_decision",
    "cancelled",
    "skipped",
];

/// The field that counts jobs that were left alone for this reason.
pub(super) fn kept_field(why: KeptBack) -> String {
    format!("kept:{}", why.as_str())
}

/// The names of all fields that are read.
pub(super) fn fields() -> impl Iterator<Item = String> {
    NAMES.into_iter().map(str::to_owned).chain(KeptBack::ALL.map(kept_field))
}

/// Why a task cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It does what only later versions know.
    OtherKind,
    /// Somebody else wrote its key, or its filter has what only later versions know.
    Broken,
}

/// What a task is to do, as Redis holds it. Older versions read the same of tasks that replay letters, and no others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) filter: Filter,
    pub(super) who: String,
    pub(super) why: String,
    pub(super) planned: Option<u64>,
    pub(super) total: u64,
    /// The newest letter; empty if there was none.
    pub(super) last: String,
    pub(super) now_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rules: Option<ReplayRules>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<Change>,
}

/// What a task that does not replay letters does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) kind: String,
    pub(super) from: String,
    pub(super) to: Option<String>,
    pub(super) undoes: Option<String>,
    pub(super) states: Vec<String>,
    pub(super) retention_ms: u64,
    pub(super) max_depth: Option<u64>,
    pub(super) rate: Option<f64>,
}

impl Plan {
    /// Returns it as JSON, if it can be read back.
    pub(super) fn pack(&self) -> Result<Vec<u8>, serde_json::Error> {
        let packed = serde_json::to_vec(self)?;
        serde_json::from_slice::<Self>(&packed)?;
        Ok(packed)
    }

    /// What it does; `None` if this version does not know that.
    fn action(&self) -> Option<TaskAction> {
        match (&self.change, self.rules) {
            (Some(change), _) => change.action().map(TaskAction::Change),
            (None, Some(rules)) => Some(TaskAction::Replay(rules)),
            (None, None) => None,
        }
    }
}

impl Change {
    fn action(&self) -> Option<BulkAction> {
        match self.kind.as_str() {
            "cancel" => Some(BulkAction::Cancel),
            "run-now" => Some(BulkAction::RunNow),
            "move" => Some(BulkAction::Move(self.to.as_ref()?.parse().ok()?)),
            "drop" => Some(BulkAction::Drop),
            "purge" => Some(BulkAction::Purge),
            _ => None,
        }
    }
}

impl Task {
    /// Reads a task of this queue.
    pub(super) fn read(
        id: &str,
        queue: &QueueName,
        fields: &Envelope,
        now_ms: u64,
    ) -> Result<Self, Unreadable> {
        let plan: Option<Plan> = fields.get(b"plan").and_then(|plan| serde_json::from_slice(plan).ok());
        let plan = plan.ok_or(Unreadable::Broken)?;
        let action = plan.action().ok_or(Unreadable::OtherKind)?;
        Self::of(id, queue, (plan, action), fields, now_ms).ok_or(Unreadable::Broken)
    }

    fn of(
        id: &str,
        queue: &QueueName,
        (plan, action): (Plan, TaskAction),
        fields: &Envelope,
        now_ms: u64,
    ) -> Option<Self> {
        let text = |name: &str| {
            String::from_utf8_lossy(fields.get(name.as_bytes()).unwrap_or_default()).into_owned()
        };
        let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
        let (state, cursor) = (text("state"), text("cursor"));
        let replay = matches!(action, TaskAction::Replay(_)).then(|| replay_counts(number));
        let (states, rate) = match (&action, &plan.change) {
            (TaskAction::Replay(rules), _) => (vec![State::Dead], rules.rate),
            (TaskAction::Change(_), change) => {
                let change = change.as_ref()?;
                let states = change.states.iter().map(|state| state.parse().ok());
                (states.collect::<Option<Vec<State>>>()?, change.rate)
            }
        };
        let change = plan.change;
        let from = change.as_ref().map_or_else(|| Some(queue.clone()), |change| change.from.parse().ok())?;
        let last = Some(plan.last.as_str()).filter(|last| !last.is_empty()).map(str::parse::<EntryId>);
        let task = Self {
            id: id.to_owned(),
            state: TaskState::named(&state)?,
            state_why: text("why"),
            who: plan.who,
            why: plan.why,
            filter: plan.filter,
            states,
            from,
            undoes: change.as_ref().and_then(|change| change.undoes.clone()),
            bound: decode::timestamp(plan.now_ms),
            last: last.transpose().ok()?,
            limit: plan.limit,
            rate,
            planned: plan.planned,
            total: plan.total,
            counts: replay
                .map_or_else(|| counts(text, number), |replay| letters(&replay, counts(text, number))),
            replay,
            begun: decode::timestamp(number("created_ms")),
            changed: decode::timestamp(number("changed_ms")),
            page: number("page"),
            allowed: rate.map_or(u64::MAX, |rate| allowed(text("due_ms").parse().ok(), now_ms, rate)),
            retention: Duration::from_millis(change.as_ref().map_or(0, |change| change.retention_ms)),
            max_depth: change.and_then(|change| change.max_depth),
            action,
            cursor,
        };
        let is_placed = match task.action {
            TaskAction::Replay(_) => task.cursor.parse::<EntryId>().is_ok() && task.last.is_some(),
            TaskAction::Change(_) => task.is_read() || task.position().is_some(),
        };
        Some(task).filter(|_| is_placed)
    }
}

fn replay_counts(number: impl Fn(&str) -> u64) -> ReplayCounts {
    ReplayCounts {
        replayed: number("replayed"),
        succeeded: number("succeeded"),
        died: number("died"),
        died_otherwise: number("died_otherwise"),
        needs_decision: number("needs_decision"),
        cancelled: number("cancelled"),
        skipped: number("skipped"),
    }
}

/// How far a task is.
fn counts(text: impl Fn(&str) -> String, number: impl Fn(&str) -> u64) -> TaskCounts {
    let kept = KeptBack::ALL.map(|why| (why.as_str().to_owned(), number(&kept_field(why))));
    TaskCounts {
        looked: number("looked"),
        done: number("done"),
        requested: number("requested"),
        kept: kept.into_iter().filter(|(_, count)| *count > 0).collect(),
        failed: number("failed"),
        undecided: number("undecided"),
        error: Some(text("error")).filter(|error| !error.is_empty()),
    }
}

/// How far a replay is. Older versions do not count the letters that they look at.
fn letters(replay: &ReplayCounts, counts: TaskCounts) -> TaskCounts {
    let (done, skipped) = (replay.replayed, replay.skipped);
    let kept = Some(("skipped".to_owned(), skipped)).filter(|_| skipped > 0);
    let looked = counts.looked.max(done + skipped + counts.failed);
    TaskCounts { looked, done, kept: kept.into_iter().collect(), ..counts }
}

#[cfg(test)]
mod tests {
    use super::super::task::END;
    use super::*;

    const RULES: &str = r#"{"rate":50.0,"canary":5,"stop_at":null,"max_replays":3}"#;

    fn plan(last: &str, more: &str) -> String {
        format!(
            r#"{{"filter":{},"who":"ann","why":"a test","planned":null,"total":9,"last":"{last}","now_ms":7{more}}}"#,
            serde_json::to_string(&Filter::new()).unwrap()
        )
    }

    fn read(plan: &str, more: &[(&str, &str)]) -> Result<Task, Unreadable> {
        let head = [("plan", plan), ("state", "running")];
        let fields = head.iter().chain(more).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        Task::read("00ff00ff", &"mail".parse().unwrap(), &Envelope::new(fields), 5_000)
    }

    #[test]
    fn a_replay_that_an_older_version_began_is_read() {
        let more = [("cursor", "3-0"), ("replayed", "4"), ("skipped", "1")];
        let task = read(&plan("5-0", &format!(",\"rules\":{RULES}")), &more).unwrap();
        assert_eq!((task.action.kind(), task.from.as_str(), task.rate), ("replay", "mail", Some(50.0)));
        assert_eq!((task.letter(), task.is_read()), (EntryId::new(3, 0), false));
        assert_eq!(
            (task.counts.looked, task.counts.done, task.counts.matched(), task.left()),
            (5, 4, 5, None)
        );
        assert_eq!(read(&plan("", &format!(",\"rules\":{RULES}")), &more), Err(Unreadable::Broken));
    }

    #[test]
    fn a_change_is_read_with_what_it_left_alone() {
        let change = r#","change":{"kind":"move","from":"mail","to":"bulk","undoes":null,"states":["waiting"],"retention_ms":1,"max_depth":null,"rate":null}"#;
        let at = [("cursor", "1 rooms:"), ("page", "2")];
        let more = [&at[..], &[("done", "3"), ("kept:taken", "2"), ("failed", "1")]].concat();
        let task = read(&plan("", change), &more).unwrap();
        assert_eq!(task.action, TaskAction::Change(BulkAction::Move("bulk".parse().unwrap())));
        assert_eq!((task.counts.matched(), task.counts.refused(), task.page), (6, 3, 2));
        let counted = |state| Task { planned: Some(9), state, ..task.clone() }.left();
        let states = [TaskState::Running, TaskState::Stopped, TaskState::Done];
        assert_eq!(states.map(counted), [Some(3), Some(3), Some(0)]);
        assert!(!task.is_read() && task.position().is_some() && task.allowed == u64::MAX);
        let end = [("cursor", END)];
        assert!(read(&plan("", change), &end).unwrap().is_read());
        assert_eq!(read(&plan("", change), &[("cursor", "x")]), Err(Unreadable::Broken));
    }

    #[test]
    fn a_kind_of_a_later_version_is_not_taken_for_another() {
        let change = r#","change":{"kind":"import","from":"mail","to":null,"undoes":null,"states":[],"retention_ms":1,"max_depth":null,"rate":null}"#;
        assert_eq!(read(&plan("", change), &[("cursor", "0 ")]), Err(Unreadable::OtherKind));
        assert_eq!(read(&plan("", ""), &[("cursor", "0 ")]), Err(Unreadable::OtherKind));
        assert_eq!(read("text", &[]), Err(Unreadable::Broken));
    }

    #[test]
    fn every_kind_is_read_back() {
        let to = BulkAction::Move("bulk".parse().unwrap());
        for action in [BulkAction::Cancel, BulkAction::RunNow, to, BulkAction::Drop, BulkAction::Purge] {
            let change = Change {
                kind: action.as_str().to_owned(),
                from: "mail".to_owned(),
                to: Some("bulk".to_owned()),
                undoes: None,
                states: Vec::new(),
                retention_ms: 1,
                max_depth: None,
                rate: None,
            };
            assert_eq!(change.action(), Some(action));
        }
    }
}
