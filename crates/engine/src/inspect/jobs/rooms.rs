//! Reads the jobs that wait in rooms, room by room: first those of the room that has had jobs for longest, and in a room those
//! that came first. Many rooms have few jobs, so one pipeline reads several rooms.

use std::collections::VecDeque;

use fred::clients::{Client, Pipeline};
use fred::interfaces::{ClientLike, StreamsInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};

use super::cursor::{JobCursor, Place, RoomTurn};
use super::places::{MOST, PAGE_BYTES, of_entry};
use super::{FoundJob, JobSearch, Portion};
use crate::client::decode;
use crate::client::error::Error;
use crate::job::{self, EntryId, Lane};
use crate::{Entry, Queue};

/// The most rooms that one pipeline reads.
const AT_ONCE: usize = 256;

/// The most rooms that a walk remembers. It lists them again after these.
const MAX_ROOMS: usize = 10_000;

/// About how many rooms one command lists.
const SCANNED: i64 = 1000;

/// The rooms that a walk has not read to their ends, in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    left: VecDeque<Room>,
    /// When the first of the rooms that are not listed yet got its jobs, if there are any.
    unlisted: Option<u64>,
}

#[derive(Debug)]
struct Room {
    turn: RoomTurn,
    name: String,
    /// The last entry that was read.
    after: Option<EntryId>,
    /// How many entries are left at most; `None` if they were not counted yet.
    entries: Option<u64>,
}

/// Some entries of a room that are to be read.
struct Piece {
    room: Room,
    count: u64,
}

impl Rooms {
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Where the walk goes on; `None` if all rooms were read.
    fn cursor(&self) -> Option<JobCursor> {
        let begun = self.left.front().map(|room| (room.turn, room.after));
        // No such turn exists, so the rooms of that time are read from the first on.
        let unlisted = || self.unlisted.map(|since| (RoomTurn { since, nth: 0, of: 0 }, None));
        let (turn, after) = begun.or_else(unlisted)?;
        Some(JobCursor { place: Place::Rooms, room: Some(turn), after })
    }

    /// Takes what fits one pipeline: at most this many entries.
    fn pieces(&mut self, most: usize) -> Vec<Piece> {
        let (mut pieces, mut left) = (Vec::new(), most as u64);
        while left > 0 && pieces.len() < AT_ONCE {
            let Some(entries) = self.left.front().and_then(|room| room.entries) else { break };
            let Some(room) = self.left.pop_front() else { break };
            let count = entries.min(left);
            left -= count;
            if count > 0 {
                pieces.push(Piece { room, count });
            }
        }
        pieces
    }
}

