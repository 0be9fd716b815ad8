//! Dead letters by what killed their jobs: the exception below each group.

use streamfleet::Queue;
use streamfleet_operations::dead;

use super::Part;
use crate::times::short;
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Subject};

pub(super) const COLUMNS: &[Column] = &[
    Column::figure("letters", 0),
    Column::text("type", 0),
    Column::text("queue", 0),
    Column::text("reason", 70),
    Column::figure("last", 0),
    Column::text("group", 100),
];

/// How many groups of a queue are shown, at most, the largest.
const MOST: u64 = 100;

/// Reads the groups.
pub(super) async fn read(place: &Place, desk: &Desk) -> anyhow::Result<Page> {
    let (queues, remark) = super::queues(place, desk).await?;
    super::together(queues.into_iter().map(groups).collect(), remark).await
}

async fn groups(queue: Queue) -> Part {
    let page = dead::groups(&queue, MOST).await?;
    if page.items.is_empty() {
        return Ok(Vec::new());
    }
    let now = queue.clock().await?;
    let row = |group: dead::Group| {
        let last = now.since(group.times[1]);
        Row {
            subject: Subject::Group {
                queue: queue.name().clone(),
                group: group.group.clone(),
                job_type: group.job_type.clone(),
                letters: group.count,
            },
            cells: vec![
                Cell::count(group.count),
                group.job_type.unwrap_or_default().into(),
                queue.name().to_string().into(),
                group.reason.unwrap_or_default().into(),
                Cell::ranked(format!("{} ago", short(last)), group.last_ms),
                group.group.into(),
            ],
            note: group.error,
        }
    };
    Ok(page.items.into_iter().map(row).collect())
}
