//! Finding jobs page by page: in the lanes, in waiting lists, in the delayed set, among the dead letters, and among the records. A page is
//! bounded in count and bytes, and changes nothing. Jobs that move while pages are read may be missing, or found twice.

mod cursor;
mod locations;
mod tie;
mod waitlists;
mod walk;

use std::time::Duration;

pub use self::cursor::JobCursor;
use self::cursor::Location;
pub use self::walk::JobWalk;
use super::holdings::{Holdings, JobHolder};
use crate::job::filter::Filter;
use crate::job::{EntryId, Envelope, GateName, Lane, State, Timestamp};

/// Which jobs to find; see the [example](Holdings).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobSearch {
    /// The states to look at. By default all but [`State::Done`] and [`State::Cancelled`], whose records are scattered
    /// over all keys of the server.
    pub states: Vec<State>,
    /// Which of these jobs.
    pub filter: Filter,
    /// Only waiting jobs that are in the waiting list of this gate, if one is named. By default all.
    pub gate: Option<GateName>,
    /// What the workers reported. Without it, the start of running attempts is known only roughly.
    pub holdings: Holdings,
    /// Whether to leave the entries of running jobs unread: these jobs have a holder and an entry, but neither a type nor an id
    /// of their own until [`read_found`](crate::Queue::read_found) reads them. Only without a filter. By default false.
    pub only_places: bool,
}

impl Default for JobSearch {
    fn default() -> Self {
        let states = [State::Running, State::Waiting, State::Retrying, State::Scheduled, State::Dead];
        let (filter, holdings) = (Filter::new(), Holdings::default());
        Self { states: states.into(), filter, gate: None, holdings, only_places: false }
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
        /// Sets the gate in whose waiting list the jobs wait.
        gate: Option<GateName>;
        /// Sets what the workers reported.
        holdings: Holdings;
        /// Sets whether to leave the entries of running jobs unread.
        only_places: bool;
    }

    /// The places where jobs in these states are, in the order in which they are read.
    fn locations(&self) -> impl Iterator<Item = Location> {
        let has_state =
            |location: &Location| location.states().iter().any(|state| self.states.contains(state));
        let has_waitlists = |location: &Location| self.gate.is_none() || *location == Location::Waitlists;
        Location::all().filter(has_waitlists).filter(has_state)
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
    /// Its entry in a lane or a waiting list, or its dead letter.
    pub entry: Option<EntryId>,
    /// The gate in whose waiting list it waits, if it does.
    pub waitlist: Option<String>,
    /// When its generation began, if known.
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
            waitlist: None,
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
        let (location, state) = match due {
            Some(_) => (Location::Delayed, State::Scheduled),
            None => (Location::Waiting(Lane::Normal), State::Waiting),
        };
        let job = Self::new("1-0".to_owned(), state, JobCursor::at(location, None));
        Self { job_type: job_type.to_owned(), created: Some(created), due, ..job }
    }

    /// Returns where it was found.
    pub(crate) fn spot(&self) -> Spot {
        match self.cursor.location {
            Location::Held(lane) | Location::Waiting(lane) => Spot::Lane(lane),
            Location::Waitlists => Spot::Waitlist,
            Location::Delayed => Spot::Delayed,
            Location::Dead | Location::Records => Spot::Ended,
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
    /// Its entry is in a waiting list.
    Waitlist,
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
    /// How many were left out because their payload is [too large](crate::admin::Match::TooLarge) to decide.
    pub too_large: u64,
    /// How many were left out because their payload, their fields, their record or their waiting list
    /// [cannot be read](crate::admin::Match::Unreadable). Such a waiting list counts once.
    pub unreadable: u64,
    /// Why a part of the queue cannot be read. The next page begins after it.
    pub unread: Option<String>,
}

/// What was read from a place.
#[derive(Default)]
struct Portion {
    /// The jobs, with their fields if these are known.
    jobs: Vec<(FoundJob, Option<Envelope>)>,
    /// Where this place goes on, if there may be more.
    next: Option<JobCursor>,
    /// How many jobs there cannot be read.
    unreadable: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_places_of_the_wanted_states_are_read() {
        let locations =
            |states: &[State]| JobSearch::new().states(states.to_vec()).locations().collect::<Vec<_>>();
        assert_eq!(locations(&[State::Retrying]), [Location::Delayed]);
        assert_eq!(locations(&[State::Dead, State::Done]), [Location::Dead, Location::Records]);
        assert!(locations(&[]).is_empty());
        let usual: Vec<_> = JobSearch::new().locations().collect();
        assert!(usual.len() == 9 && !usual.contains(&Location::Records), "{usual:?}");
        assert_eq!(locations(&[State::Waiting]).last(), Some(&Location::Waitlists));
        assert!(State::ALL.iter().all(|state| !locations(&[*state]).is_empty()), "each state has a place");
        let at_gate = JobSearch::new().gate(Some("type:mail".parse().unwrap()));
        assert_eq!(at_gate.locations().collect::<Vec<_>>(), [Location::Waitlists]);
        assert_eq!(at_gate.states(vec![State::Dead]).locations().count(), 0);
    }
}
