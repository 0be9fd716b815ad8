//! Gates: how many jobs hold a place and wait, the limits, and who has paused them.

use streamfleet::Queue;
use streamfleet_operations::gates::{self, Gate};

use super::Part;
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Subject};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("gate", 0),
    Column::text("state", 0),
    Column::figure("held", 0),
    Column::figure("waiting", 0),
    Column::text("limits", 60),
    Column::text("queue", 80),
    Column::text("until", 110),
];

/// Reads the gates.
pub(super) async fn read(place: &Place, desk: &Desk) -> anyhow::Result<Page> {
    let (queues, remark) = super::queues(place, desk).await?;
    let parts = queues.into_iter().map(|queue| part(queue, desk.clone())).collect();
    super::together(parts, remark).await
}

async fn part(queue: Queue, desk: Desk) -> Part {
    let (list, now) = gates::list(&queue).await?;
    let row = |gate: Gate| {
        let until = gate.ends.map_or_else(String::new, |ends| desk.clock.with_age(ends, now));
        let by = gate.paused_by.as_ref().map_or_else(String::new, |by| format!("paused by {by}"));
        let why =
            gate.reason.filter(|why| !why.is_empty()).map_or_else(String::new, |why| format!(": {why}"));
        let at_once = gate.concurrency.map(|jobs| format!("{jobs} at once"));
        let breaker = gate.breaker.map(|breaker| format!("breaker {breaker}"));
        let limits: Vec<String> = [at_once, gate.rate, breaker].into_iter().flatten().collect();
        Row {
            subject: Subject::Gate {
                queue: queue.name().clone(),
                gate: gate.gate.clone(),
                is_paused: gate.paused_by.is_some(),
            },
            cells: vec![
                gate.gate.into(),
                gate.state.into(),
                Cell::count(gate.held),
                Cell::count(gate.waiting),
                limits.join(", ").into(),
                queue.name().to_string().into(),
                until.into(),
            ],
            note: format!("{by}{why}"),
        }
    };
    Ok(list.items.into_iter().map(row).collect())
}
