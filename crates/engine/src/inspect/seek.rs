//! Searching for a job that has neither a record nor an id that names its entry: it waits for its first attempt under
//! an id of its own, it was delayed under a drawn id, or a stopping worker released it. Nothing points to its entry, so the lanes are walked, up to a
//! limit.
//!
//! A plain `XRANGE` costs Redis a tenth of a script that checks the same entries, and each blocks it for half a
//! millisecond.

use crate::client::error::Error;
use crate::inspect::status::Status;
use crate::job::{EntryId, JobId, Lane, Portion, Timestamp};
use crate::{Entry, Queue};

/// The place of a job that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntrySearch {
    /// It is this entry of this lane.
    At(Lane, EntryId),
    /// It is nowhere: every place in its lane where it could be was checked.
    Gone,
    /// Unknown: there are more entries than may be checked.
    Lost,
}

/// The most entries of one page …
const PAGE: usize = 1000;

/// … and the most bytes, roughly …
const PAGE_BYTES: usize = 1024 * 1024;

/// … and the most of a lane's oldest entries that are searched first: those that workers hold are among them …
const OLDEST: u64 = 5000;

/// … and the most bytes of a lane that are walked: beyond that, a search would cost more than it is worth.
const LANE_BYTES: usize = 256 * 1024 * 1024;

impl Queue {
    /// Returns what is known about a job whose entry is among the newest `limit` entries of its lane, or among its oldest
    /// thousands, which workers hold.
    ///
    /// Meant for interactive use: [`Queue::status`] answers without a walk.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn seek(&self, id: &JobId, limit: u64) -> Result<Option<Status>, Error> {
        let mut unlimited = u64::MAX;
        self.seek_within(id, limit, &mut unlimited).await
    }

    /// Searches as [`seek`](Self::seek) does, and reads about this many bytes at most. It takes off what it has read, so that
    /// searches of several queues can share the number. At 0, it finds nothing.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queues: Vec<streamfleet::Queue>) -> Result<(), Box<dyn std::error::Error>> {
    /// let id: streamfleet::job::JobId = "invoice-17".parse()?;
    /// let mut bytes = 64 * 1024 * 1024;
    /// for queue in queues {
    ///     let Some(status) = queue.seek_within(&id, 10_000, &mut bytes).await? else { continue };
    ///     println!("{id} is {} in the queue {}", status.state, queue.name());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn seek_within(
        &self,
        id: &JobId,
        limit: u64,
        bytes: &mut u64,
    ) -> Result<Option<Status>, Error> {
        for lane in Lane::ALL {
            if let Some(entry) = self.seek_entry_within(id, lane, (limit, &mut *bytes)).await? {
                return self.status_at(id, Some((entry, lane)), true).await;
            }
        }
        Ok(None)
    }

    /// Searches for the entry of a job that was due at this time. It cannot be older, so the lane is walked forward
    /// from that time for up to `limit` entries, and then backward from its newest entry for as many again.
    #[doc(hidden)]
    pub async fn seek_due(
        &self,
        id: &JobId,
        (lane, due): (Lane, Timestamp),
        limit: u64,
    ) -> Result<EntrySearch, Error> {
        let mut bytes = u64::MAX;
        match self.walk(id, lane, Way::Up(due), (limit, &mut bytes)).await? {
            Some(Some(entry)) => return Ok(EntrySearch::At(lane, entry)),
            Some(None) => return Ok(EntrySearch::Gone),
            None => {}
        }
        let found = self.walk(id, lane, Way::Down, (limit, &mut bytes)).await?.flatten();
        Ok(found.map_or(EntrySearch::Lost, |entry| EntrySearch::At(lane, entry)))
    }

    /// Searches for the entry of a job among the oldest of a lane, where those that run are, and then among the newest.
    pub(crate) async fn seek_entry(
        &self,
        id: &JobId,
        lane: Lane,
        limit: u64,
    ) -> Result<Option<EntryId>, Error> {
        let mut bytes = u64::MAX;
        self.seek_entry_within(id, lane, (limit, &mut bytes)).await
    }

    async fn seek_entry_within(
        &self,
        id: &JobId,
        lane: Lane,
        (limit, bytes): (u64, &mut u64),
    ) -> Result<Option<EntryId>, Error> {
        let first = Way::Up(Timestamp::default());
        let oldest = self.walk(id, lane, first, (limit.min(OLDEST), &mut *bytes)).await?;
        match oldest {
            Some(found) => Ok(found),
            None => Ok(self.walk(id, lane, Way::Down, (limit, bytes)).await?.flatten()),
        }
    }

    /// Returns the job's entry, if it is found; nothing if the walk did not reach the end. Takes the bytes that it reads off
    /// those that are allowed.
    async fn walk(
        &self,
        id: &JobId,
        lane: Lane,
        way: Way,
        (limit, allowed): (u64, &mut u64),
    ) -> Result<Option<Option<EntryId>>, Error> {
        let id = id.to_string();
        let (mut left, mut bytes) = (usize::try_from(limit).unwrap_or(usize::MAX), LANE_BYTES);
        let mut portion = Portion::new(1, PAGE, PAGE_BYTES);
        let mut from = match way {
            Way::Up(since) => since.as_ms().to_string(),
            Way::Down => "+".to_owned(),
        };
        while left > 0 && bytes > 0 && *allowed > 0 {
            let count = portion.count().min(left);
            let page = self.page(lane, way, from, count).await?;
            let read = page.iter().map(Entry::size).sum::<usize>();
            (bytes, *allowed) = (bytes.saturating_sub(read), allowed.saturating_sub(read as u64));
            let own = |entry: &&Entry| {
                entry.envelope.as_ref().and_then(|envelope| envelope.get(b"id")) == Some(id.as_bytes())
            };
            if let Some(found) = page.iter().find(own) {
                return Ok(Some(Some(found.id)));
            }
            portion.record_sizes(page.iter().map(Entry::size));
            let Some(last) = page.last().filter(|_| page.len() == count) else { return Ok(Some(None)) };
            left -= count;
            from = format!("({}", last.id);
        }
        Ok(None)
    }

    /// Returns a page of a lane, starting at `from`.
    async fn page(&self, lane: Lane, way: Way, from: String, count: usize) -> Result<Vec<Entry>, Error> {
        let (key, count) = (self.keys.stream(lane), count as u64);
        match way {
            Way::Up(_) => self.link.xrange(key, (from, "+".to_owned()), count, lane).await,
            Way::Down => self.link.xrevrange(key, from, count, lane).await,
        }
    }
}

/// How a lane is walked.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Forward from this time.
    Up(Timestamp),
    /// Backward from its newest entry.
    Down,
}
