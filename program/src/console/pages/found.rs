//! Jobs that a page lists. A page reads a bounded number of jobs, and says how many it has looked at.

use std::time::{Duration, Instant};

use streamfleet::Queue;
use streamfleet::admin::{FoundJob, Holdings, JobCursor, JobSearch};
use streamfleet::job::{QueueName, State, Timestamp};

use super::criteria::Criteria;
use super::frame::{Frame, grouped};
use super::table::{Cell, Table};
use super::target;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::times::short;

/// The most rows of a page.
pub(super) const ROWS: usize = 50;

/// The most jobs that one page looks at …
const MOST: u64 = 5000;

/// … and how long it looks.
const LONGEST: Duration = Duration::from_millis(60);

/// What a page has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) jobs: Vec<(QueueName, FoundJob)>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
    pub(super) now: Timestamp,
    /// How many jobs it looked at.
    pub(super) read: u64,
    /// What was left out, and why.
    pub(super) remarks: Vec<String>,
}

/// Where a page begins: in a queue, and at a place there.
fn start(text: &str) -> Result<(QueueName, Option<JobCursor>), Problem> {
    let wrong = || Problem::field("query.after", "it must be the place where an earlier page ended");
    let (queue, cursor) = text.split_once('/').ok_or_else(wrong)?;
    let cursor = Some(cursor).filter(|cursor| !cursor.is_empty()).map(str::parse::<JobCursor>);
    Ok((queue.parse().map_err(|_| wrong())?, cursor.transpose().map_err(|_| wrong())?))
}

/// Looks for jobs in these queues, which are in the order of their names.
///
/// # Errors
///
/// [`Problem`] if Redis does not answer, or the address names no place to begin.
pub(super) async fn search(
    frame: &Frame,
    queues: &[Queue],
    criteria: &Criteria,
    holdings: Holdings,
) -> Result<Found, Problem> {
    let mut search = JobSearch::new().filter(criteria.filter.clone()).holdings(holdings);
    if !criteria.states.is_empty() {
        search = search.states(criteria.states.clone());
    }
    let begin = criteria.after.as_deref().map(start).transpose()?;
    let (first, mut from) = begin.map_or((None, None), |(queue, cursor)| (Some(queue), cursor));
    let rest: Vec<&Queue> =
        queues.iter().filter(|queue| first.as_ref().is_none_or(|first| queue.name() >= first)).collect();
    if first.is_some() && rest.first().map(|queue| queue.name()) != first.as_ref() {
        from = None;
    }
    let (mut found, begun) = (Found::default(), Instant::now());
    let (mut too_large, mut unreadable) = (0, 0);
    for (at, queue) in rest.iter().enumerate() {
        loop {
            let page = queue.find_jobs(&search, from).await;
            let page = page.map_err(|error| target::redis("the jobs could not be read", queue, &error))?;
            let page = page.cut(ROWS.saturating_sub(found.jobs.len()).max(1));
            (found.now, found.read) = (page.now, found.read + page.read);
            (too_large, unreadable) = (too_large + page.too_large, unreadable + page.unreadable);
            found.remarks.extend(page.unread.map(|why| format!("{}: {why}", queue.name())));
            found.jobs.extend(page.jobs.into_iter().map(|job| (queue.name().clone(), job)));
            from = page.next;
            let is_full = found.jobs.len() >= ROWS || found.read >= MOST || begun.elapsed() >= LONGEST;
            if is_full {
                let here = from.map(|from| format!("{}/{from}", queue.name()));
                found.next = here.or_else(|| rest.get(at + 1).map(|next| format!("{}/", next.name())));
                found.remark(frame, (too_large, unreadable));
                return Ok(found);
            }
            if from.is_none() {
                break;
            }
        }
    }
    found.remark(frame, (too_large, unreadable));
    Ok(found)
}

