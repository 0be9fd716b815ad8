//! Looking for a job that has neither record nor an id that names its entry: one that waits for its first attempt under
//! an id of its own, or that a stopping worker gave back. Nothing points to its entry, so the lanes are walked, from
//! the newest entry on and only so far.

use fred::types::Value;

use super::error::Error;
use super::inspect::Status;
use super::{Queue, decode, script};
use crate::job::{EntryId, JobId, Lane, Timestamp};

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

/// One script looks at so many entries.
const PAGE: u64 = 100;

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

    pub(super) async fn seek_entry(
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
        let (mut from, way) = match way {
            Way::Up(since) => (since.as_ms().to_string(), "up"),
            Way::Down => ("+".to_owned(), "down"),
        };
        for _ in 0..limit.div_ceil(PAGE) {
            let args =
                vec![id.to_string().into(), from.into(), Value::Integer(PAGE.cast_signed()), way.into()];
            let answer = self.run(&script::SEEK, vec![self.keys.stream(lane).clone()], args).await?;
            let [last, found] = &answer.rest[..] else { return Err(Error::contract("seek", answer)) };
            if let Some(entry) = decode::entry_id(found) {
                return Ok(Some(Some(entry)));
            }
            let full = answer.status == PAGE.cast_signed();
            let Some(last) = decode::entry_id(last).filter(|_| full) else { return Ok(Some(None)) };
            from = format!("({last}");
        }
        Ok(None)
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
