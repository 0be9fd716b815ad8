//! What people did, the newest first.

use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::admin::PastAction;
use streamfleet::job::{EntryId, Timestamp};

use super::campaigns::List;
use super::found::ROWS;
use super::frame::{Frame, grouped};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// A part of the address.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    queue: Option<String>,
    /// Only actions before this entry.
    after: Option<String>,
}

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    if let Some(name) = &wanted.queue {
        queues.retain(|queue| queue.name().as_str() == name);
    }
    let before: Option<EntryId> =
        wanted.after.as_deref().map(|after| target::part("after", after)).transpose()?;
    let reading = stream::iter(queues).map(|queue| read(queue, before)).buffered(AT_ONCE);
    let read: Vec<_> = reading.collect().await;
    let (mut found, mut remarks, mut now) = (Vec::new(), Vec::new(), Timestamp::default());
    for (queue, read) in read {
        match read {
            Ok((clock, actions)) => {
                now = now.max(clock);
                found.extend(actions.into_iter().map(|action| (queue.clone(), action)));
            }
            Err(error) => remarks.push(error),
        }
    }
    found.sort_by_key(|(_, past)| std::cmp::Reverse(past.entry));
    // Entries of several queues may have the same id, so the next page begins before the last one's millisecond only if
    // no more of it are left.
    let next = found.get(ROWS - 1).filter(|_| found.len() > ROWS).map(|(_, past)| past.entry.to_string());
    found.truncate(ROWS);
    let table = table(&frame, &found, now);
    let next = next.map(|next| {
        let link = wanted.queue.iter().fold(Link::to(&["audit"]), |link, queue| link.with("queue", queue));
        link.with("after", &next).to_string()
    });
    let (title, line) = (frame.t("nav.audit"), frame.t("audit.line").to_owned());
    Ok(frame.page(title, Some(Section::Audit), &List { frame: &frame, title, line, table, remarks, next }))
}

type Read = (Queue, Result<(Timestamp, Vec<PastAction>), String>);

async fn read(queue: Queue, before: Option<EntryId>) -> Read {
    let recent = queue.audit().recent(before, ROWS as u64 + 1);
    let read = async { tokio::try_join!(queue.clock(), recent) };
    let read = read.await.map_err(|error| format!("{}: {}", queue.name(), queue.with_keys(&error)));
    (queue, read)
}

fn table(frame: &Frame, found: &[(Queue, PastAction)], now: Timestamp) -> Table {
    let columns = [
        ("column.when", "short"),
        ("column.who", ""),
        ("column.what", ""),
        ("column.queue", "short"),
        ("column.count", "number"),
        ("column.reason", "clip"),
    ];
    let mut table = Table::new(frame, "nav.audit", &columns).or(frame.t("audit.none"));
    for (queue, past) in found {
        let (action, name) = (&past.action, queue.name().as_str());
        table.add([
            Cell::time(frame, past.at(), now),
            Cell::text(&action.who),
            Cell::text(&action.what).under(format!("{} {}", action.target, action.outcome).trim()),
            Cell::link(name, &Link::queue(name, &[])),
            Cell::text(action.count.map_or_else(|| "–".to_owned(), grouped)),
            Cell::text(&action.why),
        ]);
    }
    table
}
