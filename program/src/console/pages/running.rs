//! What runs now, the longest first.

use axum::extract::{Query, State as Shared};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use streamfleet::Queue;
use streamfleet::job::{QueueName, State, Timestamp};
use streamfleet_engine::admin::{FoundJob, Holdings, JobSearch};

use super::found::{ROWS, age};
use super::frame::Frame;
use super::list::{Asked, List, Narrow};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times::short;

/// How many queues, or entries, are read at once.
const AT_ONCE: usize = 8;

/// The most running jobs of one queue that are compared.
const MOST: usize = 5000;

/// What one queue runs.
struct Running {
    queue: Queue,
    now: Timestamp,
    jobs: Vec<FoundJob>,
    /// Why not all of it is here.
    remark: Option<String>,
}

/// Shows the page.
pub(super) async fn show(
    Shared(site): Shared<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["running"]);
    let narrow = Narrow::new(&frame, &here).queue(&frame, &asked, &queues).field(
        &frame,
        &asked,
        ("worker", "column.worker"),
    );
    asked.retain_queues(&mut queues);
    let holdings = Holdings::of(&site.known().await?.workers);
    let search = JobSearch::new().states(vec![State::Running]).holdings(holdings).only_places(true);
    let reading = stream::iter(queues).map(move |queue| read(queue, search.clone())).buffered(AT_ONCE);
    let mut read: Vec<Running> = reading.collect().await;
    let remarks: Vec<String> = read.iter_mut().filter_map(|one| one.remark.take()).collect();
    let all = read.into_iter().flat_map(|one| {
        let Running { queue, now, jobs, .. } = one;
        jobs.into_iter().map(move |job| (queue.clone(), job, now))
    });
    let is_wanted = |job: &FoundJob| match (asked.get("worker"), &job.holder) {
        (None, _) => true,
        (Some(name), holder) => holder.as_ref().is_some_and(|holder| holder.worker == name),
    };
    let mut all: Vec<(Queue, FoundJob, Timestamp)> = all.filter(|(_, job, _)| is_wanted(job)).collect();
    let total = all.len() as u64;
    all.sort_by_key(|(_, job, now)| std::cmp::Reverse(job.age(*now)));
    let next = asked.cut(&mut all, ROWS)?;
    // Only those that are shown are read.
    let whole = stream::iter(all).map(|(queue, job, now)| async move {
        let job = queue.read_found(job).await.ok().flatten()?;
        Some((queue.name().clone(), job, now))
    });
    let whole: Vec<_> = whole.buffered(AT_ONCE).collect().await;
    let table = table(&frame, whole.into_iter().flatten());
    let (title, line) = (frame.t("nav.running"), frame.number_of("running.line", total));
    let next = narrow.next(here, next);
    let page = List { frame: &frame, title, line, narrow, table, remarks, more: Vec::new(), next };
    Ok(frame.page(title, Some(Section::Running), &page))
}

async fn read(queue: Queue, search: JobSearch) -> Running {
    let mut running = Running { queue, now: Timestamp::default(), jobs: Vec::new(), remark: None };
    let mut walk = running.queue.walk_jobs(&search, None);
    loop {
        let page = match walk.page(usize::MAX).await {
            Ok(page) => page,
            Err(error) => {
                running.remark =
                    Some(format!("{}: {}", running.queue.name(), running.queue.with_keys(&error)));
                return running;
            }
        };
        running.now = page.now;
        let is_last = page.next.is_none();
        running.jobs.extend(page.jobs);
        running.remark = page.unread.map(|why| format!("{}: {why}", running.queue.name())).or(running.remark);
        if is_last {
            return running;
        }
        if running.jobs.len() >= MOST {
            running.remark = Some(format!("{}: > {MOST}", running.queue.name()));
            return running;
        }
    }
}

fn table(frame: &Frame, jobs: impl Iterator<Item = (QueueName, FoundJob, Timestamp)>) -> Table {
    let columns = [
        ("column.job", ""),
        ("column.queue", "short"),
        ("column.running_for", "short"),
        ("column.worker", "clip"),
        ("column.silent", "short"),
        ("column.deliveries", "number"),
    ];
    let mut table = Table::new(frame, "nav.running", &columns).or(frame.t("running.none"));
    for (queue, job, now) in jobs {
        let Some(holder) = &job.holder else { continue };
        let link = Link::job(queue.as_str(), &job.id);
        table.add([
            Cell::id(&job.id, &link).under(&job.job_type),
            Cell::link(queue.as_str(), &Link::queue(queue.as_str(), &[])),
            Cell::text(age(&job, now)),
            Cell::link(&holder.worker, &Link::to(&["workers"])),
            Cell::text(short(holder.silent)),
            Cell::number(holder.deliveries),
        ]);
    }
    table
}
