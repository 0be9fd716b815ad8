//! The walk over the jobs of a queue: it goes from place to place, reads a portion at a time, and decides which jobs match.

use std::collections::VecDeque;

use fred::interfaces::StreamsInterface;
use fred::types::Value;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::cursor::{JobCursor, Location};
use super::locations::{COMMAND_BYTES, MOST, is_of_another_type};
use super::waitlists::{MAX_WAITLISTS, WAITLISTS_OF_PAGE, Waitlists};
use super::{FoundJob, JobPage, JobSearch, Portion};
use crate::Queue;
use crate::client::decode;
use crate::client::error::{Class, Error};
use crate::job::filter::{Candidate, Filter, Match};
use crate::job::{self, Envelope, JobId, Timestamp};

/// How many records are looked up at once for a filter about errors.
const AT_ONCE: usize = 32;

/// A walk over the jobs of a queue. [`Queue::walk_jobs`] returns it.
///
/// It looks at running jobs, then at those that wait in lanes and in waiting lists, at delayed and dead ones, and at the records of ended
/// ones. Running, waiting and dead jobs come in the order of their entries, lane by lane; waiting lists in the order in which they got
/// their first jobs; delayed jobs in the order of their due times; records in no order.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::admin::{Filter, JobSearch};
///
/// let search = JobSearch::new().filter(Filter::new().condition("payload.customer=9")?);
/// let total = queue.count_jobs(&search).await?;
/// let (mut walk, mut looked_at) = (queue.walk_jobs(&search, None), 0);
/// loop {
///     let page = walk.page(100).await?;
///     looked_at += page.read;
///     for job in page.jobs {
///         println!("{} is {}", job.id, job.state);
///     }
///     let Some(next) = page.next else { break };
///     println!("looked at {looked_at} of {total:?}; to go on later, keep {next}");
/// }
/// # Ok(()) }
/// ```
pub struct JobWalk {
    queue: Queue,
    search: JobSearch,
    /// Where to read the next portion; `None` at the end.
    from: Option<JobCursor>,
    /// The jobs of the last portion that were not looked at yet.
    ahead: VecDeque<Ahead>,
    /// How many entries of this place to read at once.
    size: job::Portion,
    /// The waiting lists that are not read yet, once they are listed.
    waitlists: Option<Waitlists>,
    /// How many waiting lists to list at once.
    most_waitlists: usize,
}

/// A job that was read, but not looked at yet.
struct Ahead {
    job: FoundJob,
    fields: Option<Envelope>,
    /// False if the filter needs its record, which cannot be read.
    is_readable: bool,
}

impl Queue {
    /// Begins a walk over the jobs that a search looks at, or goes on with one where an earlier one stopped.
    pub fn walk_jobs(&self, search: &JobSearch, from: Option<JobCursor>) -> JobWalk {
        let first = || search.locations().next().map(|location| JobCursor::at(location, None));
        JobWalk {
            queue: self.clone(),
            from: from.or_else(first),
            search: search.clone(),
            ahead: VecDeque::new(),
            size: job::Portion::new(1, MOST, COMMAND_BYTES),
            waitlists: None,
            most_waitlists: MAX_WAITLISTS,
        }
    }

    /// Begins a walk of which only one page is read.
    fn one_page(&self, search: &JobSearch, from: Option<JobCursor>) -> JobWalk {
        JobWalk { most_waitlists: WAITLISTS_OF_PAGE, ..self.walk_jobs(search, from) }
    }

    /// Returns a page of the jobs that match a search. [`JobWalk`] says in which order they come.
    ///
    /// A page looks at a few hundred jobs, or at fewer if they are large. Go on while [`JobPage::next`] is set, even if a page
    /// has no jobs. To read many pages, [`Queue::walk_jobs`] is faster.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer, or refuses everything.
    pub async fn find_jobs(&self, search: &JobSearch, from: Option<JobCursor>) -> Result<JobPage, Error> {
        self.one_page(search, from).page(usize::MAX).await
    }

