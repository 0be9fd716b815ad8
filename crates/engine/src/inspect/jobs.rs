//! Finding jobs page by page: in the lanes, in rooms, in the delayed set, among the dead letters, and among the records. A page is
//! bounded in count and bytes, and changes nothing. Jobs that move while pages are read may be missing, or found twice.

mod places;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::holdings::{Holdings, JobHolder};
use crate::Queue;
use crate::client::error::{Class, Error};
use crate::job::filter::{Candidate, Filter, Match};
use crate::job::{EntryId, Envelope, JobId, Lane, State, Timestamp};

/// Which jobs to find; see the [example](Holdings).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobSearch {
    /// The states to look at. By default all but [`State::Done`] and [`State::Cancelled`], whose records are scattered
    /// over all keys of the server.
    pub states: Vec<State>,
    /// Which of these jobs.
    pub filter: Filter,
    /// What the workers reported. Without it, the start of running attempts is known only roughly.
    pub holdings: Holdings,
    /// Whether to leave the entries of running jobs unread: these jobs have a holder and an entry, but neither a type nor an id
    /// of their own until [`Queue::read_found`] reads them. Only without a filter. By default false.
    pub only_places: bool,
}

impl Default for JobSearch {
    fn default() -> Self {
        let states = [State::Running, State::Waiting, State::Retrying, State::Scheduled, State::Dead];
        let (filter, holdings) = (Filter::new(), Holdings::default());
        Self { states: states.into(), filter, holdings, only_places: false }
    }
}

impl JobSearch {
    /// Creates a search for all jobs that have not ended well.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the states to look at.
        states: Vec<State>;
        /// Sets which of these jobs to find.
        filter: Filter;
        /// Sets what the workers reported.
        holdings: Holdings;
        /// Sets whether to leave the entries of running jobs unread.
        only_places: bool;
    }

    /// The places where jobs in these states are, in the order in which they are read.
    fn places(&self) -> impl Iterator<Item = Place> {
        Place::all().filter(|place| place.states().iter().any(|state| self.states.contains(state)))
    }
}

/// A job that a search found; see the [example](Holdings).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundJob {
    /// Its id.
    pub id: String,
    /// Its state at that moment.
    pub state: State,
    /// Its type; empty if its fields cannot be read.
    pub job_type: String,
    /// Its own lane, if known.
    pub lane: Option<Lane>,
    /// Its entry in a lane or a room, or its dead letter.
    pub entry: Option<EntryId>,
    /// The gate in whose room it waits, if it does.
    pub room: Option<String>,
    /// When its life began, if known.
    pub created: Option<Timestamp>,
    /// How many attempts have failed or were lost.
    pub attempts: u64,
    /// When it is due, if it is in the delayed set.
    pub due: Option<Timestamp>,
    /// When it died, if it is dead.
    pub died: Option<Timestamp>,
    /// When its last attempt ended, if it is done or cancelled, and had one.
    pub ended: Option<Timestamp>,
    /// The last error, if it was read: that of a dead job, or of one that a filter had to look up.
    pub error: Option<String>,
    /// The worker that holds it, if it is running.
    pub holder: Option<JobHolder>,
    /// Where a page begins that goes on after this job.
    cursor: JobCursor,
}

impl FoundJob {
    fn new(id: String, state: State, cursor: JobCursor) -> Self {
        Self {
            id,
            state,
            job_type: String::new(),
            lane: None,
            entry: None,
            room: None,
            created: None,
            attempts: 0,
            due: None,
            died: None,
            ended: None,
            error: None,
            holder: None,
            cursor,
        }
    }

    /// Returns a job for tests of what follows a search.
    #[cfg(test)]
    #[doc(hidden)]
    pub fn sample(job_type: &str, created: Timestamp, due: Option<Timestamp>) -> Self {
        let (place, state) = match due {
            Some(_) => (Place::Delayed, State::Scheduled),
            None => (Place::Waiting(Lane::Normal), State::Waiting),
        };
        let job = Self::new("1-0".to_owned(), state, JobCursor { place, after: None });
        Self { job_type: job_type.to_owned(), created: Some(created), due, ..job }
    }

    /// Returns where it was found.
    pub(crate) fn spot(&self) -> Spot {
        match self.cursor.place {
            Place::Held(lane) | Place::Waiting(lane) => Spot::Lane(lane),
            Place::Rooms => Spot::Room,
            Place::Delayed => Spot::Delayed,
            Place::Dead | Place::Records => Spot::Ended,
        }
    }

    /// Returns how long it has been running if it is, or else how old it is or how long it has been dead.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let since = self.holder.as_ref().map(|holder| holder.since).or(self.died).or(self.created);
        since.map(|since| now.since(since))
    }
}

/// Where a job was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Its entry is in this lane, which need not be its own.
    Lane(Lane),
    /// Its entry is in a room.
    Room,
    /// It is a member of the delayed set.
    Delayed,
    /// It has ended: it is a dead letter, or only its record is left.
    Ended,
}

