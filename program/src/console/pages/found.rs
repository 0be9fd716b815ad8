//! Jobs that a page lists. A page reads a bounded number of jobs, and says how many it has looked at.

use std::time::{Duration, Instant};

use streamfleet::Queue;
use streamfleet::job::{QueueName, State, Timestamp};
use streamfleet_engine::admin::{FoundJob, Holdings, JobCursor, JobSearch};

use super::criteria::Criteria;
use super::frame::{Frame, grouped};
use super::table::{Cell, Table, state_key};
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

/// The most queues that a page names as searched.
const NAMED: usize = 6;

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
    /// The queues that it looked at, of those that it was asked for, and the states that it looked for.
    searched: Vec<QueueName>,
    queues: usize,
    states: Vec<State>,
    /// Whether it goes on where an earlier page ended.
    goes_on: bool,
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
    criteria.check_jobs(frame)?;
    let mut search = JobSearch::new().filter(criteria.filter.clone()).holdings(holdings);
    if !criteria.states.is_empty() {
        search = search.states(criteria.states.clone());
    }
    let begin = criteria.after.as_deref().map(start).transpose()?;
    let goes_on = begin.is_some();
    let (first, mut from) = begin.map_or((None, None), |(queue, cursor)| (Some(queue), cursor));
    let rest: Vec<&Queue> =
        queues.iter().filter(|queue| first.as_ref().is_none_or(|first| queue.name() >= first)).collect();
    if first.is_some() && rest.first().map(|queue| queue.name()) != first.as_ref() {
        from = None;
    }
    let states = search.states.clone();
    let (mut found, begun) =
        (Found { queues: queues.len(), states, goes_on, ..Found::default() }, Instant::now());
    let (mut too_large, mut unreadable) = (0, 0);
    for (at, queue) in rest.iter().enumerate() {
        found.searched.push(queue.name().clone());
        if criteria.is_at_gate() && from.is_none() {
            // Nowhere else are jobs at gates.
            from = Some(rooms());
        }
        loop {
            let page = queue.find_jobs(&search, from).await;
            let page = page.map_err(|error| target::redis("the jobs could not be read", queue, &error))?;
            let page = page.cut(ROWS.saturating_sub(found.jobs.len()).max(1));
            (found.now, found.read) = (page.now, found.read + page.read);
            (too_large, unreadable) = (too_large + page.too_large, unreadable + page.unreadable);
            found.remarks.extend(page.unread.map(|why| format!("{}: {why}", queue.name())));
            let listed = page.jobs.into_iter().filter(|job| criteria.lists(job));
            found.jobs.extend(listed.map(|job| (queue.name().clone(), job)));
            from = page.next;
            let is_full = found.jobs.len() >= ROWS || found.read >= MOST || begun.elapsed() >= LONGEST;
            if is_full {
                let here = from.map(|from| format!("{}/{from}", queue.name()));
                found.next = here.or_else(|| rest.get(at + 1).map(|next| format!("{}/", next.name())));
                return Ok(found.complete(frame, (too_large, unreadable)));
            }
            if from.is_none() {
                break;
            }
        }
    }
    Ok(found.complete(frame, (too_large, unreadable)))
}

/// Where the jobs that wait at gates begin.
fn rooms() -> JobCursor {
    "rooms:".parse().expect("a search reads rooms")
}

impl Found {
    /// Says what was left out. Records are found in no order, so they are put into that of their ends.
    fn complete(mut self, frame: &Frame, (too_large, unreadable): (u64, u64)) -> Self {
        if self.states.iter().all(|state| matches!(state, State::Done | State::Cancelled)) {
            self.jobs.sort_by_key(|(_, job)| std::cmp::Reverse(job.ended));
            if self.next.is_some() || self.goes_on {
                self.remarks.push(frame.t("found.records").to_owned());
            }
        }
        if too_large > 0 {
            self.remarks.push(frame.number_of("found.too_large", too_large));
        }
        if unreadable > 0 {
            self.remarks.push(frame.number_of("found.unreadable", unreadable));
        }
        self
    }

    /// What the page has looked at, and whether that was everything, in words.
    pub(super) fn summary(&self, frame: &Frame) -> String {
        let (shown, read) = (grouped(self.jobs.len() as u64), grouped(self.read));
        let looked = frame.fill("found.summary", &[("shown", &shown), ("read", &read)]);
        let mut names: Vec<&str> = self.searched.iter().take(NAMED).map(QueueName::as_str).collect();
        let more = format!("+{}", self.searched.len().saturating_sub(NAMED));
        if self.searched.len() > NAMED {
            names.push(&more);
        }
        let (of, searched) = (grouped(self.queues as u64), grouped(self.searched.len() as u64));
        let states: Vec<&str> = self.states.iter().map(|state| frame.t(state_key(*state))).collect();
        let where_to =
            [("queues", names.join(", ")), ("searched", searched), ("of", of), ("states", states.join(", "))];
        let where_to = where_to.each_ref().map(|(name, value)| (*name, value.as_str()));
        let rest = match (self.next.is_some(), self.goes_on) {
            (true, _) => "found.more",
            (false, true) => "found.rest",
            (false, false) => "found.all",
        };
        format!("{looked}. {} {}", frame.fill("found.where", &where_to), frame.t(rest))
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
        let error = frame.said(job.error.as_deref().unwrap_or_default());
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
        State::Done | State::Cancelled => match job.ended {
            Some(ended) => frame.fill("place.ended", &[("time", &frame.distance(ended, now))]),
            None => frame.t("place.record").to_owned(),
        },
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
