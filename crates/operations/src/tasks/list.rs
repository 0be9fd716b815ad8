//! The tasks of a queue, and one of them.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin::TaskCursor;

use super::TaskReport;
use crate::{Error, List};

/// What keeps a task from going on that needs memory.
const FULL: &str = "Redis is full: this task goes on when there is room; raise its maxmemory, or make room (streamfleet queues purge, \
                    or dead drop)";

/// A page of the tasks of a queue, newest first.
pub type TaskList = List<TaskReport, TaskFacts>;

/// What is known about all tasks of a queue.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct TaskFacts {
    /// The queue.
    pub queue: String,
    /// The ids of tasks of this page that this version cannot read.
    pub unreadable: Vec<String>,
}

/// Lists the tasks of a queue after this one, newest first. Those that are over are listed for 30 days.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(queue: &Queue, after: Option<&TaskCursor>, limit: u64) -> Result<TaskList, Error> {
    let count = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = queue.tasks().page(after, count).await.map_err(Error::redis("failed to read the tasks"))?;
    let mut items: Vec<_> = page.tasks.into_iter().map(|task| TaskReport::of(queue, task)).collect();
    hint(queue, &mut items).await;
    Ok(TaskList {
        items,
        next: page.next.map(|next| next.to_string()),
        facts: TaskFacts { queue: queue.name().to_string(), unreadable: page.unreadable },
        former: None,
    })
}

/// Shows one task.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none with this id, or it was over 30 days ago; [`Error::Redis`].
pub async fn show(queue: &Queue, id: &str) -> Result<TaskReport, Error> {
    let mut report = read(queue, id).await?;
    hint(queue, std::slice::from_mut(&mut report)).await;
    Ok(report)
}

/// Says of tasks that are to go on what keeps them from it, if that can be found out.
async fn hint(queue: &Queue, reports: &mut [TaskReport]) {
    if !reports.iter().any(TaskReport::needs_somebody) {
        return;
    }
    let is_full = is_full(queue).await;
    let has_nobody = queue.snapshot().await.is_ok_and(|snapshot| snapshot.leader.is_none());
    for report in reports.iter_mut().filter(|report| report.needs_somebody()) {
        let unless = if report.is_watched() { "" } else { "unless a command or a console carries it on, " };
        report.hint = if is_full && matches!(report.kind, "replay" | "move") {
            Some(FULL.to_owned())
        } else if has_nobody {
            Some(format!(
                "no worker of the queue {} is up: {unless}this task goes on when one starts",
                report.queue
            ))
        } else {
            None
        };
    }
}

/// Whether Redis refuses what needs memory, as far as the login may know.
async fn is_full(queue: &Queue) -> bool {
    let Ok(server) = queue.server().await else { return false };
    let number = |name: &str| server.fact(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let most = number("maxmemory");
    most > 0 && number("used_memory") >= most && server.fact("maxmemory_policy") == Some("noeviction")
}

/// Reads one task, without a hint.
pub(super) async fn read(queue: &Queue, id: &str) -> Result<TaskReport, Error> {
    let found = queue.tasks().get(id).await.map_err(Error::redis("failed to read the task"))?;
    found.map(|task| TaskReport::of(queue, task)).ok_or_else(|| unknown(queue, id))
}

/// There is no such task.
pub(super) fn unknown(queue: &Queue, id: &str) -> Error {
    Error::NotFound(format!("the queue {} has no task {id}", queue.name()))
}
