//! Reading dead letters page by page from either end, and the limits on how many stay. `replay` moves and drops them.

use std::time::Duration;

use fred::interfaces::StreamsInterface;
use fred::types::{Key, Value};

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::{Entry, Queue};
use crate::job::{EntryId, Envelope, JobId, Lane, Portion};

/// The most bytes of letters that one command reads, roughly.
const PORTION_BYTES: usize = 1024 * 1024;

/// The most bytes of one page, roughly.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

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
    /// How long a letter stays.
    pub retention: Option<Duration>,
    /// How many letters stay; the oldest go first.
    pub most: Option<u64>,
}

impl LetterLimits {
    /// True if letters are kept without limit.
    pub(crate) fn keep_all(self) -> bool {
        self.retention.is_none() && self.most.is_none()
    }
}

/// The outcome of checking a dead letter against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evicted {
    /// It exceeded the limits, and was deleted.
    Dropped,
    /// It may stay.
    Kept,
    /// It no longer existed.
    Gone,
}

impl DeadLetter {
    /// Returns a field as text; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.fields.get(name.as_bytes()).unwrap_or_default()).into_owned()
    }

    /// The job's id: `dead_job` for bytes that are not a job, its `id` field for others, or else the letter's own entry.
    pub fn job(&self) -> JobId {
        let named = ["dead_job", "id"].into_iter().find_map(|name| self.text(name).parse().ok());
        named.unwrap_or_else(|| JobId::derived(self.entry, Lane::Normal))
    }
}

impl Queue {
    /// Returns a page of the dead letters, oldest first, starting at `from`.
    ///
    /// A page has `count` letters, or fewer if they are large. An empty page is the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn dead_letters(&self, from: Option<EntryId>, count: u64) -> Result<Vec<DeadLetter>, Error> {
        let start = from.map_or_else(|| "-".to_owned(), |entry| entry.to_string());
        self.dead_page(start, count, Self::dead_after).await
    }

    /// Returns a page of the dead letters, newest first, starting before `before`.
    ///
    /// A page has `count` letters, or fewer if they are large. An empty page is the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn recent_dead_letters(
        &self,
        before: Option<EntryId>,
        count: u64,
    ) -> Result<Vec<DeadLetter>, Error> {
        let end = before.map_or_else(|| "+".to_owned(), |entry| format!("({entry}"));
        self.dead_page(end, count, Self::dead_before).await
    }

    /// Reads a page in portions, so that Redis is blocked only briefly however large the letters are.
    async fn dead_page<F>(
        &self,
        mut from: String,
        count: u64,
        read: impl Fn(Self, String, u64) -> F,
    ) -> Result<Vec<DeadLetter>, Error>
    where
        F: Future<Output = Result<Vec<DeadLetter>, Error>>,
    {
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let (mut portion, mut page, mut bytes) = (Portion::new(1, most, PORTION_BYTES), Vec::new(), 0);
        while page.len() < most && bytes < PAGE_BYTES {
            let wanted = portion.count().min(most - page.len());
            let some = read(self.clone(), from, wanted as u64).await?;
            portion.saw(some.iter().map(|letter| letter.fields.size()));
            bytes += some.iter().map(|letter| letter.fields.size()).sum::<usize>();
            let is_last = some.len() < wanted;
            page.extend(some);
            let Some(last) = page.last().filter(|_| !is_last) else { break };
            from = format!("({}", last.entry);
        }
        Ok(page)
    }

    async fn dead_before(self, end: String, count: u64) -> Result<Vec<DeadLetter>, Error> {
        let client = self.link.client();
        let reply = client.xrevrange(self.keys.dead.clone(), end, "-", Some(count));
        self.letters("xrevrange", self.link.ask("xrevrange", reply).await?).await
    }

    async fn dead_after(self, start: String, count: u64) -> Result<Vec<DeadLetter>, Error> {
        self.dead_range(start, "+".to_owned(), count).await
    }

    /// Returns one dead letter by its own entry id.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn dead_letter(&self, entry: EntryId) -> Result<Option<DeadLetter>, Error> {
        Ok(self.dead_range(entry.to_string(), entry.to_string(), 1).await?.pop())
    }

    async fn dead_range(&self, start: String, end: String, count: u64) -> Result<Vec<DeadLetter>, Error> {
        let client = self.link.client();
        let reply = client.xrange(self.keys.dead.clone(), start, end, Some(count));
        self.letters("xrange", self.link.ask("xrange", reply).await?).await
    }

    async fn letters(&self, command: &'static str, reply: Value) -> Result<Vec<DeadLetter>, Error> {
        let mut entries = decode::entries(command, &reply, Lane::Normal)?;
        self.restore(&self.link, &mut entries).await?;
        let letter =
            |entry: Entry| DeadLetter { entry: entry.id, fields: entry.envelope.unwrap_or_default() };
        Ok(entries.into_iter().map(letter).collect())
    }

    /// The key with the offloaded fields of a letter; if there are none, a key that never exists.
    pub(in crate::broker) async fn offloaded_of_letter(&self, letter: EntryId) -> Result<Key, Error> {
        let (client, text) = (self.link.client(), letter.to_string());
        let reply = client.xrange(self.keys.dead.clone(), text.clone(), text, Some(1));
        let reply: Value = self.link.ask("xrange", reply).await?;
        let letter = decode::entries("xrange", &reply, Lane::Normal)?.pop().and_then(|entry| entry.envelope);
        let offloaded = letter.and_then(|fields| fields.offloaded());
        Ok(self.keys.offloaded(offloaded.as_ref().map_or("", |offloaded| &offloaded.token)))
    }
}
