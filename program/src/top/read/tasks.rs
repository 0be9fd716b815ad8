//! Tasks, newest first.

use streamfleet::Queue;
use streamfleet_engine::admin::{BulkAction, TaskAction};
use streamfleet_operations::tasks::{self, TaskReport};

use super::Part;
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Subject};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("kind", 0),
    Column::text("state", 0),
    Column::figure("done", 0),
    Column::figure("left", 0),
    Column::figure("succeeded", 0),
    Column::figure("died", 0),
    Column::text("queue", 0),
    Column::text("filter", 70),
    Column::figure("begun", 90),
    Column::text("by", 110),
    Column::text("task", 130),
];

/// How many tasks of a queue are shown, at most.
const MOST: u64 = 50;

/// Reads the tasks.
pub(super) async fn read(place: &Place, desk: &Desk) -> anyhow::Result<Page> {
    let (queues, remark) = super::queues(place, desk).await?;
    let parts = queues.into_iter().map(|queue| part(queue, desk.clone())).collect();
    let begun = COLUMNS.iter().position(|column| column.heading == "begun").unwrap_or_default();
    let rank = |row: &Row| std::cmp::Reverse(row.cells.get(begun).and_then(|begun| begun.rank));
    super::together(parts, remark, |rows| rows.sort_by_key(rank)).await
}

async fn part(queue: Queue, desk: Desk) -> Part {
    let list = tasks::list(&queue, None, MOST).await?;
    let row = |task: TaskReport| Row {
        subject: Subject::Task {
            queue: queue.name().clone(),
            id: task.id.clone(),
            is_paused: task.state == "paused",
            has_moved: has_moved(&task),
        },
        cells: vec![
            task.kind.into(),
            task.state.into(),
            Cell::count(done(&task)),
            Cell::count(task.left),
            of_replay(task.replay.succeeded),
            of_replay(task.replay.died.map(|died| died + task.replay.died_otherwise.unwrap_or(0))),
            task.queue.clone().into(),
            task.filter.clone().into(),
            Cell::ranked(desk.clock.time(task.task.begun), task.created_ms),
            task.who.clone().into(),
            task.id.clone().into(),
        ],
        note: note(&task),
    };
    Ok(list.items.into_iter().map(row).collect())
}

/// How many jobs it has changed. A replay has replayed them, also those of its canary, which it counts apart from all others.
fn done(task: &TaskReport) -> u64 {
    task.replay.replayed.unwrap_or(task.done + task.requested)
}

/// A count that only replays have.
fn of_replay(count: Option<u64>) -> Cell {
    count.map_or_else(|| Cell::ranked("", 0_u64), Cell::count)
}

/// Whether it is a move that is over and has moved something: only that can be undone.
pub(super) fn has_moved(task: &TaskReport) -> bool {
    let is_move = matches!(task.task.action, TaskAction::Change(BulkAction::Move(_)));
    is_move && task.task.state.is_over() && task.done > 0
}

/// What keeps it from going on, or why it is in its state.
fn note(task: &TaskReport) -> String {
    let error = task.error.clone().map(|error| format!("last error: {error}"));
    let why = Some(task.why.clone()).filter(|why| !why.is_empty());
    task.hint.clone().or(why).or(error).unwrap_or_default()
}
