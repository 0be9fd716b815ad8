//! Finding orphans, which are entries that were delivered and are neither pending nor deleted, and making them pending
//! again. Scripts never leave any behind. Somebody who runs `XACK` or `XGROUP DELCONSUMER` by hand does, and so does a worker
//! that dies after Redis accepted its `XACK` but not its `XDEL`.

use std::time::Duration;

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::scripts;
use crate::job::{ConsumerName, EntryId, Lane};
use crate::{Queue, millis};

scripts! { ORPHANS "orphans", RECLAIM "reclaim" }

/// The most pending entries that one `orphans` passes. Looking behind one of them costs Redis a few microseconds.
const PASSED: i64 = 200;

/// The most orphans that one `orphans` returns.
const FOUND: i64 = 100;

/// After orphans that weigh this much, one `orphans` stops. Lua gets each of them as a whole.
const FOUND_WEIGHT: i64 = 512 * 1024;

/// The most entries that one `reclaim` takes.
pub const MAX_RECLAIMED: usize = 100;

/// What one `orphans` found.
#[derive(Debug)]
pub struct FoundOrphans {
    /// The id after which to continue; `None` at the end of the lane.
    pub next: Option<EntryId>,
    /// The orphans, in the order of their ids.
    pub found: Vec<EntryId>,
}

impl Queue {
    /// Looks for orphans in a part of a lane that begins after this id. See `orphans.lua`.
    #[doc(hidden)]
    pub async fn orphans(&self, lane: Lane, after: EntryId) -> Result<FoundOrphans, Error> {
        let args = vec![after.to_string().into(), PASSED.into(), FOUND.into(), FOUND_WEIGHT.into()];
        let answer = self.run(&ORPHANS, vec![self.keys.stream(lane).clone()], args).await?;
        let Some((next, ids)) = answer.rest.split_first() else {
            return Err(Error::contract("orphans", answer));
        };
        Ok(FoundOrphans {
            next: decode::entry_id(next),
            found: ids.iter().filter_map(decode::entry_id).collect(),
        })
    }

    /// Makes up to [`MAX_RECLAIMED`] orphans of a lane pending again, as entries of this consumer that have been silent for so
    /// long. Leaves alone what is no orphan any more. Returns how many are pending for the consumer now. See `reclaim.lua`.
    #[doc(hidden)]
    pub async fn reclaim_orphans(
        &self,
        consumer: &ConsumerName,
        lane: Lane,
        orphans: &[EntryId],
        silence: Duration,
    ) -> Result<u64, Error> {
        let mut args = vec![consumer.as_str().into(), millis(silence)];
        args.extend(orphans.iter().map(|id| Value::from(id.to_string())));
        let answer = self.run_named(&RECLAIM, vec![self.keys.stream(lane).clone()], args).await?;
        u64::try_from(answer.status).map_err(|_| Error::contract("reclaim", answer))
    }
}
