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
    pub(super) place: Place,
    /// The room that is read, if the place is that of rooms and one was begun.
    pub(super) room: Option<RoomTurn>,
    /// The last position that was read. In the delayed set, the due time, and how many jobs with it were read, of how many; among
    /// the records, the cursor of the scan that returned a portion and how many of the portion's records were read.
    pub(super) after: Option<EntryId>,
}

/// Where jobs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
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

/// The turn of a room in a walk: the rooms that have had jobs for longest come first. The name of a room may have a value that
/// not everybody may see, so a cursor has the turn instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoomTurn {
    /// Since when the room has had jobs, in milliseconds.
    pub(super) since: u64,
    /// Its number, by name, among the rooms that got their first jobs in the same millisecond, …
    pub(super) nth: u32,
    /// … and how many these were. If some are gone, a walk goes back by as many rooms, so that it misses none.
    pub(super) of: u32,
}

impl JobCursor {
    /// A cursor in a place without rooms.
    pub(super) fn at(place: Place, after: Option<EntryId>) -> Self {
        Self { place, room: None, after }
    }
}

impl Place {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let held = Lane::ALL.into_iter().map(Self::Held);
        let others = [Self::Rooms, Self::Delayed, Self::Dead, Self::Records];
        held.chain(Lane::ALL.into_iter().map(Self::Waiting)).chain(others)
    }

    /// The states of the jobs there.
    pub(super) fn states(self) -> &'static [State] {
        match self {
            Self::Held(_) => &[State::Running],
            Self::Waiting(_) | Self::Rooms => &[State::Waiting],
            Self::Delayed => &[State::Scheduled, State::Retrying],
            Self::Dead => &[State::Dead],
            Self::Records => &[State::Done, State::Cancelled],
        }
    }
}

impl RoomTurn {
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
        write!(out, "{}:", self.place)?;
        if let Some(RoomTurn { since, nth, of }) = self.room {
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
        let place = Place::all().find(|place| place.to_string() == name).ok_or_else(rule)?;
        let split = if place == Place::Rooms { RoomTurn::split(rest) } else { Some((None, rest)) };
        let (room, after) = split.ok_or_else(rule)?;
        let after = Some(after).filter(|after| !after.is_empty()).map(str::parse::<EntryId>).transpose();
        Ok(Self { place, room, after: after.map_err(|_| rule())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cursor_is_read_back_from_its_text() {
        let turn = RoomTurn { since: 1_700_000_000_000, nth: 2, of: 5 };
        for place in Place::all() {
            for after in [None, Some(EntryId::new(1_700_000_000_000, 7))] {
                for room in [None, Some(turn)] {
                    // Outside of rooms there is no turn, and in them no position without one.
                    if room.is_some() != (place == Place::Rooms && after.is_some()) {
                        continue;
                    }
                    let cursor = JobCursor { place, room, after };
                    assert_eq!(cursor.to_string().parse(), Ok(cursor));
                }
            }
        }
        let begun = JobCursor { place: Place::Rooms, room: Some(turn), after: None };
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
