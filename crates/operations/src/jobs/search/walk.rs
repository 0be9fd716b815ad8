//! A walk over the jobs of several queues, one queue after the other: what commands, requests and pages find jobs by.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use streamfleet::job::{QueueName, State, Timestamp};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{Filter, JobCursor, JobSearch, JobWalk};
use streamfleet_sql::history::questions::Cursor;

use super::Row;
use super::past::{Past, PastError, PastPage, PastSearch};
use crate::Error;

/// The most queues whose jobs are counted to say how much there is to look at, …
const MAX_COUNTED: usize = 100;

/// … how many of them are counted at once, …
const COUNTED_AT_ONCE: usize = 8;

/// … and how long that may take.
const COUNT_FOR: Duration = Duration::from_secs(1);

/// Where a walk goes on: a queue, and a place in it.
#[derive(Debug, Clone)]
pub struct Start {
    /// The queue.
    pub queue: QueueName,
    pub(super) place: Place,
}

/// A place in a queue.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In Redis; nothing for the beginning.
    Redis(Option<JobCursor>),
    /// In the history, after all that Redis has; nothing for the latest end.
    History(Option<Cursor>),
}

/// What a place in the history begins with.
const HISTORY: &str = "history:";

impl fmt::Display for Start {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/", self.queue)?;
        match &self.place {
            Place::Redis(None) => Ok(()),
            Place::Redis(Some(cursor)) => cursor.fmt(out),
            Place::History(None) => out.write_str(HISTORY),
            Place::History(Some(cursor)) => write!(out, "{HISTORY}{cursor}"),
        }
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = || "it must be the `next` of an earlier page".to_owned();
        let (queue, place) = text.split_once('/').ok_or_else(rule)?;
        let place = match (place, place.strip_prefix(HISTORY)) {
            ("", _) => Place::Redis(None),
            (_, Some("")) => Place::History(None),
            (_, Some(cursor)) => Place::History(Some(cursor.parse().map_err(|_| rule())?)),
            (cursor, None) => Place::Redis(Some(cursor.parse()?)),
        };
        Ok(Self { queue: queue.parse().map_err(|_| rule())?, place })
    }
}

/// How far a walk is, for JSON output.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[schema(as = JobSearchFacts)]
pub struct Facts {
    /// How many jobs were looked at. A search with `after` counts from there.
    pub looked_at: u64,
    /// About how many jobs there are where the whole search looks; null if that is not known: nobody counts ended jobs, nor
    /// the jobs of more than 100 queues.
    pub of: Option<u64>,
    /// True if everything was looked at. Only then has a search that found nothing shown that there is nothing.
    pub complete: bool,
    /// How many jobs were looked at, for programs that do not know `looked_at`.
    pub read: u64,
    /// How many could not be decided because their payload is too large.
    pub too_large: u64,
    /// How many could not be decided because their payload or their record cannot be read.
    pub unreadable: u64,
    /// Parts of queues that cannot be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// True if the search was interrupted.
    pub interrupted: bool,
}

impl Facts {
    /// How far a search is that has no queues to look at.
    pub fn nowhere() -> Self {
        Self { of: Some(0), complete: true, ..Self::default() }
    }

    /// How many jobs were looked at, and of how many, if that is less than all.
    pub fn looked_at_text(&self) -> String {
        match self.of.filter(|_| !self.complete) {
            Some(of) => format!("{} of about {of}", self.looked_at),
            None => self.looked_at.to_string(),
        }
    }
}

fn beginning(queue: &Queue) -> Start {
    Start { queue: queue.name().clone(), place: Place::Redis(None) }
}

/// What a walk looks for in the history.
pub(super) struct PastPart {
    pub(super) past: Past,
    pub(super) states: Vec<State>,
    pub(super) filter: Filter,
    /// The time by Redis's clock when it began.
    pub(super) now: Timestamp,
}

/// A walk under way. It may be left between two pages, and another one goes on where it was.
pub struct Walk {
    search: JobSearch,
    /// What it looks for in the history, if anything.
    past: Option<PastPart>,
    /// All queues, in the order of their names.
    queues: Vec<Queue>,
    /// Those that are not finished.
    left: VecDeque<Queue>,
    /// The walk over the first of them, once it has begun.
    current: Option<JobWalk>,
    next: Option<Start>,
    /// Whether it began with the first job.
    is_whole: bool,
    /// About how many jobs there are where it looks, once they were counted, if that was possible.
    total: Option<Option<u64>>,
    facts: Facts,
}

impl Walk {
    /// Begins a walk, or goes on with an earlier one.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the earlier one stopped in a queue that is not among these.
    pub fn new(mut queues: Vec<Queue>, search: JobSearch, after: Option<&Start>) -> Result<Self, Error> {
        queues.sort_by(|one, other| one.name().cmp(other.name()));
        queues.dedup_by(|one, other| one.name() == other.name());
        let is_left = |queue: &&Queue| after.is_none_or(|after| *queue.name() >= after.queue);
        let left: VecDeque<Queue> = queues.iter().filter(is_left).cloned().collect();
        let first = left.front().map(beginning);
        if let Some(after) = after
            && first.as_ref().map(|first| &first.queue) != Some(&after.queue)
        {
            let why = format!("the page after {after} is in a queue that is not listed");
            return Err(Error::invalid("after", why));
        }
        let (next, is_whole) = (after.cloned().or(first), after.is_none());
        let (current, total, facts) = (None, None, Facts::default());
        Ok(Self { search, past: None, queues, left, current, next, is_whole, total, facts })
    }