impl Found {
    fn remark(&mut self, frame: &Frame, (too_large, unreadable): (u64, u64)) {
        if too_large > 0 {
            self.remarks.push(frame.number_of("found.too_large", too_large));
        }
        if unreadable > 0 {
            self.remarks.push(frame.number_of("found.unreadable", unreadable));
        }
    }

    /// What the page has looked at, in words.
    pub(super) fn summary(&self, frame: &Frame) -> String {
        let (shown, read) = (grouped(self.jobs.len() as u64), grouped(self.read));
        frame.fill("found.summary", &[("shown", &shown), ("read", &read)])
    }

    /// The jobs as a table.
    pub(super) fn table(&self, frame: &Frame, with_queue: bool) -> Table {
        let mut columns = vec![
            ("column.job", ""),
            ("column.state", "short"),
            ("column.age", "short"),
            ("column.attempts", "number"),
            ("column.place", "clip"),
        ];
        if with_queue {
            columns.insert(1, ("column.queue", "short"));
        }
        let mut table = Table::new(frame, "found.caption", &columns);
        for (queue, job) in &self.jobs {
            table.add(self.row(frame, (queue, job), with_queue));
        }
        table
    }

    fn row(&self, frame: &Frame, (queue, job): (&QueueName, &FoundJob), with_queue: bool) -> Vec<Cell> {
        let mut cells = vec![Cell::id(&job.id, &job_link(queue, job)).under(&job.job_type)];
        if with_queue {
            cells.push(Cell::link(queue.as_str(), &Link::queue(queue.as_str(), &[])));
        }
        cells.push(Cell::state(frame, job.state));
        cells.push(Cell::text(age(job, self.now)));
        cells.push(Cell::number(job.attempts));
        let error = job.error.as_deref().filter(|_| frame.sees_payloads()).unwrap_or_default();
        cells.push(Cell::text(place(frame, job, self.now)).under(error));
        cells
    }
}

/// Where a job's page is. A dead job leads to its letter.
pub(super) fn job_link(queue: &QueueName, job: &FoundJob) -> Link {
    match (job.state, job.entry) {
        (State::Dead, Some(letter)) => Link::queue(queue.as_str(), &["dead", &letter.to_string()]),
        _ => Link::job(queue.as_str(), &job.id),
    }
}

/// How long a job has been running, dead or there.
pub(super) fn age(job: &FoundJob, now: Timestamp) -> String {
    let holder = job.holder.as_ref();
    if holder.is_some_and(|holder| !holder.has_begun) {
        return "–".to_owned();
    }
    let age = job.age(now).map_or_else(|| "?".to_owned(), short);
    let is_exact = holder.is_none_or(|holder| holder.is_exact);
    if is_exact { age } else { format!("< {age}") }
}

/// Where a job is, in words.
pub(super) fn place(frame: &Frame, job: &FoundJob, now: Timestamp) -> String {
    if let Some(holder) = &job.holder {
        return holder.worker.clone();
    }
    match job.state {
        State::Scheduled | State::Retrying => match job.due {
            Some(due) if due > now => frame.fill("place.due", &[("time", &frame.distance(due, now))]),
            Some(_) | None => frame.t("place.due_now").to_owned(),
        },
        State::Waiting | State::Running => match &job.room {
            Some(gate) => frame.fill("place.gate", &[("gate", &frame.about(gate))]),
            None => frame.fill("place.lane", &[("lane", job.lane.map_or("?", |lane| lane.as_str()))]),
        },
        State::Dead => frame.t("place.letter").to_owned(),
        State::Done | State::Cancelled => frame.t("place.record").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_where_an_earlier_one_ended() {
        let (queue, cursor) = start("mail/waiting-high:1700000000000-0").unwrap();
        assert_eq!(
            (queue.as_str(), cursor.unwrap().to_string().as_str()),
            ("mail", "waiting-high:1700000000000-0")
        );
        assert!(start("mail/").unwrap().1.is_none());
        for text in ["", "mail", "mail/x", "Mail X/"] {
            assert!(start(text).is_err(), "{text}");
        }
    }
}
