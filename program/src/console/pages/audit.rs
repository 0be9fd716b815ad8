//! What people did, the newest first.

use axum::extract::{Query, State};
use axum::response::Response;
use streamfleet::job::Timestamp;
use streamfleet_engine::admin::{AuditSearch, AuditSource, PastAction};

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

/// How many actions are looked at for one page, at most.
const MOST: u64 = 20_000;

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
    let mut sources: Vec<_> = queues.iter().map(|queue| AuditSource::Queue(queue.name().clone())).collect();
    // What people did about incidents, and which queues they deleted, concerns those who may see every queue.
    if asked.get("queue").is_none() && frame.may_about(Role::Viewer, None) {
        sources.extend([AuditSource::Deletions, AuditSource::Alerts]);
    }
    let after = asked.get("after").map(|after| target::part("after", after)).transpose()?;
    let search = AuditSearch { sources, after, limit: ROWS as u64, most: MOST, ..AuditSearch::default() };
    let fits =
        |past: &PastAction| asked.fits("who", &past.action.who) && asked.fits("what", &past.action.what);
    let found = site.broker().search_audit(&search, fits).await;
    let found = found.map_err(|error| Problem::redis("the audit could not be read", &error))?;
    let now = match queues.first() {
        Some(queue) => queue.clock().await.unwrap_or_default(),
        None => Timestamp::default(),
    };
    // Without a queue, no clock was read.
    let now = found.actions.first().map_or(now, |(_, past)| now.max(past.at()));
    let remarks = found.unread.iter().map(|(source, error)| format!("{source}: {error}")).collect();
    let table = table(&frame, &found.actions, now);
    let next = narrow.next(here, found.next);
    let (title, line) = (frame.t("nav.audit"), frame.t("audit.line").to_owned());
    let page = List { frame: &frame, title, line, narrow, table, remarks, more: Vec::new(), next };
    Ok(frame.page(title, Some(Section::Audit), &page))
}

fn table(frame: &Frame, found: &[(AuditSource, PastAction)], now: Timestamp) -> Table {
    let columns = [
        ("column.when", "short"),
        ("column.who", ""),
        ("column.what", ""),
        ("column.queue", "short"),
        ("column.count", "number"),
        ("column.reason", "clip"),
    ];
    let mut table = Table::new(frame, "nav.audit", &columns).or(frame.t("audit.none"));
    for (source, past) in found {
        let action = &past.action;
        let queue = match source {
            AuditSource::Queue(name) => Cell::link(name.as_str(), &Link::queue(name.as_str(), &[])),
            AuditSource::Deletions | AuditSource::Alerts => Cell::text("–"),
        };
        table.add([
            Cell::time(frame, past.at(), now),
            Cell::text(&action.who),
            Cell::text(&action.what)
                .under(format!("{} {}", frame.about(&action.target), frame.written(&action.outcome)).trim()),
            queue,
            Cell::text(action.count.map_or_else(|| "–".to_owned(), grouped)),
            Cell::text(frame.written(&action.why)),
        ]);
    }
    table
}