/// A page of jobs; see the [example](Holdings).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct JobPage {
    /// The time of the server's clock.
    pub now: Timestamp,
    /// The jobs that were found. There may be none although more pages follow.
    pub jobs: Vec<FoundJob>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<JobCursor>,
    /// How many jobs were looked at.
    pub read: u64,
    /// How many were left out because their payload is [too large](Match::TooLarge) to decide.
    pub too_large: u64,
    /// How many were left out because their payload, their fields or their record [cannot be read](Match::Unreadable).
    pub unreadable: u64,
    /// Why a part of the queue cannot be read. The next page begins after it.
    pub unread: Option<String>,
}

impl JobPage {
    /// Leaves out jobs beyond this number, so that the next page begins with them. In rooms and among the records, there are
    /// places to begin only between pages, so nothing is left out.
    #[must_use]
    pub fn cut(mut self, most: usize) -> Self {
        let last = most.checked_sub(1).and_then(|last| self.jobs.get(last)).map(|job| job.cursor);
        if let Some(last) = last
            && self.jobs.len() > most
            && !last.place.is_scanned()
        {
            self.jobs.truncate(most);
            self.next = Some(last);
        }
        self
    }
}

/// Where a page of jobs begins. Its text can be kept and given back.
///
/// ```
/// # use streamfleet_engine as streamfleet;
/// use streamfleet::admin::JobCursor;
///
/// let cursor: JobCursor = "waiting-high:1700000000000-0".parse()?;
/// assert_eq!(cursor.to_string(), "waiting-high:1700000000000-0");
/// assert!("everywhere:0-0".parse::<JobCursor>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobCursor {
    place: Place,
    /// The last position that was read. In the delayed set, the due time and how many jobs with it were read; in rooms
    /// and among the records, the cursor of the scan.
    after: Option<EntryId>,
}

/// Where jobs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Entries of a lane that workers hold.
    Held(Lane),
    /// Entries of a lane that no worker has taken.
    Waiting(Lane),
    /// Entries of all rooms.
    Rooms,
    Delayed,
    Dead,
    Records,
}

impl Place {
    fn all() -> impl Iterator<Item = Self> {
        let held = Lane::ALL.into_iter().map(Self::Held);
        let others = [Self::Rooms, Self::Delayed, Self::Dead, Self::Records];
        held.chain(Lane::ALL.into_iter().map(Self::Waiting)).chain(others)
    }

    /// The states of the jobs there.
    fn states(self) -> &'static [State] {
        match self {
            Self::Held(_) => &[State::Running],
            Self::Waiting(_) | Self::Rooms => &[State::Waiting],
            Self::Delayed => &[State::Scheduled, State::Retrying],
            Self::Dead => &[State::Dead],
            Self::Records => &[State::Done, State::Cancelled],
        }
    }

    /// Returns true if its jobs are scanned in no order, so that a page begins only where an earlier one ended.
    fn is_scanned(self) -> bool {
        match self {
            Self::Rooms | Self::Records => true,
            Self::Held(_) | Self::Waiting(_) | Self::Delayed | Self::Dead => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(lane) => write!(out, "running-{lane}"),
            Self::Waiting(lane) => write!(out, "waiting-{lane}"),
            Self::Rooms => out.write_str("rooms"),
            Self::Delayed => out.write_str("delayed"),
            Self::Dead => out.write_str("dead"),
            Self::Records => out.write_str("records"),
        }
    }
}

impl fmt::Display for JobCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, after } = self;
        match after {
            Some(after) => write!(out, "{place}:{after}"),
            None => write!(out, "{place}:"),
        }
    }
}

impl FromStr for JobCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = || "it must be the `next` of an earlier page".to_owned();
        let (name, after) = text.split_once(':').ok_or_else(rule)?;
        let place = Place::all().find(|place| place.to_string() == name).ok_or_else(rule)?;
        let after = Some(after).filter(|after| !after.is_empty()).map(str::parse::<EntryId>).transpose();
        Ok(Self { place, after: after.map_err(|_| rule())? })
    }
}

/// What was read from a place.
#[derive(Default)]
struct Portion {
    /// The jobs, with their fields if these are known.
    jobs: Vec<(FoundJob, Option<Envelope>)>,
    /// The last position, if there may be more after it.
    after: Option<EntryId>,
    /// How many jobs there cannot be read.
    unreadable: u64,
}

impl Queue {
    /// Returns a page of the jobs that match a search: running, waiting, delayed, dead, and then ended ones.
    ///
    /// A page looks at a few hundred jobs, or at fewer if they are large. Go on while [`JobPage::next`] is set, even if a page
    /// has no jobs.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer, or refuses everything.
    pub async fn find_jobs(&self, search: &JobSearch, from: Option<JobCursor>) -> Result<JobPage, Error> {
        Ok(self.find_with_fields(search, from).await?.0)
    }