    /// Finds jobs as [`Queue::find_jobs`] does, with the fields of each as they are in its place, without those that are kept elsewhere.
    pub(crate) async fn find_with_fields(
        &self,
        search: &JobSearch,
        from: Option<JobCursor>,
    ) -> Result<(JobPage, Vec<Option<Envelope>>), Error> {
        self.one_page(search, from).page_with_fields(usize::MAX).await
    }

    /// Returns about how many jobs a search looks at: how many are now where it looks. `None` if nobody can tell: ended jobs are
    /// not counted, and a part of the queue may be unreadable.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn count_jobs(&self, search: &JobSearch) -> Result<Option<u64>, Error> {
        if let Some(gate) = &search.gate {
            let client = self.link.client();
            let length: Value = self.link.ask("xlen", client.xlen(self.keys.waitlist(gate.as_str()))).await?;
            return Ok(decode::number(&length));
        }
        let (figures, _) = self.count(None).await?;
        if !figures.unread.is_empty() {
            return Ok(None);
        }
        let count = |location| match location {
            Location::Held(lane) => Some(figures.lanes[lane as usize].running),
            Location::Waiting(lane) => Some(figures.lanes[lane as usize].waiting),
            Location::Waitlists => Some(figures.in_rooms + figures.in_unknown_rooms + figures.in_fair_rooms),
            Location::Delayed => Some(figures.delayed),
            Location::Dead => Some(figures.dead),
            Location::Records => None,
        };
        Ok(search.locations().map(count).sum())
    }

    /// Looks up the last error of a job, if the filter needs it.
    async fn with_error(
        &self,
        search: &JobSearch,
        (mut job, fields): (FoundJob, Option<Envelope>),
        now: Timestamp,
    ) -> Result<Ahead, Error> {
        let filter = &search.filter;
        let lacks_error = filter.reads_errors() && job.attempts > 0 && job.error.is_none();
        // What is here rules most jobs out, before anything is looked up.
        let may_match = || filter.may_match(&candidate(&job, fields.as_ref()), now);
        let is_needed = lacks_error && search.states.contains(&job.state) && may_match();
        let mut is_readable = true;
        if is_needed && let Ok(id) = job.id.parse::<JobId>() {
            match self.status_without_log(&id).await {
                Err(error) if is_of_another_type(&error) => is_readable = false,
                status => job.error = status?.and_then(|status| status.error),
            }
        }
        Ok(Ahead { job, fields, is_readable })
    }

    /// Returns whether the filter matches a job.
    async fn check(&self, filter: &Filter, ahead: &Ahead, now: Timestamp) -> Result<Match, Error> {
        let Ahead { job, fields, is_readable } = ahead;
        if filter.is_empty() {
            return Ok(Match::Yes);
        }
        if !is_readable {
            return Ok(Match::Unreadable);
        }
        let found = filter.check(&candidate(job, fields.as_ref()), now);
        let is_decided = matches!(found, Match::Yes | Match::No);
        let Some(bare) = fields.as_ref().filter(|fields| !is_decided && !fields.is_whole()) else {
            return Ok(found);
        };
        // Only the large fields can decide. One job's are here at a time.
        let mut whole = bare.clone();
        match self.restore_fields(&self.link, &mut whole).await {
            // The large fields of one job cannot be read. Its other fields can.
            Err(error @ Error::Refused { .. }) if !error.is_transient() => {}
            restored => restored?,
        }
        Ok(filter.check(&candidate(job, Some(&whole)), now))
    }
}

impl JobWalk {
    /// Looks at the next jobs, a few hundred at most, and returns those that match. As soon as it has found `most`, which is at
    /// least 1, it stops, and the next page begins with the job after the last of them.
    ///
    /// Go on while [`JobPage::next`] is set, even if a page has no jobs.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer, or refuses everything. Then begin another walk where the last page ended.
    pub async fn page(&mut self, most: usize) -> Result<JobPage, Error> {
        Ok(self.page_with_fields(most).await?.0)
    }

