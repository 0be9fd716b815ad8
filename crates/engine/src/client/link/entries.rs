//! Reads entries of a stream.

use fred::interfaces::StreamsInterface;
use fred::types::{Key, Value};

use super::Link;
use crate::client::decode::{self, Entry};
use crate::client::error::Error;
use crate::job::{EntryId, Lane};

impl Link {
    /// Reads at most `count` entries of a stream, in their order. The lane only means something for a lane's stream.
    pub(crate) async fn xrange(
        &self,
        key: &Key,
        (from, to): (String, String),
        count: u64,
        lane: Lane,
    ) -> Result<Vec<Entry>, Error> {
        let client = self.client();
        let reply = client.xrange::<Value, _, _, _>(key.clone(), from, to, Some(count));
        decode::entries("xrange", &self.ask("xrange", reply).await?, lane)
    }

    /// Reads at most `count` entries of a stream, from `end` back.
    pub(crate) async fn xrevrange(
        &self,
        key: &Key,
        end: String,
        count: u64,
        lane: Lane,
    ) -> Result<Vec<Entry>, Error> {
        let client = self.client();
        let reply = client.xrevrange::<Value, _, _, _>(key.clone(), end, "-", Some(count));
        decode::entries("xrevrange", &self.ask("xrevrange", reply).await?, lane)
    }

    /// Reads one entry of a stream; `None` if it was deleted.
    pub(crate) async fn entry(&self, key: &Key, id: EntryId, lane: Lane) -> Result<Option<Entry>, Error> {
        Ok(self.xrange(key, (id.to_string(), id.to_string()), 1, lane).await?.pop())
    }
}

/// Returns where a page begins that follows this entry, or the stream's first.
pub(crate) fn after(entry: Option<EntryId>) -> String {
    entry.map_or_else(|| "-".to_owned(), |entry| format!("({entry}"))
}

/// Returns where a page ends that this entry follows, or the stream's last.
pub(crate) fn before(entry: Option<EntryId>) -> String {
    entry.map_or_else(|| "+".to_owned(), |entry| format!("({entry}"))
}
