//! Where jobs are, and where a page of them begins.

use std::fmt;
use std::str::FromStr;

use crate::job::{EntryId, Lane, State};

/// Where a page of jobs begins. Its text can be kept and given back. It has nothing that came from a producer.
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
    pub(super) location: Location,
    /// The waiting list that is read, if the location is that of waiting lists and one was begun.
    pub(super) waitlist: Option<WaitlistTurn>,
    /// The last position that was read. In the delayed set, the due time, and how many jobs with it were read, of how many; among
    /// the records, the cursor of the scan that returned a portion and how many of the portion's records were read.
    pub(super) after: Option<EntryId>,
}

/// Where jobs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// Entries of a lane that workers hold.
    Held(Lane),
    /// Entries of a lane that no worker has taken.
    Waiting(Lane),
    /// Entries of all waiting lists.
    Waitlists,
    Delayed,
    Dead,
    Records,
}

/// The turn of a waiting list in a walk: the waiting lists that have had jobs for longest come first. The name of a waiting list may have
/// a value that not everybody may see, so a cursor has the turn instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitlistTurn {
    /// Since when the waiting list has had jobs, in milliseconds.
    pub(super) since: u64,
    /// Its number, by name, among the waiting lists that got their first jobs in the same millisecond, …
    pub(super) nth: u32,
    /// … and how many these were. If some are gone, a walk goes back by as many waiting lists, so that it misses none.
    pub(super) of: u32,
}

impl JobCursor {
    /// A cursor in a location without waiting lists.
    pub(super) fn at(location: Location, after: Option<EntryId>) -> Self {
        Self { location, waitlist: None, after }
    }
}

impl Location {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let held = Lane::ALL.into_iter().map(Self::Held);
        let others = [Self::Waitlists, Self::Delayed, Self::Dead, Self::Records];
        held.chain(Lane::ALL.into_iter().map(Self::Waiting)).chain(others)
    }

    /// The states of the jobs there.
    pub(super) fn states(self) -> &'static [State] {
        match self {
            Self::Held(_) => &[State::Running],
            Self::Waiting(_) | Self::Waitlists => &[State::Waiting],
            Self::Delayed => &[State::Scheduled, State::Retrying],
            Self::Dead => &[State::Dead],
            Self::Records => &[State::Done, State::Cancelled],
        }
    }
}

impl WaitlistTurn {
    /// Splits the text of a cursor after its place into the turn, if there is one, and the position.
    fn split(text: &str) -> Option<(Option<Self>, &str)> {
        if text.is_empty() {
            return Some((None, text));
        }
        let (turn, after) = text.split_once(':')?;
        let mut parts = turn.split('-');
        let since = parts.next()?.parse().ok()?;
        let (nth, of) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some((Some(Self { since, nth, of }), after))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(lane) => write!(out, "running-{lane}"),
            Self::Waiting(lane) => write!(out, "waiting-{lane}"),
            Self::Waitlists => out.write_str("rooms"),
            Self::Delayed => out.write_str("delayed"),
            Self::Dead => out.write_str("dead"),
            Self::Records => out.write_str("records"),
        }
    }
}

impl fmt::Display for JobCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.location)?;
        if let Some(WaitlistTurn { since, nth, of }) = self.waitlist {
            write!(out, "{since}-{nth}-{of}:")?;
        }
        match self.after {
            Some(after) => write!(out, "{after}"),
            None => Ok(()),
        }
    }
}

impl FromStr for JobCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = || "it must be the `next` of an earlier page".to_owned();
        let (name, rest) = text.split_once(':').ok_or_else(rule)?;
        let location = Location::all().find(|location| location.to_string() == name).ok_or_else(rule)?;
        let split =
            if location == Location::Waitlists { WaitlistTurn::split(rest) } else { Some((None, rest)) };
        let (waitlist, after) = split.ok_or_else(rule)?;
        let after = Some(after).filter(|after| !after.is_empty()).map(str::parse::<EntryId>).transpose();
        Ok(Self { location, waitlist, after: after.map_err(|_| rule())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cursor_is_read_back_from_its_text() {
        let turn = WaitlistTurn { since: 1_700_000_000_000, nth: 2, of: 5 };
        for location in Location::all() {
            for after in [None, Some(EntryId::new(1_700_000_000_000, 7))] {
                for waitlist in [None, Some(turn)] {
                    // Outside of waiting lists there is no turn, and in them no position without one.
                    if waitlist.is_some() != (location == Location::Waitlists && after.is_some()) {
                        continue;
                    }
                    let cursor = JobCursor { location, waitlist, after };
                    assert_eq!(cursor.to_string().parse(), Ok(cursor));
                }
            }
        }
        let begun = JobCursor { location: Location::Waitlists, waitlist: Some(turn), after: None };
        assert_eq!(begun.to_string(), "rooms:1700000000000-2-5:");
        assert_eq!(begun.to_string().parse(), Ok(begun));
        for text in ["", "waiting", "waiting:1-0", "dead:x", "dead:1", "running-high:0-0-0", "dead:1-0-1:"] {
            assert!(text.parse::<JobCursor>().is_err(), "{text}");
        }
        for text in ["rooms:1-0", "rooms:1-0:", "rooms:1-0-1-1:", "rooms:a-0-1:", "rooms:1-0-1:x"] {
            assert!(text.parse::<JobCursor>().is_err(), "{text}");
        }
    }
}
