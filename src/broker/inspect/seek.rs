//! Looking for a job that has neither record nor an id that names its entry: one that waits for its first attempt under
//! an id of its own, or that a stopping worker gave back. Nothing points to its entry, so the lanes are walked, only so far.
//! A plain XRANGE costs Redis a tenth of what a script does that looks at the same entries, and each holds it up for half a
//! millisecond.

use fred::interfaces::StreamsInterface;
use fred::types::Value;

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::inspect::depths::Status;
use crate::broker::{Entry, Queue};
use crate::job::{EntryId, JobId, Lane, Portion, Timestamp};

/// Where a job is that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sought {
    /// At this entry of this lane.
    At(Lane, EntryId),
    /// Nowhere: all of its lane was looked at where it could be.
    Gone,
    /// Not known: there are more entries than may be looked at.
    Lost,
}

/// One page has at most so many entries …
const PAGE: usize = 1000;

/// … and about so many bytes …
const PAGE_BYTES: usize = 1024 * 1024;

/// … and a lane is walked no further than this many bytes: beyond it, a look would cost more than it is worth.
const LANE_BYTES: usize = 256 * 1024 * 1024;

impl Queue {
    /// What is known about a job whose entry is among the newest `limit` ones of its lane. For people who ask about one
    /// job: [`Queue::status`] answers without a walk.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn seek(&self, id: &JobId, limit: u64) -> Result<Option<Status>, Error> {
        for lane in Lane::ALL {
            if let Some(entry) = self.seek_entry(id, lane, limit).await? {
                return self.status_at(id, Some((entry, lane)), true).await;
            }
        }
        Ok(None)
    }

    /// Looks for the entry of a job that was due at this time. It has none that is older, so the lane is walked from that
    /// time on, as far as `limit` entries, and then from its newest entry back, as far again.
    pub(crate) async fn seek_due(
        &self,
        id: &JobId,
        (lane, due): (Lane, Timestamp),
        limit: u64,
    ) -> Result<Sought, Error> {
        match self.walk(id, lane, Way::Up(due), limit).await? {
            Some(Some(entry)) => return Ok(Sought::At(lane, entry)),
            Some(None) => return Ok(Sought::Gone),
            None => {}
        }
        let found = self.seek_entry(id, lane, limit).await?;
        Ok(found.map_or(Sought::Lost, |entry| Sought::At(lane, entry)))
    }

    pub(in crate::broker) async fn seek_entry(
        &self,
        id: &JobId,
        lane: Lane,
        limit: u64,
    ) -> Result<Option<EntryId>, Error> {
        Ok(self.walk(id, lane, Way::Down, limit).await?.flatten())
    }

    /// The job's entry, where there is one; nothing where the end was not reached.
    async fn walk(
        &self,
        id: &JobId,
        lane: Lane,
        way: Way,
        limit: u64,
    ) -> Result<Option<Option<EntryId>>, Error> {
        let id = id.to_string();
        let (mut left, mut bytes) = (usize::try_from(limit).unwrap_or(usize::MAX), LANE_BYTES);
        let mut portion = Portion::new(1, PAGE, PAGE_BYTES);
        let mut from = match way {
            Way::Up(since) => since.as_ms().to_string(),
            Way::Down => "+".to_owned(),
        };
        while left > 0 && bytes > 0 {
            let count = portion.count().min(left);
            let page = self.page(lane, way, from, count).await?;
            let own = |entry: &&Entry| {
                entry.envelope.as_ref().and_then(|envelope| envelope.get(b"id")) == Some(id.as_bytes())
            };
            if let Some(found) = page.iter().find(own) {
                return Ok(Some(Some(found.id)));
            }
            portion.saw(page.iter().map(Entry::size));
            bytes = bytes.saturating_sub(page.iter().map(Entry::size).sum());
            let Some(last) = page.last().filter(|_| page.len() == count) else { return Ok(Some(None)) };
            left -= count;
            from = format!("({}", last.id);
        }
        Ok(None)
    }

    /// A page of a lane, from there on.
    async fn page(&self, lane: Lane, way: Way, from: String, count: usize) -> Result<Vec<Entry>, Error> {
        let (client, key) = (self.link.client(), self.keys.stream(lane).clone());
        let reply: Value = match way {
            Way::Up(_) => self.link.ask("xrange", client.xrange(key, from, "+", Some(count as u64))).await?,
            Way::Down => {
                self.link.ask("xrevrange", client.xrevrange(key, from, "-", Some(count as u64))).await?
            }
        };
        decode::entries("xrange", &reply, lane)
    }
}

/// How a lane is walked.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// From this time on.
    Up(Timestamp),
    /// From its newest entry back.
    Down,
}
