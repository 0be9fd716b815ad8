//! What waits at the server: a link for it must be [`Role::Blocking`](super::Role::Blocking).

use std::time::Duration;

use fred::interfaces::{ListInterface, StreamsInterface};
use fred::types::{Key, Value};

use super::Link;
use crate::client::decode;
use crate::client::error::Error;
use crate::job::EntryId;

impl Link {
    /// Waits at most `longest` until a list has an item, and removes it. True if there was one. The link must be
    /// [`Role::Blocking`](super::Role::Blocking).
    pub async fn pop(&self, list: Key, longest: Duration) -> Result<bool, Error> {
        let client = self.client();
        let item = Box::pin(client.blpop(list, longest.as_secs_f64()));
        let popped = async {
            match item.await {
                Ok(Value::Null) => Ok(false),
                Ok(_) => Ok(true),
                // The client has no deadline of its own here; this is how it reports that nothing came in time.
                Err(error) if *error.kind() == fred::error::ErrorKind::Timeout => Ok(false),
                Err(error) => Err(Error::from_client("blpop", &error)),
            }
        };
        self.watch(None, popped).await
    }

    /// Waits at most `longest` until a stream has an entry after this one, and returns its id. The link must be [`Role::Blocking`](super::Role::Blocking).
    pub async fn await_entry(
        &self,
        stream: Key,
        after: EntryId,
        longest: Duration,
    ) -> Result<Option<EntryId>, Error> {
        let client = self.client();
        let block = Some(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
        let after = after.to_string();
        let read = Box::pin(client.xread::<Value, _, _>(Some(1), block, stream, after));
        let found = async {
            match read.await {
                Ok(reply) => Ok(first_id(&reply)),
                // The client has no deadline of its own here; this is how it reports that nothing came in time.
                Err(error) if *error.kind() == fred::error::ErrorKind::Timeout => Ok(None),
                Err(error) => Err(Error::from_client("xread", &error)),
            }
        };
        self.watch(None, found).await
    }
}

/// The id of the first entry that XREAD has found.
fn first_id(reply: &Value) -> Option<EntryId> {
    let Value::Array(streams) = reply else { return None };
    let Value::Array(stream) = streams.first()? else { return None };
    let Value::Array(entries) = stream.get(1)? else { return None };
    let Value::Array(entry) = entries.first()? else { return None };
    decode::entry_id(entry.first()?)
}
