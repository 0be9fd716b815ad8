//! What people did, newest first, in pages.

use streamfleet_engine::admin::{AuditCursor, AuditSearch};
use streamfleet_operations::audit::{self, AuditNote};

use crate::audit::{everything, queues_of};
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Subject, noted};

pub(super) const COLUMNS: &[Column] = &[
    Column::figure("at", 0),
    Column::text("who", 0),
    Column::text("action", 0),
    Column::text("queue", 80),
    Column::figure("jobs", 70),
    Column::text("target", 0),
];

/// How many actions a page has, at most, and how many are looked at for it.
const MOST: u64 = 100;
const MOST_LOOKED_AT: u64 = 10_000;

/// Reads a page of actions.
pub(super) async fn read(place: &Place, desk: &Desk) -> anyhow::Result<Page> {
    let wanted = noted(&place.filter).map_err(anyhow::Error::msg)?;
    let (sources, missing) = match (&place.queue, &desk.names[..]) {
        (Some(queue), _) => (queues_of([queue]), Vec::new()),
        (None, []) => everything(&desk.broker).await?,
        (None, names) => (queues_of(names), Vec::new()),
    };
    let after = place.after.as_deref().map(str::parse::<AuditCursor>).transpose();
    let after = after.map_err(|error| anyhow::anyhow!("{error}"))?;
    let search = AuditSearch { sources, after, limit: MOST, most: MOST_LOOKED_AT, ..AuditSearch::default() };
    let found = audit::find(&desk.broker, search, &wanted, &desk.clock, str::to_owned).await?;
    let remarks = found.facts.unread.into_iter().chain(missing.iter().map(ToString::to_string));
    let remark = remarks.collect::<Vec<_>>().join("; ");
    let rows = found.items.into_iter().map(|note| row(note, desk)).collect();
    Ok(Page { rows, next: found.next, remark, ..Page::default() })
}

fn row(note: AuditNote, desk: &Desk) -> Row {
    let why = Some(note.why).filter(|why| !why.is_empty());
    let outcome = Some(note.outcome).filter(|outcome| !outcome.is_empty());
    let queue = note.queue.unwrap_or_default();
    Row {
        // Several queues may have notes of the same entry.
        subject: Subject::Past(format!("{queue} {} {}", note.entry, note.what)),
        cells: vec![
            Cell::ranked(desk.clock.time(note.at_ms), note.at_ms),
            note.who.into(),
            note.what.into(),
            queue.into(),
            note.count.map_or_else(|| Cell::ranked("", 0_u64), Cell::count),
            note.target.into(),
        ],
        note: why.into_iter().chain(outcome).collect::<Vec<_>>().join("; "),
    }
}
