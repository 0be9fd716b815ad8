//! Jobs that a page lists. A page looks for a bounded time, and says how many jobs it has looked at.

use std::time::{Duration, Instant};

use streamfleet::Queue;
use streamfleet::job::{QueueName, State, Timestamp};
use streamfleet_engine::admin::{FoundJob, Holdings, JobSearch};
use streamfleet_operations::jobs::search::{Facts, Start, Walk};

use super::criteria::Criteria;
use super::frame::{Frame, grouped};
use super::table::{Cell, Table, state_key};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::times::short;

/// The most rows of a page.
pub(super) const ROWS: usize = 50;

/// How long a page looks for jobs that match a filter, …
const LONGEST: Duration = Duration::from_millis(60);

/// … and for any jobs: it finds some as soon as it comes to a queue that has some.
const LONGEST_FOR_ANY: Duration = Duration::from_secs(2);

/// The most queues that a page names as searched.
const NAMED: usize = 6;

/// What a page has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) jobs: Vec<(QueueName, FoundJob)>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
    pub(super) now: Timestamp,
    /// How far it has looked.
    facts: Facts,
    /// What was left out, and why.
    pub(super) remarks: Vec<String>,
    /// The queues that it looked at, of those that it was asked for, and the states that it looked for.
    searched: Vec<QueueName>,
    queues: usize,
    states: Vec<State>,
    /// Whether it goes on where an earlier page ended.
    goes_on: bool,
}

/// Looks for jobs in these queues.
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
    let mut search =
        JobSearch::new().filter(criteria.filter.clone()).gate(criteria.gate.clone()).holdings(holdings);
    if !criteria.states.is_empty() {
        search = search.states(criteria.states.clone());
    }
    let wrong = |why: String| Problem::field("query.after", why);
    let after = criteria.after.as_deref().map(str::parse::<Start>).transpose().map_err(wrong)?;
    let (states, goes_on) = (search.states.clone(), after.is_some());
    let mut found = Found { queues: queues.len(), states, goes_on, ..Found::default() };
    let mut walk =
        Walk::new(queues.to_vec(), search, after.as_ref()).map_err(|error| wrong(error.to_string()))?;
    let finds_any = criteria.is_empty() && criteria.states.is_empty();
    let longest = if finds_any { LONGEST_FOR_ANY } else { LONGEST };
    let begun = Instant::now();
    while found.jobs.len() < ROWS && begun.elapsed() < longest {
        let page = walk.page(ROWS - found.jobs.len()).await;
        let page = page.map_err(|error| Problem::redis("the jobs could not be read", &error))?;
        let Some((queue, page)) = page else { break };
        found.now = page.now;
        found.jobs.extend(page.jobs.into_iter().map(|job| (queue.clone(), job)));
        if found.searched.last() != Some(&queue) {
            found.searched.push(queue);
        }
    }
    found.next = walk.next().map(ToString::to_string);
    found.facts = walk.facts().await;
    Ok(found.complete(frame))
}

impl Found {
    /// Says what was left out. Records are found in no order, so they are put into that of their ends.
    fn complete(mut self, frame: &Frame) -> Self {
        if self.states.iter().all(|state| matches!(state, State::Done | State::Cancelled)) {
            self.jobs.sort_by_key(|(_, job)| std::cmp::Reverse(job.ended));
            if self.next.is_some() || self.goes_on {
                self.remarks.push(frame.t("found.records").to_owned());
            }
        }
        self.remarks.extend(self.facts.unread.iter().cloned());
        if self.facts.too_large > 0 {
            self.remarks.push(frame.number_of("found.too_large", self.facts.too_large));
        }
        if self.facts.unreadable > 0 {
            self.remarks.push(frame.number_of("found.unreadable", self.facts.unreadable));
        }
        self
    }

    /// What stands in place of the jobs if there are none: that there are none only if the page has looked at everything.
    fn nothing(&self, frame: &Frame) -> String {
        let read = grouped(self.facts.looked_at);
        match (self.facts.complete, self.goes_on, self.facts.of) {
            (true, false, _) => frame.t("found.none").to_owned(),
            (true, true, _) => frame.t("found.no_more").to_owned(),
            (false, _, Some(of)) => frame.fill("found.none_of", &[("read", &read), ("of", &grouped(of))]),
            (false, _, None) => frame.fill("found.none_yet", &[("read", &read)]),
        }
    }

    /// What the page has looked at, and whether that was everything, in words.
    pub(super) fn summary(&self, frame: &Frame) -> String {
        let (shown, read) = (grouped(self.jobs.len() as u64), grouped(self.facts.looked_at));
        let looked = match self.facts.of.filter(|_| self.next.is_some()) {
            Some(of) => {
                frame.fill("found.summary_of", &[("shown", &shown), ("read", &read), ("of", &grouped(of))])
            }
            None => frame.fill("found.summary", &[("shown", &shown), ("read", &read)]),
        };
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
        let rest = match (self.next.is_some(), self.facts.complete && !self.goes_on) {
            (true, _) => "found.more",
            (false, false) => "found.rest",
            (false, true) => "found.all",
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
        let mut table = Table::new(frame, "found.caption", &columns).or(self.nothing(frame));
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
    use super::super::frame::tests_frame;
    use super::*;

    #[test]
    fn a_page_says_that_there_are_none_only_if_it_has_looked_at_all() {
        let frame = tests_frame();
        let nothing = |of, complete| {
            let facts = Facts { looked_at: 62_000, of, complete, ..Facts::default() };
            Found { facts, ..Found::default() }.nothing(&frame)
        };
        let yet = "No job was found yet: 62,000 of about 1,200,000 were looked at.";
        assert_eq!(nothing(Some(1_200_000), false), yet);
        assert_eq!(nothing(None, false), "No job was found yet: 62,000 were looked at.");
        assert_eq!(nothing(Some(62_000), true), "No jobs were found here.");
    }
}