    /// Does the same, and returns the fields of each job as they are in its place, without those that are kept elsewhere.
    pub(crate) async fn find_with_fields(
        &self,
        search: &JobSearch,
        from: Option<JobCursor>,
    ) -> Result<(JobPage, Vec<Option<Envelope>>), Error> {
        let (mut page, mut found) = (JobPage { now: self.clock().await?, ..JobPage::default() }, Vec::new());
        let first = || search.places().next().map(|place| JobCursor { place, after: None });
        let Some(JobCursor { place, after }) = from.or_else(first) else { return Ok((page, found)) };
        let read = match place {
            Place::Held(lane) if search.only_places && search.filter.is_empty() => {
                self.places_held(lane, after, &search.holdings).await
            }
            Place::Held(lane) => self.page_held(lane, after, &search.holdings).await,
            Place::Waiting(lane) => self.page_waiting(lane, after).await,
            Place::Rooms => self.page_rooms(after).await,
            Place::Delayed => self.page_delayed(after).await,
            Place::Dead => self.page_dead(after).await,
            Place::Records => self.page_records(after).await,
        };
        let portion = match read {
            // A key of the wrong type, or without the right to read it, does not hide the others.
            Err(error) if error.class() == Some(Class::Configuration) => {
                page.unread = Some(self.with_keys(&error));
                Portion::default()
            }
            read => read?,
        };
        (page.read, page.unreadable) = (portion.unreadable, portion.unreadable);
        for (mut job, fields) in portion.jobs {
            page.read += 1;
            if !search.states.contains(&job.state) {
                continue;
            }
            match self.check(&search.filter, &mut job, fields.as_ref(), page.now).await? {
                Match::Yes => {
                    page.jobs.push(job);
                    found.push(fields);
                }
                Match::No => {}
                Match::TooLarge => page.too_large += 1,
                Match::Unreadable => page.unreadable += 1,
            }
        }
        let here = portion.after.map(|after| JobCursor { place, after: Some(after) });
        let next = || search.places().skip_while(|other| *other != place).nth(1);
        page.next = here.or_else(|| next().map(|place| JobCursor { place, after: None }));
        Ok((page, found))
    }

    /// Returns whether the filter matches a job, and looks up what it needs.
    async fn check(
        &self,
        filter: &Filter,
        job: &mut FoundJob,
        fields: Option<&Envelope>,
        now: Timestamp,
    ) -> Result<Match, Error> {
        if filter.is_empty() {
            return Ok(Match::Yes);
        }
        let is_whole = fields.is_none_or(Envelope::is_whole);
        let lacks_error = filter.reads_errors() && job.attempts > 0 && job.error.is_none();
        // What is here rules most jobs out, before anything is looked up.
        if lacks_error && !filter.may_match(&candidate(job, fields), now) {
            return Ok(Match::No);
        }
        if lacks_error && let Ok(id) = job.id.parse::<JobId>() {
            match self.status_without_log(&id).await {
                Err(error) if places::is_of_another_type(&error) => return Ok(Match::Unreadable),
                status => job.error = status?.and_then(|status| status.error),
            }
        }
        let found = filter.check(&candidate(job, fields), now);
        let Some(bare) = fields.filter(|_| !is_whole && !matches!(found, Match::Yes | Match::No)) else {
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

/// What a filter looks at.
fn candidate<'a>(job: &'a FoundJob, fields: Option<&'a Envelope>) -> Candidate<'a> {
    let job_type = Some(job.job_type.as_str()).filter(|name| fields.is_none() && !name.is_empty());
    let candidate = Candidate::new(&job.id).state(job.state).fields(fields).job_type(job_type);
    candidate.error(job.error.as_deref()).at(job.died.or(job.created))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cursor_is_read_back_from_its_text() {
        for place in Place::all() {
            for after in [None, Some(EntryId::new(1_700_000_000_000, 7))] {
                let cursor = JobCursor { place, after };
                assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
        }
        for text in ["", "waiting", "waiting:1-0", "dead:x", "dead:1", "running-high:0-0-0"] {
            assert!(text.parse::<JobCursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_places_of_the_wanted_states_are_read() {
        let places = |states: &[State]| JobSearch::new().states(states.to_vec()).places().collect::<Vec<_>>();
        assert_eq!(places(&[State::Retrying]), [Place::Delayed]);
        assert_eq!(places(&[State::Dead, State::Done]), [Place::Dead, Place::Records]);
        assert!(places(&[]).is_empty());
        let usual: Vec<_> = JobSearch::new().places().collect();
        assert!(usual.len() == 9 && !usual.contains(&Place::Records), "{usual:?}");
        assert_eq!(places(&[State::Waiting]).last(), Some(&Place::Rooms));
        assert!(State::ALL.iter().all(|state| !places(&[*state]).is_empty()), "each state has a place");
    }
}
