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
use crate::console::access::Role;
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
    let Gathered { mut found, mut remarks, now } = gather(queues, before).await;
    // What people did about incidents concerns those who may see every queue.
    if wanted.queue.is_none() && frame.may_about(Role::Viewer, None) {
        match site.broker().incidents().audit(before, ROWS as u64 + 1).await {
            Ok(actions) => found.extend(actions.into_iter().map(|action| (None, action))),
            Err(error) => remarks.push(error.to_string()),
        }
    }
    found.sort_by_key(|(_, past)| std::cmp::Reverse(past.entry));
    // Without queues, no clock was read.
    let now = found.first().map_or(now, |(_, past)| now.max(past.at()));
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

/// What people did, each with the queue; none if it was about incidents.
type Actions = Vec<(Option<Queue>, PastAction)>;

/// What people did to queues.
#[derive(Default)]
struct Gathered {
    found: Actions,
    remarks: Vec<String>,
    now: Timestamp,
}

async fn gather(queues: Vec<Queue>, before: Option<EntryId>) -> Gathered {
    let reading = stream::iter(queues).map(|queue| read(queue, before)).buffered(AT_ONCE);
    let read: Vec<_> = reading.collect().await;
    let mut all = Gathered::default();
    for (queue, read) in read {
        match read {
            Ok((clock, actions)) => {
                all.now = all.now.max(clock);
                all.found.extend(actions.into_iter().map(|action| (Some(queue.clone()), action)));
            }
            Err(error) => all.remarks.push(error),
        }
    }
    all
}

type Read = (Queue, Result<(Timestamp, Vec<PastAction>), String>);

async fn read(queue: Queue, before: Option<EntryId>) -> Read {
    let recent = queue.audit().recent(before, ROWS as u64 + 1);
    let read = async { tokio::try_join!(queue.clock(), recent) };
    let read = read.await.map_err(|error| format!("{}: {}", queue.name(), queue.with_keys(&error)));
    (queue, read)
}

fn table(frame: &Frame, found: &[(Option<Queue>, PastAction)], now: Timestamp) -> Table {
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
        let (action, name) = (&past.action, queue.as_ref().map(|queue| queue.name().as_str()));
        table.add([
            Cell::time(frame, past.at(), now),
            Cell::text(&action.who),
            Cell::text(&action.what)
                .under(format!("{} {}", frame.about(&action.target), action.outcome).trim()),
            name.map_or_else(|| Cell::text("–"), |name| Cell::link(name, &Link::queue(name, &[]))),
            Cell::text(action.count.map_or_else(|| "–".to_owned(), grouped)),
            Cell::text(&action.why),
        ]);
    }
    table
}
