//! What people did, the newest first.

use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use streamfleet::job::{EntryId, Timestamp};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::PastAction;

use super::found::ROWS;
use super::frame::{Frame, grouped};
use super::list::{Asked, List, Narrow};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::access::Role;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// How many actions are read at once if not all are wanted …
const READ: usize = 500;

/// … and how many at most of one audit for one page.
const MOST: usize = 2000;

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["audit"]);
    let narrow = Narrow::new(&frame, &here)
        .queue(&frame, &asked, &queues)
        .field(&frame, &asked, ("who", "column.who"))
        .field(&frame, &asked, ("what", "column.what"));
    asked.retain_queues(&mut queues);
    let before: Option<EntryId> = asked.get("after").map(|after| target::part("after", after)).transpose()?;
    let mut all = gather(queues, &asked, before).await;
    // What people did about incidents concerns those who may see every queue.
    if asked.get("queue").is_none() && frame.may_about(Role::Viewer, None) {
        let incidents = site.broker().incidents();
        match matching(&asked, before, |before, count| incidents.audit(before, count)).await {
            Ok(read) => all.add(None, read),
            Err(error) => all.remarks.push(error.to_string()),
        }
    }
    let Gathered { mut found, remarks, now, horizon } = all;
    found.sort_by_key(|(_, past)| std::cmp::Reverse(past.entry));
    // Before the horizon, not every audit was read.
    found.retain(|(_, past)| horizon.is_none_or(|horizon| past.entry >= horizon));
    // Without queues, no clock was read.
    let now = found.first().map_or(now, |(_, past)| now.max(past.at()));
    // Entries of several queues may have the same id, so the next page begins before the last one's millisecond only if
    // no more of it are left.
    let last = found.get(ROWS - 1).filter(|_| found.len() > ROWS).map(|(_, past)| past.entry);
    found.truncate(ROWS);
    let table = table(&frame, &found, now);
    let next = narrow.next(here, last.or(horizon));
    let (title, line) = (frame.t("nav.audit"), frame.t("audit.line").to_owned());
    let page = List { frame: &frame, title, line, narrow, table, remarks, more: Vec::new(), next };
    Ok(frame.page(title, Some(Section::Audit), &page))
}

/// What people did, each with the queue; none if it was about incidents.
type Actions = Vec<(Option<Queue>, PastAction)>;

/// What people did to queues.
#[derive(Default)]
struct Gathered {
    found: Actions,
    remarks: Vec<String>,
    now: Timestamp,
    /// The oldest action up to which all audits were read; `None` if they were read to their ends.
    horizon: Option<EntryId>,
}

impl Gathered {
    fn add(&mut self, queue: Option<&Queue>, read: Matching) {
        self.found.extend(read.actions.into_iter().map(|action| (queue.cloned(), action)));
        self.horizon = self.horizon.max(read.reached);
    }
}

async fn gather(queues: Vec<Queue>, asked: &Asked, before: Option<EntryId>) -> Gathered {
    let reading = stream::iter(queues).map(|queue| read(queue, asked, before)).buffered(AT_ONCE);
    let read: Vec<_> = reading.collect().await;
    let mut all = Gathered::default();
    for (queue, read) in read {
        match read {
            Ok((clock, read)) => {
                all.now = all.now.max(clock);
                all.add(Some(&queue), read);
            }
            Err(error) => all.remarks.push(error),
        }
    }
    all
}

type Read = (Queue, Result<(Timestamp, Matching), String>);

async fn read(queue: Queue, asked: &Asked, before: Option<EntryId>) -> Read {
    let audit = queue.audit();
    let recent = matching(asked, before, |before, count| audit.recent(before, count));
    let read = async { tokio::try_join!(queue.clock(), recent) };
    let read = read.await.map_err(|error| format!("{}: {}", queue.name(), queue.with_keys(&error)));
    (queue, read)
}

/// Actions of one audit that the address asks for.
#[derive(Default)]
struct Matching {
    actions: Vec<PastAction>,
    /// The oldest action that was read, unless the audit has no older ones.
    reached: Option<EntryId>,
}

/// Reads actions until a page is full, or until it has looked at as many as it may.
async fn matching<F>(
    asked: &Asked,
    mut before: Option<EntryId>,
    recent: impl Fn(Option<EntryId>, u64) -> F,
) -> Result<Matching, RedisError>
where
    F: Future<Output = Result<Vec<PastAction>, RedisError>>,
{
    let (mut found, mut read) = (Matching::default(), 0);
    let is_filtered = asked.get("who").or(asked.get("what")).is_some();
    let count = if is_filtered { READ } else { ROWS + 1 };
    loop {
        let page = recent(before, count as u64).await?;
        let is_last = page.len() < count;
        (before, read) = (page.last().map(|past| past.entry).or(before), read + page.len());
        let fits =
            |past: &PastAction| asked.fits("who", &past.action.who) && asked.fits("what", &past.action.what);
        found.actions.extend(page.into_iter().filter(fits));
        if is_last {
            return Ok(found);
        }
        if found.actions.len() > ROWS || read >= MOST {
            found.reached = before;
            return Ok(found);
        }
    }
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
                .under(format!("{} {}", frame.about(&action.target), frame.written(&action.outcome)).trim()),
            name.map_or_else(|| Cell::text("–"), |name| Cell::link(name, &Link::queue(name, &[]))),
            Cell::text(action.count.map_or_else(|| "–".to_owned(), grouped)),
            Cell::text(frame.written(&action.why)),
        ]);
    }
    table
}
