//! Dead letters by what killed their jobs: the exception below each group. Those that wait for a person come first, then the largest.

use std::cmp::Reverse;

use streamfleet::Queue;
use streamfleet::job::DeadReason;
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
    let parts = queues.into_iter().map(groups).collect();
    super::together(parts, remark, |rows| rows.sort_by_cached_key(rank)).await
}

/// The order of the list: groups that wait for a person first, then by how many letters they have, and how late the last one died.
fn rank(row: &Row) -> (bool, Reverse<u64>, Reverse<u64>) {
    let cell = |heading: &str| {
        let nth = COLUMNS.iter().position(|column| column.heading == heading);
        nth.and_then(|nth| row.cells.get(nth))
    };
    let figure = |heading: &str| Reverse(cell(heading).and_then(|cell| cell.rank).unwrap_or(0));
    let waits = cell("reason").is_some_and(|reason| reason.text == DeadReason::NeedsDecision.as_str());
    (!waits, figure("letters"), figure("last"))
}

async fn groups(queue: Queue) -> Part {
    let page = dead::groups(&queue, MOST).await?;
    if page.items.is_empty() {
        return Ok(Vec::new());
    }
    let now = queue.clock().await?;
    let row = |group: dead::Group| {
        let last = now.since(group.last_ms.into());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_wait_for_a_person_come_first_and_then_the_largest() {
        let row = |group: &str, letters: u64, reason: &str, last: u64| Row {
            subject: Subject::Group {
                queue: "mail".parse().unwrap(),
                group: group.to_owned(),
                job_type: None,
                letters,
            },
            cells: vec![
                Cell::count(letters),
                "".into(),
                "".into(),
                reason.into(),
                Cell::ranked("", last),
                group.into(),
            ],
            note: String::new(),
        };
        let mut rows = [
            row("old", 7, "exhausted", 1),
            row("large", 900, "expired", 1),
            row("late", 7, "exhausted", 9),
            row("step", 1, "needs_decision", 1),
        ];
        rows.sort_by_cached_key(rank);
        let names = rows.each_ref().map(|row| row.cells[5].text.clone());
        assert_eq!(names, ["step", "large", "late", "old"]);
    }
}
