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
    super::together(parts, remark, |_| ()).await
}

async fn part(queue: Queue, desk: Desk) -> Part {
    let (list, now) = gates::list(&queue).await?;
    // Only a gate that holds jobs and whose limits somebody has set needs the audit. Some logins must not read it.
    let is_set = |gate: &Gate| gate.shown_state() == "holding" && gate.source == Some("command");
    let settings = if list.items.iter().any(is_set) {
        gates::settings(&queue).await.unwrap_or_default()
    } else {
        gates::Settings::default()
    };
    let row = |gate: Gate| {
        let until = gate.until_ms.map_or_else(String::new, |ends| desk.clock.with_age(ends, now));
        Row {
            subject: Subject::Gate {
                queue: queue.name().clone(),
                gate: gate.gate.clone(),
                is_paused: gate.paused_by.is_some(),
            },
            note: note(&gate, &settings),
            cells: vec![
                gate.gate.clone().into(),
                gate.shown_state().into(),
                Cell::count(gate.held),
                Cell::count(gate.waiting),
                limits(&gate).into(),
                queue.name().to_string().into(),
                until.into(),
            ],
        }
    };
    Ok(list.items.into_iter().map(row).collect())
}

/// Limits as a cell shows them: none of them is no text.
fn limits(gate: &Gate) -> String {
    Some(gate.limits()).filter(|limits| limits != "none").unwrap_or_default()
}

/// What holds the jobs, who wanted that, and why.
fn note(gate: &Gate, settings: &gates::Settings) -> String {
    let because = |why: &str| if why.is_empty() { String::new() } else { format!(": {why}") };
    if let Some(by) = &gate.paused_by {
        return format!("paused by {by}{}", because(gate.reason.as_deref().unwrap_or_default()));
    }
    settings.holding(gate).unwrap_or_default()
}
