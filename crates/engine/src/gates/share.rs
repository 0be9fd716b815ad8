//! Sharing a queue between the values of a field: a flood of one value waits in the rooms of that value, and all values have
//! their turns.

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::scripts;
use crate::job::Lane;
use crate::{Queue, bytes};

scripts! { SHARE "share" }

/// The most jobs that one script sorts and lets out …
const MAX_MOVED: i64 = 200;

/// … and the most that they weigh, roughly.
const MAX_WEIGHT: i64 = 256 * 1024;

/// The result of one `share`.
#[derive(Debug, Clone)]
pub struct Shared {
    /// How many jobs moved to rooms.
    pub sorted: u64,
    /// How many left them.
    pub left: u64,
    /// Whether more may move at once.
    pub more: bool,
    /// Whether jobs wait for their turn.
    pub has_rooms: bool,
    /// Why some of it was not done: a key of another type, or a full server.
    pub failed: Option<Error>,
}

impl Queue {
    /// Sorts the jobs of lanes in which more than `window` wait, and lets others out of rooms in their turns. Without a window,
    /// only empties rooms of a queue that is not shared any more. `names` are rooms that are known to have jobs. See `share.lua`.
    #[doc(hidden)]
    pub async fn share(&self, window: Option<usize>, names: &[String]) -> Result<Shared, Error> {
        let own = &self.keys;
        let shared = [&own.gates, &own.rooms, &own.room_places, &own.dead, &own.fair];
        let rings = Lane::ALL.map(|lane| own.ring(lane));
        let keys = shared.into_iter().chain(own.streams()).chain(&rings).cloned().collect();
        let window = window.map_or_else(|| "".into(), |jobs| Value::Integer(jobs as i64));
        let mut args = vec![window, Value::Integer(MAX_MOVED), Value::Integer(MAX_WEIGHT)];
        args.extend(names.iter().map(|name| bytes(name.as_bytes())));
        let answer = self.run(&SHARE, keys, args).await?;
        let (Ok(sorted), [left, more, has_rooms, failed]) = (u64::try_from(answer.status), &answer.rest[..])
        else {
            return Err(Error::contract("share", answer));
        };
        let failed = Some(decode::text(failed)).filter(|failed| !failed.is_empty());
        Ok(Shared {
            sorted,
            left: decode::number(left).unwrap_or(0),
            more: decode::number(more) == Some(1),
            has_rooms: decode::number(has_rooms) == Some(1),
            failed: failed.map(|failed| self.name_keys(Error::refused("share", failed))),
        })
    }
}