    /// Goes on in the history with jobs in these states that match, once it has looked at all that Redis has of a queue.
    #[must_use]
    pub(super) fn past(mut self, past: PastPart) -> Self {
        self.past = Some(past);
        self
    }

    /// Where it goes on; `None` if it has looked at everything.
    pub fn next(&self) -> Option<&Start> {
        self.next.as_ref()
    }

    /// Looks at some hundred jobs, and returns those that match, at most this many; `None` if it has looked at everything.
    ///
    /// # Errors
    ///
    /// [`RedisError`] if Redis does not answer or refuses. The walk is then where it was.
    pub async fn page(&mut self, most: usize) -> Result<Option<Vec<Row>>, RedisError> {
        let Some(start) = self.next.clone() else { return Ok(None) };
        let Some(queue) = self.left.front().cloned() else { return Ok(None) };
        let rows = match start.place {
            Place::Redis(cursor) => self.redis_page(&queue, cursor, most).await?,
            Place::History(after) => self.past_page(&queue, after.as_ref(), most).await?,
        };
        Ok(Some(rows))
    }

    async fn redis_page(
        &mut self,
        queue: &Queue,
        cursor: Option<JobCursor>,
        most: usize,
    ) -> Result<Vec<Row>, RedisError> {
        let begin = || queue.walk_jobs(&self.search, cursor);
        let mut walk = self.current.take().unwrap_or_else(begin);
        let page = walk.page(most).await?;
        let name = queue.name();
        self.facts.looked_at += page.read;
        self.facts.too_large += page.too_large;
        self.facts.unreadable += page.unreadable;
        let unread = page.unread.iter().map(|why| format!("a part of the queue {name} is not shown: {why}"));
        self.facts.unread.extend(unread);
        if page.next.is_some() {
            self.current = Some(walk);
            self.go_on_at(queue, Place::Redis(page.next));
        } else if self.past.is_some() {
            self.go_on_at(queue, Place::History(None));
        } else {
            self.leave_queue();
        }
        Ok(page.jobs.into_iter().map(|job| Row::new(name, job, page.now)).collect())
    }

    /// A history that cannot be read is told with the facts: what Redis has was found without it.
    async fn past_page(
        &mut self,
        queue: &Queue,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Vec<Row>, RedisError> {
        let Some(PastPart { past, states, filter, now }) = &self.past else {
            self.leave_queue();
            return Ok(Vec::new());
        };
        let search = PastSearch { states, filter, now: *now, most };
        let page = match past.page(queue, &search, after).await {
            Ok(page) => page,
            Err(PastError::Redis(error)) => return Err(error),
            Err(PastError::Database(error)) => {
                let why = format!("the history of the queue {} is not shown: {error}", queue.name());
                self.facts.unread.push(why);
                PastPage::default()
            }
        };
        self.facts.looked_at += page.looked_at;
        self.facts.too_large += page.too_large;
        self.facts.unreadable += page.unreadable;
        match page.next {
            Some(next) => self.go_on_at(queue, Place::History(Some(next))),
            None => self.leave_queue(),
        }
        Ok(page.rows)
    }

    fn go_on_at(&mut self, queue: &Queue, place: Place) {
        self.next = Some(Start { queue: queue.name().clone(), place });
    }

    fn leave_queue(&mut self) {
        self.left.pop_front();
        self.next = self.left.front().map(beginning);
    }

    /// Returns how far it is. Counts the jobs, if that is needed and was not done before.
    pub async fn facts(&mut self) -> Facts {
        let complete = self.next.is_none() && self.facts.unread.is_empty();
        let looked_at = self.facts.looked_at;
        let total = if complete && self.is_whole { Some(looked_at) } else { self.total().await };
        // Jobs may have arrived since they were counted.
        let of = total.map(|total| total.max(looked_at));
        Facts { of, complete, read: looked_at, ..self.facts.clone() }
    }

    async fn total(&mut self) -> Option<u64> {
        if let Some(total) = self.total {
            return total;
        }
        let total = tokio::time::timeout(COUNT_FOR, self.count()).await.ok().flatten();
        self.total = Some(total);
        total
    }

    /// Counts the jobs where the search looks, in all queues.
    async fn count(&self) -> Option<u64> {
        // Nobody counts what is in a history.
        if self.queues.len() > MAX_COUNTED || self.past.is_some() {
            return None;
        }
        // Futures rather than an iterator that makes them, because a server's tasks may move to another thread at every wait.
        let counting: Vec<_> = self.queues.iter().map(|queue| queue.count_jobs(&self.search)).collect();
        let counted: Vec<_> = stream::iter(counting).buffered(COUNTED_AT_ONCE).collect().await;
        counted.into_iter().map(|count| count.ok().flatten()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_at_the_next_of_an_earlier_one() {
        let start: Start = "mail/waiting-high:1700000000000-0".parse().unwrap();
        assert_eq!(start.queue.as_str(), "mail");
        assert!(matches!(start.place, Place::Redis(Some(_))));
        assert!(matches!("mail/".parse::<Start>().unwrap().place, Place::Redis(None)));
        assert!(matches!("mail/history:".parse::<Start>().unwrap().place, Place::History(None)));
        let past = "mail/history:1700000000000~1700000000000-0";
        for text in [
            "mail/",
            "mail/history:",
            past,
            "mail/waiting-high:1700000000000-0",
            "mail/rooms:1700000000000-0-1:1700000000001-0",
        ] {
            assert_eq!(text.parse::<Start>().unwrap().to_string(), text);
        }
        for text in ["", "mail", "mail/dead", "mail/dead:x", "mail/history:x", "Mail/dead:"] {
            assert!(text.parse::<Start>().is_err(), "{text}");
        }
    }
}
