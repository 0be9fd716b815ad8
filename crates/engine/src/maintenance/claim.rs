//! Claiming the entries of silent workers, and deleting consumers that are gone.

use std::time::Duration;

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::{args, scripts};
use crate::job::{ConsumerName, EntryId, Lane};
use crate::{Queue, millis};

scripts! { CLAIM "claim", REAP "reap", REDATE "redate", STALE "stale" }

/// The most entries that one `redate` checks.
const REDATE_BATCH: i64 = 500;

/// A page of claimed entries.
#[derive(Debug)]
pub struct Claimed {
    /// Where the next page begins; `None` at the end.
    pub next: Option<EntryId>,
    pub entries: Vec<SilentEntry>,
    /// Entries that were pending but deleted: their contents are lost.
    pub deleted: u64,
}

/// An entry that was claimed.
#[derive(Debug)]
pub struct SilentEntry {
    /// The entry.
    pub id: EntryId,
    /// The consumer that held it; `-` if unknown.
    pub owner: String,
    /// How long ago it was delivered or last renewed.
    pub silence: Duration,
}

/// The result of one check for silent entries.
#[derive(Debug)]
pub struct StaleEntries {
    /// The server's clock.
    pub now_ms: u64,
    /// For each lane, the first entry that was silent for too long.
    pub first: [(Lane, Option<EntryId>); 3],
}

/// Where a claim begins, and which entries it takes.
#[derive(Debug, Clone, Copy)]
pub struct ClaimFrom {
    /// The first entry to look at.
    pub start: EntryId,
    /// How long an entry must have been silent.
    pub silence: Duration,
    /// The most entries to claim.
    pub count: u64,
    /// The range in which the server's clock must be, in milliseconds.
    pub window: [i64; 2],
}

impl Queue {
    /// Returns the server's clock, and the first entry of each lane that was silent for this long. See `stale.lua`.
    #[doc(hidden)]
    pub async fn stale(&self, silence: Duration) -> Result<StaleEntries, Error> {
        let args = args![STALE; silence_ms = millis(silence)];
        let answer = self.run(&STALE, self.keys.streams().to_vec(), args.into()).await?;
        let first = |lane: Lane| answer.rest.get(lane as usize).and_then(decode::entry_id);
        Ok(StaleEntries {
            now_ms: answer.status.cast_unsigned(),
            first: Lane::ALL.map(|lane| (lane, first(lane))),
        })
    }

    /// Claims entries of a lane that were silent for this long; `None` if the server's clock is outside the window. See
    /// `claim.lua`.
    #[doc(hidden)]
    pub async fn claim(
        &self,
        consumer: &ConsumerName,
        lane: Lane,
        from: ClaimFrom,
    ) -> Result<Option<Claimed>, Error> {
        let args = Vec::from(args![CLAIM;
            consumer = consumer.as_str(),
            silence_ms = millis(from.silence),
            first = from.start.to_string(),
            count = from.count.cast_signed(),
            from_ms = from.window[0],
            to_ms = from.window[1],
        ]);
        let keys = vec![self.keys.stream(lane).clone()];
        let answer = self.run(&CLAIM, keys, args).await?;
        match (answer.status, &answer.rest[..]) {
            (0, _) => Ok(None),
            (1, [next, deleted, Value::Array(ids)]) => Ok(Some(Claimed {
                next: decode::entry_id(next).filter(|id| *id != EntryId::new(0, 0)),
                entries: ids.iter().filter_map(silent).collect(),
                deleted: decode::number(deleted).unwrap_or(0),
            })),
            _ => Err(Error::contract("claim", answer)),
        }
    }

    /// Resets the delivery time of entries that were renewed before the server's clock was set back; returns how many.
    /// See `redate.lua`.
    #[doc(hidden)]
    pub async fn redate(&self) -> Result<u64, Error> {
        let mut dated = 0;
        for lane in Lane::ALL {
            let mut start = "-".to_owned();
            while !start.is_empty() {
                let args = Vec::from(args![REDATE; first = start, most = REDATE_BATCH]);
                let answer = self.run(&REDATE, vec![self.keys.stream(lane).clone()], args).await?;
                dated += answer.status.cast_unsigned();
                start = answer.rest.first().map(decode::text).unwrap_or_default();
            }
        }
        Ok(dated)
    }

    /// Deletes a consumer from the lanes in which it has nothing pending. True if it is gone from all lanes.
    #[doc(hidden)]
    pub async fn reap(&self, link: &Link, consumer: &str) -> Result<bool, Error> {
        let args = Vec::from(args![REAP; consumer]);
        let mut keys = self.keys.streams().to_vec();
        keys.push(self.keys.receipts(consumer));
        let answer = link.run(&REAP, keys, args).await?;
        Ok(answer.rest.first().and_then(decode::number) == Some(0))
    }
}

fn silent(item: &Value) -> Option<SilentEntry> {
    let Value::Array(parts) = item else { return None };
    let [id, owner, silence] = &parts[..] else { return None };
    let silence = Duration::from_millis(decode::number(silence)?);
    Some(SilentEntry { id: decode::entry_id(id)?, owner: decode::text(owner), silence })
}
