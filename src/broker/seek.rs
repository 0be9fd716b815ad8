//! Looking for a job that has neither record nor an id that names its entry: one that waits for its first attempt under
//! an id of its own, or that a stopping worker gave back. Nothing points to its entry, so the lanes are walked, from
//! the newest entry on and only so far.

use fred::types::Value;

use super::error::Error;
use super::inspect::Status;
use super::{Queue, decode, script};
use crate::job::{EntryId, JobId, Lane};

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

    pub(super) async fn seek_entry(
        &self,
        id: &JobId,
        lane: Lane,
        limit: u64,
    ) -> Result<Option<EntryId>, Error> {
        let mut from = "+".to_owned();
        for _ in 0..limit.div_ceil(PAGE) {
            let args = vec![id.to_string().into(), from.into(), Value::Integer(PAGE.cast_signed())];
            let answer = self.run(&script::SEEK, vec![self.keys.stream(lane).clone()], args).await?;
            let [last, found] = &answer.rest[..] else { return Err(Error::contract("seek", answer)) };
            if let Some(entry) = decode::entry_id(found) {
                return Ok(Some(entry));
            }
            let full = answer.status == PAGE.cast_signed();
            let Some(last) = decode::entry_id(last).filter(|_| full) else { return Ok(None) };
            from = format!("({last}");
        }
        Ok(None)
    }
}
