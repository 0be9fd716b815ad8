//! Dead letters, read page by page from either end, and how many of them stay. Moving them is in `upkeep`.

use std::time::Duration;

use fred::interfaces::StreamsInterface;
use fred::types::Value;

use super::error::Error;
use super::{Entry, Queue, decode};
use crate::job::{EntryId, Envelope, JobId, Lane};

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its entry in the dead stream.
    pub entry: EntryId,
    /// All its fields.
    pub fields: Envelope,
}

/// Which dead letters a queue keeps: by default all of them, for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LetterLimits {
    /// A letter stays for this long.
    pub retention: Option<Duration>,
    /// So many letters stay: the newest.
    pub most: Option<u64>,
}

impl LetterLimits {
    /// Whether no letter ever goes.
    pub(crate) fn keep_all(self) -> bool {
        self.retention.is_none() && self.most.is_none()
    }
}

/// What became of a dead letter that was held against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evicted {
    /// It was over them, and is deleted.
    Dropped,
    /// It may stay.
    Kept,
    /// It was not there any more.
    Gone,
}

impl DeadLetter {
    /// A field as text; empty where there is none.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.fields.get(name.as_bytes()).unwrap_or_default()).into_owned()
    }

    /// The job's id: `dead_job` for bytes that are no job, its `id` field for others, or else the letter's own entry.
    pub fn job(&self) -> JobId {
        let named = ["dead_job", "id"].into_iter().find_map(|name| self.text(name).parse().ok());
        named.unwrap_or_else(|| JobId::derived(self.entry, Lane::Normal))
    }
}

impl Queue {
    /// A page of the dead letters, oldest first, from `from` on.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn dead_letters(&self, from: Option<EntryId>, count: u64) -> Result<Vec<DeadLetter>, Error> {
        let start = from.map_or_else(|| "-".to_owned(), |entry| entry.to_string());
        self.dead_range(start, "+".to_owned(), count).await
    }

    /// A page of the dead letters, newest first, from the one before `before` on.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn recent_dead_letters(
        &self,
        before: Option<EntryId>,
        count: u64,
    ) -> Result<Vec<DeadLetter>, Error> {
        let client = self.link.client();
        let end = before.map_or_else(|| "+".to_owned(), |entry| format!("({entry}"));
        let reply = client.xrevrange(self.keys.dead.clone(), end, "-", Some(count));
        letters("xrevrange", self.link.ask("xrevrange", reply).await?)
    }

    /// One dead letter by its own entry id.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn dead_letter(&self, entry: EntryId) -> Result<Option<DeadLetter>, Error> {
        Ok(self.dead_range(entry.to_string(), entry.to_string(), 1).await?.pop())
    }

    async fn dead_range(&self, start: String, end: String, count: u64) -> Result<Vec<DeadLetter>, Error> {
        let client = self.link.client();
        let reply = client.xrange(self.keys.dead.clone(), start, end, Some(count));
        letters("xrange", self.link.ask("xrange", reply).await?)
    }
}

fn letters(command: &'static str, reply: Value) -> Result<Vec<DeadLetter>, Error> {
    let letter = |entry: Entry| DeadLetter { entry: entry.id, fields: entry.envelope.unwrap_or_default() };
    Ok(decode::entries(command, &reply, Lane::Normal)?.into_iter().map(letter).collect())
}
