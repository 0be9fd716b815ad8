//! The live workers.

use std::collections::BTreeSet;

use streamfleet_operations::workers::{self, Worker};

use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Row, Subject};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("worker", 0),
    Column::text("state", 0),
    Column::figure("running", 0),
    Column::figure("slots", 0),
    Column::text("version", 70),
    Column::text("queues", 90),
];

/// Reads the workers.
pub(super) async fn read(desk: &Desk) -> anyhow::Result<Page> {
    let (list, missing) = workers::list(&desk.broker).await?;
    let is_shown = |worker: &&Worker| {
        let names = &desk.names;
        names.is_empty() || worker.queues.iter().any(|queue| names.iter().any(|name| name.as_str() == queue))
    };
    let mut remarks: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let versions: BTreeSet<&str> = list.items.iter().map(|worker| worker.version.as_str()).collect();
    if versions.len() > 1 {
        remarks.push(format!("{} versions run", versions.len()));
    }
    if !list.facts.stale.is_empty() {
        let stale = list.facts.stale.len();
        remarks.push(format!("{stale} consumers without a live worker: `streamfleet workers` lists them"));
    }
    let rows = list.items.iter().filter(is_shown).take(super::MOST).map(row).collect();
    Ok(Page { rows, remark: remarks.join("; "), ..Page::default() })
}

fn row(worker: &Worker) -> Row {
    let drain = worker.drain.as_ref().map(|drain| {
        let why = if drain.why.is_empty() { String::new() } else { format!(": {}", drain.why) };
        let heard = if drain.heard { "" } else { "; it has not confirmed that yet" };
        format!("asked to drain by {}{why}{heard}", drain.by)
    });
    let pools = worker.pools_down.iter().map(ToString::to_string);
    Row {
        subject: Subject::Worker { name: worker.consumer.clone(), drains: worker.drain.is_some() },
        cells: vec![
            worker.consumer.clone().into(),
            worker.state.clone().into(),
            Cell::count(worker.running),
            Cell::count(worker.slots),
            worker.version.clone().into(),
            worker.queues.join(", ").into(),
        ],
        note: drain.into_iter().chain(pools).collect::<Vec<_>>().join("; "),
    }
}
