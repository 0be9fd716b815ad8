//! Reads the jobs that wait in rooms, room by room: first those of the room that has had jobs for longest, and in a room those
//! that came first.

use std::collections::VecDeque;

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::future::try_join_all;

use super::cursor::{JobCursor, Place, RoomTurn};
use super::places::{MOST, PAGE_BYTES, of_entry};
use super::{FoundJob, JobSearch, Portion};
use crate::client::decode;
use crate::client::error::Error;
use crate::inspect::room_jobs::RoomJobs;
use crate::job::EntryId;
use crate::{Entry, Queue};

/// The most rooms that one script reads.
const ROOMS_EACH: usize = 100;

/// How many scripts read at once, as long as each reads all of its rooms to their ends.
const AT_ONCE: usize = 4;

/// How many rooms a walk remembers if there are more than twice as many. It lists the others again after these. A room takes about a
/// hundred bytes here, and each list reads all rooms, so that short lists would make a walk over a million of them slow.
pub(super) const MAX_ROOMS: usize = 200_000;

/// How many rooms a walk remembers if only one page of it is read. They have more jobs than a page.
pub(super) const ROOMS_OF_PAGE: usize = 1000;

/// About how many rooms one command lists.
const SCANNED: i64 = 1000;

/// The rooms that a walk has not read to their ends, in the order of their turns.
#[derive(Debug)]
pub(super) struct Rooms {
    left: VecDeque<Room>,
    /// The last entry that was read of the first of these.
    after: Option<EntryId>,
    /// When the first of the rooms that are not listed yet got its jobs, if there are any.
    unlisted: Option<u64>,
    /// How many scripts read at once.
    at_once: usize,
}

#[derive(Debug)]
struct Room {
    turn: RoomTurn,
    name: String,
}