    /// Looks at the next jobs, and returns those that match with their fields, as [`Queue::find_with_fields`] has them.
    pub(crate) async fn page_with_fields(
        &mut self,
        most: usize,
    ) -> Result<(JobPage, Vec<Option<Envelope>>), Error> {
        let now = self.queue.clock().await?;
        let (mut page, mut found) = (JobPage { now, ..JobPage::default() }, Vec::new());
        while self.ahead.is_empty()
            && let Some(at) = self.from
        {
            self.read_ahead(at, &mut page).await?;
            // Most places are empty. A scan of records may find nothing for long, so a page has only one of its portions.
            let goes_on_there = self.from.is_some_and(|from| from.location == at.location);
            if goes_on_there || page.read > 0 || page.unread.is_some() {
                break;
            }
        }
        while page.jobs.len() < most.max(1)
            && let Some(ahead) = self.ahead.pop_front()
        {
            page.read += 1;
            page.next = Some(ahead.job.cursor);
            if !self.search.states.contains(&ahead.job.state) {
                continue;
            }
            match self.queue.check(&self.search.filter, &ahead, now).await? {
                Match::Yes => {
                    page.jobs.push(ahead.job);
                    found.push(ahead.fields);
                }
                Match::No => {}
                Match::TooLarge => page.too_large += 1,
                Match::Unreadable => page.unreadable += 1,
            }
        }
        if self.ahead.is_empty() {
            page.next = self.from;
        }
        Ok((page, found))
    }

    /// Reads the next portion.
    async fn read_ahead(&mut self, at: JobCursor, page: &mut JobPage) -> Result<(), Error> {
        let portion = match self.read(at).await {
            // A key of the wrong type, or without the right to read it, does not hide the others.
            Err(error) if error.class() == Some(Class::Configuration) => {
                page.unread = Some(self.queue.with_keys(&error));
                Portion::default()
            }
            read => read?,
        };
        page.read += portion.unreadable;
        page.unreadable += portion.unreadable;
        let (queue, search, now) = (&self.queue, &self.search, page.now);
        if search.filter.reads_errors() {
            let looking: Vec<_> =
                portion.jobs.into_iter().map(|job| queue.with_error(search, job, now)).collect();
            self.ahead = stream::iter(looking).buffered(AT_ONCE).try_collect().await?;
        } else {
            let ahead = |(job, fields)| Ahead { job, fields, is_readable: true };
            self.ahead = portion.jobs.into_iter().map(ahead).collect();
        }
        self.from = portion.next;
        if self.from.is_none() {
            let mut later = self.search.locations().skip_while(|location| *location != at.location).skip(1);
            self.from = later.next().map(|location| JobCursor::at(location, None));
            self.size.reset();
        }
        Ok(())
    }

    async fn read(&mut self, at: JobCursor) -> Result<Portion, Error> {
        let (queue, search, size) = (&self.queue, &self.search, &mut self.size);
        match at.location {
            Location::Held(lane) if search.only_places && search.filter.is_empty() => {
                queue.locations_held(lane, at.after, &search.holdings).await
            }
            Location::Held(lane) => queue.page_held(lane, at.after, (&search.holdings, size)).await,
            Location::Waiting(lane) => queue.page_waiting(lane, at.after, size).await,
            Location::Waitlists => {
                let mut waitlists = match self.waitlists.take() {
                    Some(waitlists) => waitlists,
                    None => queue.list_waitlists(search, at, self.most_waitlists).await?,
                };
                let portion = queue.page_waitlists(&mut waitlists).await?;
                self.waitlists = Some(waitlists).filter(|waitlists| !waitlists.is_empty());
                Ok(portion)
            }
            Location::Delayed => queue.page_delayed(at.after).await,
            Location::Dead => queue.page_dead(at.after).await,
            Location::Records => queue.page_records(at.after).await,
        }
    }
}

/// What a filter looks at.
fn candidate<'a>(job: &'a FoundJob, fields: Option<&'a Envelope>) -> Candidate<'a> {
    let job_type = Some(job.job_type.as_str()).filter(|name| fields.is_none() && !name.is_empty());
    let candidate = Candidate::new(&job.id).state(job.state).fields(fields).job_type(job_type);
    candidate.error(job.error.as_deref()).at(job.died.or(job.created))
}
