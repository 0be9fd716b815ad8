//! Reads the jobs of many rooms at once, because many rooms have few jobs.

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Envelope};
use crate::{Entry, Queue, bytes};

scripts! { ROOM_JOBS "room_jobs" }

/// One script stops as soon as it has read this many jobs, …
const MOST: i64 = 128;

/// … or jobs that weigh this much.
const MOST_WEIGHT: i64 = 256 * 1024;

/// Jobs of some rooms.
pub(crate) struct RoomJobs {
    /// Those of each room that was read; `None` for a room whose key has another type.
    pub rooms: Vec<Option<Vec<Entry>>>,
    /// Whether the last of these rooms may have more.
    pub has_more: bool,
}

impl Queue {
    /// Reads the next jobs of these rooms, of the first one those after this entry. It reads as many rooms as fit one script, but at
    /// least one.
    pub(crate) async fn room_jobs(&self, names: &[&str], after: Option<EntryId>) -> Result<RoomJobs, Error> {
        let after = after.map_or_else(String::new, |after| after.to_string());
        let (most, most_weight) = (MOST, MOST_WEIGHT);
        let mut args = Vec::from(args![ROOM_JOBS; after, most, most_weight]);
        args.extend(names.iter().map(|name| bytes(name.as_bytes())));
        let answer = self.run(&ROOM_JOBS, vec![self.keys.rooms.clone()], args).await?;
        let rooms = answer.rest.iter().map(entries).collect::<Result<_, _>>()?;
        Ok(RoomJobs { rooms, has_more: answer.status == 1 })
    }
}

/// Reads the jobs of one room.
fn entries(room: &Value) -> Result<Option<Vec<Entry>>, Error> {
    if room.is_null() {
        return Ok(None);
    }
    let Value::Array(flat) = room else { return Err(Error::contract("room_jobs", room)) };
    flat.chunks_exact(2).map(|pair| entry(&pair[0], &pair[1])).collect::<Result<_, _>>().map(Some)
}

fn entry(id: &Value, packed: &Value) -> Result<Entry, Error> {
    let broken = || Error::contract("room_jobs", id);
    let (envelope, lane) = Envelope::unpack(decode::data(packed)).map_err(|_| broken())?;
    Ok(Entry { id: decode::entry_id(id).ok_or_else(broken)?, lane, envelope: Some(envelope) })
}
