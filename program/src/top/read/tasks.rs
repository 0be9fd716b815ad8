//! Tasks, newest first.

use streamfleet::Queue;
use streamfleet_operations::tasks::{self, TaskReport};

use super::Part;
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Subject};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("kind", 0),
    Column::text("state", 0),
    Column::figure("done", 0),
    Column::figure("left", 0),
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
    let mut page = super::together(parts, remark).await?;
    page.rows.sort_by_key(|row| std::cmp::Reverse(row.cells.get(6).and_then(|begun| begun.rank)));
    Ok(page)
}

async fn part(queue: Queue, desk: Desk) -> Part {
    let list = tasks::list(&queue, None, MOST).await?;
    let row = |task: TaskReport| Row {
        subject: Subject::Task {
            queue: queue.name().clone(),
            id: task.id.clone(),
            is_paused: task.state == "paused",
        },
        cells: vec![
            task.kind.into(),
            task.state.into(),
            Cell::count(task.done + task.requested),
            Cell::count(task.left),
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

/// What keeps it from going on, or why it is in its state.
fn note(task: &TaskReport) -> String {
    let error = task.error.clone().map(|error| format!("last error: {error}"));
    let why = Some(task.why.clone()).filter(|why| !why.is_empty());
    task.hint.clone().or(why).or(error).unwrap_or_default()
}