/// Puts rooms into the order of their turns. Of those with the time of the room that was begun, leaves out the ones that were read
/// before it. The table of rooms may list one twice.
fn in_turn(mut listed: Vec<(u64, String)>, from: JobCursor) -> VecDeque<Room> {
    listed.sort_unstable();
    listed.dedup();
    let mut left = VecDeque::with_capacity(listed.len());
    for together in listed.chunk_by(|one, other| one.0 == other.0) {
        let of = u32::try_from(together.len()).unwrap_or(u32::MAX);
        let begun = from.room.filter(|begun| begun.since == together[0].0);
        let first = begun.map_or(0, |begun| begun.nth.saturating_sub(begun.of.saturating_sub(of)));
        for (nth, (since, name)) in (0..).zip(together).skip(first as usize) {
            let turn = RoomTurn { since: *since, nth, of };
            let after = from.after.filter(|_| begun == Some(turn));
            left.push_back(Room { turn, name: name.clone(), after, entries: None });
        }
    }
    left
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
    /// Lists the rooms whose jobs a walk reads from this place on.
    pub(super) async fn list_rooms(&self, search: &JobSearch, from: JobCursor) -> Result<Rooms, Error> {
        if let Some(gate) = &search.gate {
            return Ok(Rooms { left: in_turn(vec![(0, gate.as_str().to_owned())], from), unlisted: None });
        }
        let earliest = from.room.map_or(0, |turn| turn.since);
        let (mut listed, mut unlisted, mut cursor) = (Vec::new(), None::<u64>, "0".to_owned());
        loop {
            let (next, page) = self.scan_room_times(cursor).await?;
            let is_wanted = |since: u64| since >= earliest && unlisted.is_none_or(|end| since < end);
            listed.extend(page.into_iter().filter(|room| is_wanted(room.0)));
            if listed.len() >= 2 * MAX_ROOMS {
                unlisted = shorten(&mut listed, MAX_ROOMS).or(unlisted);
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        Ok(Rooms { left: in_turn(listed, from), unlisted })
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
    pub(super) async fn page_rooms(
        &self,
        rooms: &mut Rooms,
        size: &mut job::Portion,
    ) -> Result<Portion, Error> {
        let (mut portion, mut bytes) = (Portion::default(), 0);
        while portion.jobs.len() < MOST && bytes < PAGE_BYTES && !rooms.is_empty() {
            portion.unreadable += self.count_in_rooms(rooms).await?;
            let pieces = rooms.pieces(size.count().min(MOST - portion.jobs.len()));
            let read = self.read_rooms(&pieces).await?;
            size.record_sizes(read.iter().flatten().flatten().map(Entry::size));
            let mut unfinished = None;
            for (Piece { mut room, count }, entries) in pieces.into_iter().zip(read) {
                let Some(entries) = entries else {
                    portion.unreadable += 1;
                    continue;
                };
                bytes += entries.iter().map(Entry::size).sum::<usize>();
                let is_short = (entries.len() as u64) < count;
                room.after = entries.last().map(|entry| entry.id).or(room.after);
                room.entries = room.entries.map(|entries| entries - count);
                portion.jobs.extend(entries.into_iter().map(|entry| {
                    let (job, fields) = of_entry(entry, Place::Rooms);
                    let cursor = JobCursor { room: Some(room.turn), ..job.cursor };
                    (FoundJob { room: Some(room.name.clone()), cursor, ..job }, fields)
                }));
                // Only the last room may have more than was asked for.
                unfinished = Some(room).filter(|room| !is_short && room.entries != Some(0));
            }
            if let Some(room) = unfinished {
                rooms.left.push_front(room);
            }
        }
        portion.next = rooms.cursor();
        Ok(portion)
    }

    /// Counts the entries of the next rooms that were not counted yet. Leaves out those that cannot be read, and returns how many
    /// these are.
    async fn count_in_rooms(&self, rooms: &mut Rooms) -> Result<u64, Error> {
        let next: Vec<Room> = rooms.left.drain(..rooms.left.len().min(AT_ONCE)).collect();
        let keys: Vec<Key> = {
            let uncounted = next.iter().filter(|room| room.entries.is_none());
            uncounted.map(|room| self.keys.room(&room.name)).collect()
        };
        let mut counted = self.room_lengths(keys).await?.into_iter();
        let (mut readable, mut unreadable) = (Vec::with_capacity(next.len()), 0);
        for room in next {
            let entries = if room.entries.is_some() { room.entries } else { counted.next().flatten() };
            match entries {
                Some(_) => readable.push(Room { entries, ..room }),
                None => unreadable += 1,
            }
        }
        for room in readable.into_iter().rev() {
            rooms.left.push_front(room);
        }
        Ok(unreadable)
    }

    /// Returns how many entries each of these streams has; `None` for a key of another type.
    async fn room_lengths(&self, keys: Vec<Key>) -> Result<Vec<Option<u64>>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (pipeline, wanted) = (self.link.client().pipeline(), keys.len());
        let all = async move {
            for key in keys {
                let _queued: () = Box::pin(pipeline.xlen(key)).await?;
            }
            replies(&pipeline, wanted).await
        };
        let replies = self.link.ask("xlen", all).await?;
        Ok(replies.into_iter().map(|reply| reply.as_ref().and_then(decode::number)).collect())
    }

    /// Reads these pieces; `None` for one whose key has another type.
    async fn read_rooms(&self, pieces: &[Piece]) -> Result<Vec<Option<Vec<Entry>>>, Error> {
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        let (pipeline, wanted) = (self.link.client().pipeline(), pieces.len());
        let ranges: Vec<(Key, String, u64)> = pieces
            .iter()
            .map(|Piece { room, count }| {
                let from = room.after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
                (self.keys.room(&room.name), from, *count)
            })
            .collect();
        let all = async move {
            for (key, from, count) in ranges {
                let _queued: () = Box::pin(pipeline.xrange(key, from, "+", Some(count))).await?;
            }
            replies(&pipeline, wanted).await
        };
        let replies = self.link.ask("xrange", all).await?;
        let entries = |reply: Value| decode::entries("xrange", &reply, Lane::Normal);
        replies.into_iter().map(|reply| reply.map(entries).transpose()).collect()
    }
}

/// Sends the commands of a pipeline. The reply is `None` where a key has another type. If there is no answer, the client has one
/// error for all of them.
async fn replies(
    pipeline: &Pipeline<Client>,
    wanted: usize,
) -> Result<Vec<Option<Value>>, fred::error::Error> {
    let replies = Box::pin(pipeline.try_all::<Value>()).await.into_iter().map(|reply| match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.details().contains("WRONGTYPE") => Ok(None),
        Err(error) => Err(error),
    });
    let replies = replies.collect::<Result<Vec<_>, _>>()?;
    if replies.len() == wanted { Ok(replies) } else { Err(fred::error::Error::new_canceled()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(times: &[u64]) -> Vec<(u64, String)> {
        times.iter().enumerate().map(|(nth, since)| (*since, format!("type:{nth:03}"))).collect()
    }

    fn names(rooms: &VecDeque<Room>) -> Vec<&str> {
        rooms.iter().map(|room| room.name.as_str()).collect()
    }

    fn start() -> JobCursor {
        JobCursor::at(Place::Rooms, None)
    }

    #[test]
    fn the_rooms_that_have_had_jobs_for_longest_come_first() {
        let rooms = in_turn(listed(&[7, 3, 7, 3, 9]), start());
        assert_eq!(names(&rooms), ["type:001", "type:003", "type:000", "type:002", "type:004"]);
        let again = in_turn([listed(&[7, 3]), listed(&[7, 3])].concat(), start());
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
        let rooms = in_turn(listed(&[7, 7, 9]), cursor(7, 1, 2));
        assert_eq!(rooms.iter().map(|room| room.after).collect::<Vec<_>>(), [entry, None]);
        // If one of three is gone, it may have been before the one that was begun. If one has come, its jobs are new.
        for (of, left) in [(3, 3), (1, 2)] {
            let rooms = in_turn(listed(&[7, 7, 9]), cursor(7, 1, of));
            assert_eq!((rooms.len(), rooms.iter().all(|room| room.after.is_none())), (left, true));
        }
    }

    #[test]
    fn a_pipeline_reads_several_rooms_and_a_part_of_the_last() {
        let mut rooms = Rooms { left: in_turn(listed(&[1, 2, 3, 4]), start()), unlisted: None };
        for (room, entries) in rooms.left.iter_mut().zip([3, 0, 5, 2]) {
            room.entries = Some(entries);
        }
        let pieces = rooms.pieces(6);
        let counts: Vec<_> = pieces.iter().map(|piece| (piece.room.turn.since, piece.count)).collect();
        assert_eq!((counts, rooms.left.len()), (vec![(1, 3), (3, 3)], 1));
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