impl Rooms {
    /// Puts rooms into the order of their turns. Of those with the time of the room that was begun, leaves out the ones that were
    /// read before it. The table of rooms may list one twice.
    fn in_turn(mut listed: Vec<(u64, String)>, unlisted: Option<u64>, from: JobCursor) -> Self {
        listed.sort_unstable();
        listed.dedup();
        let mut left = VecDeque::with_capacity(listed.len());
        for together in listed.chunk_by_mut(|one, other| one.0 == other.0) {
            let (since, of) = (together[0].0, u32::try_from(together.len()).unwrap_or(u32::MAX));
            let begun = from.room.filter(|begun| begun.since == since);
            let first = begun.map_or(0, |begun| begun.nth.saturating_sub(begun.of.saturating_sub(of)));
            for (nth, (_, name)) in (0..).zip(together).skip(first as usize) {
                left.push_back(Room { turn: RoomTurn { since, nth, of }, name: std::mem::take(name) });
            }
        }
        let is_begun = |first: &Room| from.room == Some(first.turn);
        let after = from.after.filter(|_| left.front().is_some_and(is_begun));
        Self { left, after, unlisted, at_once: 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Where the walk goes on; `None` if all rooms were read.
    fn cursor(&self) -> Option<JobCursor> {
        let begun = self.left.front().map(|room| (room.turn, self.after));
        // No such turn exists, so the rooms of that time are read from the first on.
        let unlisted = || self.unlisted.map(|since| (RoomTurn { since, nth: 0, of: 0 }, None));
        let (turn, after) = begun.or_else(unlisted)?;
        Some(JobCursor { place: Place::Rooms, room: Some(turn), after })
    }

    /// Adds what a script has read to a portion. Returns whether what the next script read follows it without a gap.
    fn pass(&mut self, read: RoomJobs, portion: &mut Portion) -> bool {
        let count = read.rooms.len();
        for (nth, entries) in (1..).zip(read.rooms) {
            let Some(room) = self.left.front() else { return false };
            portion.unreadable += u64::from(entries.is_none());
            let entries = entries.unwrap_or_default();
            let last = entries.last().map(|entry| entry.id);
            portion.jobs.extend(entries.into_iter().map(|entry| {
                let (job, fields) = of_entry(entry, Place::Rooms);
                let cursor = JobCursor { room: Some(room.turn), ..job.cursor };
                (FoundJob { room: Some(room.name.clone()), cursor, ..job }, fields)
            }));
            if nth == count && read.has_more {
                self.after = last.or(self.after);
                return false;
            }
            self.left.pop_front();
            self.after = None;
        }
        count == ROOMS_EACH
    }
}

/// Leaves out the rooms with the last turns if there are too many, but no part of those that got their jobs in the same
/// millisecond. Returns the time from which on rooms were left out.
fn shorten(listed: &mut Vec<(u64, String)>, most: usize) -> Option<u64> {
    listed.sort_unstable();
    listed.dedup();
    let (first, since) = (listed.first()?.0, listed.get(most)?.0);
    if first == since {
        return None;
    }
    listed.retain(|room| room.0 < since);
    Some(since)
}

impl Queue {
    /// Lists the rooms whose jobs a walk reads from this place on: at most twice this many, unless more got their first jobs in the
    /// same millisecond.
    pub(super) async fn list_rooms(
        &self,
        search: &JobSearch,
        from: JobCursor,
        most: usize,
    ) -> Result<Rooms, Error> {
        if let Some(gate) = &search.gate {
            return Ok(Rooms::in_turn(vec![(0, gate.as_str().to_owned())], None, from));
        }
        let earliest = from.room.map_or(0, |turn| turn.since);
        let (mut listed, mut unlisted, mut cursor) = (Vec::new(), None::<u64>, "0".to_owned());
        loop {
            let (next, page) = self.scan_room_times(cursor).await?;
            let is_wanted = |since: u64| since >= earliest && unlisted.is_none_or(|end| since < end);
            listed.extend(page.into_iter().filter(|room| is_wanted(room.0)));
            if listed.len() > 2 * most {
                unlisted = shorten(&mut listed, most).or(unlisted);
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        Ok(Rooms::in_turn(listed, unlisted, from))
    }

    /// Reads a part of the table of rooms: since when each has had jobs, and its name. Returns where the next part begins.
    async fn scan_room_times(&self, cursor: String) -> Result<(String, Vec<(u64, String)>), Error> {
        let (client, key) = (self.link.client(), &self.keys.rooms);
        let command = CustomCommand::new_static("HSCAN", ClusterHash::FirstKey, false);
        let args: Vec<Value> =
            vec![key.clone().into(), cursor.into(), "COUNT".into(), Value::Integer(SCANNED)];
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, args)).await };
        let reply = self.link.ask("hscan", reply).await.map_err(|error| error.of_key(key))?;
        let Value::Array(parts) = reply else { return Err(Error::contract("hscan", reply)) };
        let [next, Value::Array(flat)] = &parts[..] else { return Err(Error::contract("hscan", parts)) };
        let room = |pair: &[Value]| (decode::number(&pair[1]).unwrap_or(0), decode::text(&pair[0]));
        Ok((decode::text(next), flat.chunks_exact(2).map(room).collect()))
    }

    /// Reads the next jobs of rooms. No entry in a room is large, because its large fields are elsewhere.
    pub(super) async fn page_rooms(&self, rooms: &mut Rooms) -> Result<Portion, Error> {
        let (mut portion, mut bytes) = (Portion::default(), 0);
        while portion.jobs.len() < MOST && bytes < PAGE_BYTES && !rooms.is_empty() {
            let (after, at_once) = (rooms.after, rooms.at_once);
            let wanted = (MOST - portion.jobs.len()).div_ceil(ROOMS_EACH).min(at_once);
            let left: &[Room] = rooms.left.make_contiguous();
            let reading = left.chunks(ROOMS_EACH).take(wanted).enumerate().map(|(nth, some)| {
                let names: Vec<&str> = some.iter().map(|room| room.name.as_str()).collect();
                let after = after.filter(|_| nth == 0);
                async move { self.room_jobs(&names, after).await }
            });
            let found = try_join_all(reading).await?;
            for read in found {
                bytes += read.rooms.iter().flatten().flatten().map(Entry::size).sum::<usize>();
                let is_whole = rooms.pass(read, &mut portion);
                rooms.at_once = if is_whole { AT_ONCE } else { 1 };
                // What another script read behind a gap is read again.
                if !is_whole {
                    break;
                }
            }
        }
        portion.next = rooms.cursor();
        Ok(portion)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::Lane;

    fn listed(times: &[u64]) -> Vec<(u64, String)> {
        times.iter().enumerate().map(|(nth, since)| (*since, format!("type:{nth:03}"))).collect()
    }

    fn names(rooms: &Rooms) -> Vec<&str> {
        rooms.left.iter().map(|room| room.name.as_str()).collect()
    }

    fn start() -> JobCursor {
        JobCursor::at(Place::Rooms, None)
    }

    #[test]
    fn the_rooms_that_have_had_jobs_for_longest_come_first() {
        let rooms = Rooms::in_turn(listed(&[7, 3, 7, 3, 9]), None, start());
        assert_eq!(names(&rooms), ["type:001", "type:003", "type:000", "type:002", "type:004"]);
        let again = Rooms::in_turn([listed(&[7, 3]), listed(&[7, 3])].concat(), None, start());
        assert_eq!(names(&again), ["type:001", "type:000"]);
    }

    #[test]
    fn a_walk_goes_on_in_the_room_where_it_stopped() {
        let entry = Some(EntryId::new(5, 0));
        let cursor = |since, nth, of| JobCursor {
            place: Place::Rooms,
            room: Some(RoomTurn { since, nth, of }),
            after: entry,
        };
        let rooms = Rooms::in_turn(listed(&[7, 7, 9]), None, cursor(7, 1, 2));
        assert_eq!((names(&rooms), rooms.after), (vec!["type:001", "type:002"], entry));
        // If one of three is gone, it may have been before the one that was begun. If one has come, its jobs are new.
        for (of, left) in [(3, 3), (1, 2)] {
            let rooms = Rooms::in_turn(listed(&[7, 7, 9]), None, cursor(7, 1, of));
            assert_eq!((rooms.left.len(), rooms.after), (left, None));
        }
    }

    #[test]
    fn a_walk_stays_in_a_room_that_may_have_more() {
        let entry = |ms| Entry { id: EntryId::new(ms, 0), lane: Lane::Normal, envelope: None };
        let mut rooms = Rooms::in_turn(listed(&[1, 2, 3, 4]), None, start());
        let mut portion = Portion::default();
        let read = vec![Some(vec![entry(5)]), None, Some(vec![entry(6), entry(7)])];
        assert!(!rooms.pass(RoomJobs { rooms: read, has_more: true }, &mut portion));
        assert_eq!((portion.jobs.len(), portion.unreadable), (3, 1));
        assert_eq!((names(&rooms), rooms.after), (vec!["type:002", "type:003"], Some(EntryId::new(7, 0))));
        assert!(!rooms.pass(RoomJobs { rooms: vec![Some(Vec::new())], has_more: false }, &mut portion));
        assert_eq!((names(&rooms), rooms.after), (vec!["type:003"], None));
    }

    #[test]
    fn what_follows_as_many_rooms_as_a_script_reads_has_no_gap() {
        let mut rooms = Rooms::in_turn(listed(&[1; ROOMS_EACH + 1]), None, start());
        let read = (0..ROOMS_EACH).map(|_| Some(Vec::new())).collect();
        assert!(rooms.pass(RoomJobs { rooms: read, has_more: false }, &mut Portion::default()));
        assert_eq!(rooms.left.len(), 1);
    }

    proptest! {
        #[test]
        fn rooms_of_one_time_are_listed_together(
            times in proptest::collection::vec(0u64..20, 0..60), most in 1usize..40,
        ) {
            let mut short = listed(&times);
            let unlisted = shorten(&mut short, most);
            let end = unlisted.unwrap_or(u64::MAX);
            let mut want: Vec<_> = listed(&times).into_iter().filter(|room| room.0 < end).collect();
            want.sort_unstable();
            prop_assert_eq!(&short, &want);
            prop_assert!(unlisted.is_none() || !short.is_empty() && short.len() <= most);
        }
    }
}
