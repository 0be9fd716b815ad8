//! The groups of dead letters: those of one queue, and a page with those of all queues, the largest first.

use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use streamfleet::Queue;
use streamfleet::job::{QueueName, Timestamp};
use streamfleet_engine::admin::DeadGroup;

use super::dead::reason_key;
use super::found::ROWS;
use super::frame::Frame;
use super::list::{Asked, List, Narrow};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use super::trend::Trend;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// The group that counts the letters of all those without one of their own.
const OTHER: &str = "other";

/// Shows the groups of all queues.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["dead"]);
    let narrow = Narrow::new(&frame, &here)
        .queue(&frame, &asked, &queues)
        .field(&frame, &asked, ("type", "column.type"))
        .field(&frame, &asked, ("reason", "column.reason"));
    asked.retain_queues(&mut queues);
    let reading = stream::iter(queues).map(|queue| async move {
        let dead = queue.dead_letters();
        let read = async { tokio::try_join!(queue.clock(), dead.groups()) };
        let read = read.await.map_err(|error| format!("{}: {}", queue.name(), queue.with_keys(&error)));
        (queue.name().clone(), read)
    });
    let read: Vec<_> = reading.buffered(AT_ONCE).collect().await;
    let (mut found, mut remarks, mut now) = (Vec::new(), Vec::new(), Timestamp::default());
    let (mut letters, mut uncounted) = (0, 0);
    for (name, read) in read {
        match read {
            Ok((clock, dead)) => {
                (now, letters) = (now.max(clock), letters + dead.letters);
                uncounted += dead.uncounted();
                let wanted = dead.groups.into_iter().filter(|group| is_wanted(&asked, group));
                found.extend(wanted.map(|group| (name.clone(), group)));
            }
            Err(error) => remarks.push(error),
        }
    }
    if uncounted > 0 {
        remarks.push(frame.number_of("dead.uncounted", uncounted));
    }
    found.sort_by_key(|(_, group)| std::cmp::Reverse((group.count, group.last)));
    let next = narrow.next(here, asked.cut(&mut found, ROWS)?);
    let mut table = Table::new(&frame, "dead.groups", &columns(true)).or(frame.t("dead.none"));
    for (queue, group) in &found {
        table.add(row(&frame, (queue, group), Of::All, now));
    }
    let (title, total) = (frame.t("nav.dead"), frame.number_of("dead.total", letters));
    let line = frame.fill("dead.line", &[("letters", &total)]);
    let page = List { frame: &frame, title, line, narrow, table, remarks, more: Vec::new(), next };
    Ok(frame.page(title, Some(Section::Dead), &page))
}

/// Whether the address asks for a group.
fn is_wanted(asked: &Asked, group: &DeadGroup) -> bool {
    let job_type = group.job_type.as_ref().map(ToString::to_string).unwrap_or_default();
    asked.fits("type", &job_type) && asked.fits("reason", group.reason.map_or("", |reason| reason.as_str()))
}

/// Which queues a table is about.
#[derive(Clone, Copy)]
enum Of<'a> {
    All,
    /// One, with what is known about its last hour.
    One(&'a Trend),
}

/// The groups of one queue as a table.
pub(super) fn of_queue<'a>(
    frame: &Frame,
    queue: &Queue,
    (groups, trend): (impl Iterator<Item = &'a DeadGroup>, &Trend),
    now: Timestamp,
) -> Table {
    let mut table = Table::new(frame, "dead.groups", &columns(false)).or(frame.t("dead.none"));
    for group in groups {
        table.add(row(frame, (queue.name(), group), Of::One(trend), now));
    }
    table
}

fn columns(with_queue: bool) -> [(&'static str, &'static str); 9] {
    [
        ("column.error", "clip"),
        ("column.type", ""),
        ("column.reason", "short"),
        ("column.letters", "number"),
        ("column.deaths", "number"),
        if with_queue { ("column.queue", "short") } else { ("column.trend", "short") },
        ("column.first", "short"),
        ("column.last", "short"),
        ("column.change", "short"),
    ]
}

fn row(frame: &Frame, (queue, group): (&QueueName, &DeadGroup), of: Of<'_>, now: Timestamp) -> Vec<Cell> {
    let dead = || Link::queue(queue.as_str(), &["dead"]);
    let name = group.fingerprint.clone();
    let letters = dead().with("group", name.as_deref().unwrap_or(OTHER));
    let error = match (&name, frame.sees_payloads()) {
        (None, _) => frame.t("dead.other").to_owned(),
        (Some(_), false) => frame.t("job.hidden").to_owned(),
        (Some(_), true) => frame.said(&group.error),
    };
    let error = if error.is_empty() { "–".to_owned() } else { error };
    let letter = group.sample.map(|letter| Link::queue(queue.as_str(), &["dead", &letter.to_string()]));
    let sample = letter.map_or_else(|| Cell::text("–"), |letter| Cell::link(frame.t("dead.sample"), &letter));
    vec![
        Cell::link(error, &letters).under(name.unwrap_or_default()),
        Cell::like(group.job_type.as_ref().map(ToString::to_string).unwrap_or_default(), "mono"),
        Cell::text(group.reason.map_or("–", |reason| frame.t(reason_key(reason)))),
        Cell::counted(group.count, &letters),
        Cell::number(group.deaths),
        match of {
            Of::All => Cell::link(queue.as_str(), &dead()),
            Of::One(trend) => Cell::chart(trend.chart(frame, group)),
        },
        Cell::time(frame, group.first, now),
        Cell::time(frame, group.last, now),
        sample,
    ]
}
