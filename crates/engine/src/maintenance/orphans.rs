//! Finding orphans, which are entries that were delivered and are neither pending nor deleted, and making them pending
//! again. Scripts never leave any behind. Somebody who runs `XACK` or `XGROUP DELCONSUMER` by hand does, and so does a worker
//! that dies after Redis accepted its `XACK` but not its `XDEL`.

use std::time::Duration;

use fred::types::Value;
use futures_util::future::try_join_all;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{ConsumerName, EntryId, Lane};
use crate::{Entry, Queue, millis};

scripts! { ORPHANS "orphans", RECLAIM "reclaim" }

/// The most pending entries that one `orphans` passes. Looking behind one of them costs Redis a few microseconds.
const PASSED: usize = 200;

/// Behind how many of them it looks at once. Each of these may find an entry of many MiB.
const AT_ONCE: usize = 8;

/// The most orphans that one `orphans` returns, unless it finds more at once.
const FOUND: usize = 100;

/// After this many bytes of orphans, one `orphans` stops.
const FOUND_BYTES: usize = 512 * 1024;

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
    /// Looks for orphans in a part of a lane that begins after this id. What it finds may have ended meanwhile; `reclaim.lua`
    /// leaves that alone. See `orphans.lua`.
    #[doc(hidden)]
    pub async fn orphans(&self, lane: Lane, after: EntryId) -> Result<FoundOrphans, Error> {
        let args = Vec::from(args![ORPHANS; after = after.to_string(), most = PASSED as i64]);
        let answer = self.run(&ORPHANS, vec![self.keys.stream(lane).clone()], args).await?;
        let Some((last, pending)) = answer.rest.split_first() else {
            return Err(Error::contract("orphans", answer));
        };
        let Some(last) = decode::entry_id(last) else {
            return Ok(FoundOrphans { next: None, found: Vec::new() });
        };
        let pending: Vec<_> = pending.iter().filter_map(decode::entry_id).collect();
        let is_end = pending.len() < PASSED;
        let starts = std::iter::once(after).chain(pending.iter().copied());
        let ends = pending.iter().map(|held| format!("({held}")).chain(is_end.then(|| last.to_string()));
        let mut gaps: Vec<_> = starts.zip(ends).collect();
        let (mut found, mut bytes) = (Vec::new(), 0);
        while !gaps.is_empty() {
            let some = gaps.drain(..gaps.len().min(AT_ONCE)).collect::<Vec<_>>();
            let firsts = some.iter().map(|(after, until)| self.first_between(lane, *after, until));
            let firsts = try_join_all(firsts).await?;
            let mut again = Vec::new();
            for ((_, until), first) in some.into_iter().zip(firsts) {
                let Some(first) = first else { continue };
                bytes += first.size();
                found.push(first.id);
                again.push((first.id, until));
            }
            if found.len() >= FOUND || bytes >= FOUND_BYTES {
                // Behind it, one of these gaps may have more.
                return Ok(FoundOrphans { next: again.first().map(|(first, _)| *first), found });
            }
            gaps.splice(..0, again);
        }
        Ok(FoundOrphans { next: pending.last().copied().filter(|_| !is_end), found })
    }

    /// Returns the first entry of a lane after one entry, until another.
    async fn first_between(&self, lane: Lane, after: EntryId, until: &str) -> Result<Option<Entry>, Error> {
        let range = (format!("({after}"), until.to_owned());
        Ok(self.link.xrange(self.keys.stream(lane), range, 1, lane).await?.pop())
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
        let (consumer, silence_ms) = (consumer.as_str(), millis(silence));
        let mut args = Vec::from(args![RECLAIM; consumer, silence_ms]);
        args.extend(orphans.iter().map(|id| Value::from(id.to_string())));
        let answer = self.run_named(&RECLAIM, vec![self.keys.stream(lane).clone()], args).await?;
        u64::try_from(answer.status).map_err(|_| Error::contract("reclaim", answer))
    }
}
