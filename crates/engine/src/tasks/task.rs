//! A task, and how Redis holds it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::decode;
use crate::inspect::audit::Action;
use crate::job::filter::Filter;
use crate::job::task::{ReplayCounts, ReplayRules, TaskState, allowed};
use crate::job::{EntryId, Envelope, QueueName, State, Timestamp};
use crate::{BulkAction, BulkCursor, BulkSelection, BulkTerms, KeptBack, Selection};

/// The cursor of a task that has come to the end of its jobs.
pub(super) const END: &str = "end";

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
    /// How many that match were left alone, by the reason: the name of a [`KeptBack`], or `skipped` for letters.
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
    retention: Duration,
    max_depth: Option<u64>,
}

impl Task {
    /// About how many jobs or letters it has still to look at.
    pub fn left(&self) -> u64 {
        if self.state.is_over() { 0 } else { self.total.saturating_sub(self.counts.looked) }
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
            id: self.id.clone(),
            marked_by: self.undoes.clone(),
        }
    }

    /// The letters of a replay.
    pub(super) fn letters(&self) -> Selection {
        Selection { filter: self.filter.clone(), last: self.last, total: self.total, now: self.bound }
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
             {needs_decision} need a decision, {cancelled} cancelled, {alive} still running; {skipped} skipped"
        ))
    }
}

/// What the audit calls tasks that replay letters, or the others.
pub(super) fn word(is_replay: bool) -> &'static str {
    if is_replay { "campaign" } else { "task" }
}

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
            (TaskAction::Replay(rules), _) => (vec![State::Dead], Some(rules.rate)),
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
            state: TaskState::ALL.into_iter().find(|known| known.as_str() == state)?,
            state_why: text("why"),
            who: plan.who,
            why: plan.why,
            filter: plan.filter,
            states,
            from,
            undoes: change.as_ref().and_then(|change| change.undoes.clone()),
            bound: decode::timestamp(plan.now_ms),
            last: last.transpose().ok()?,
            rate,
            planned: plan.planned,
            total: plan.total,
            counts: replay.map_or_else(|| counts(text, number), |counts| letters(&counts, number)),
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

/// How far a change is.
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
fn letters(counts: &ReplayCounts, number: impl Fn(&str) -> u64) -> TaskCounts {
    let (done, skipped) = (counts.replayed, counts.skipped);
    let kept = Some(("skipped".to_owned(), skipped)).filter(|_| skipped > 0);
    let looked = number("looked").max(done + skipped);
    TaskCounts { looked, done, kept: kept.into_iter().collect(), ..TaskCounts::default() }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((task.counts.looked, task.counts.done, task.counts.matched(), task.left()), (5, 4, 5, 4));
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
