//! Who submits the jobs of an outbox, and what that process knows about the rows: from there, those who look for incidents know it.

use std::time::Duration;

use fred::interfaces::{KeysInterface, StreamsInterface};
use fred::types::{Expiration, Value};
use serde::{Deserialize, Serialize};

use crate::client::decode;
use crate::client::error::Error;
use crate::client::keys;
use crate::job::{EntryId, cut};
use crate::{Broker, Link};

/// How long Redis knows what nobody renews. An outbox without a relay for longer is none.
const KNOWN_FOR: Duration = Duration::from_secs(24 * 3600);

/// The most bytes of an error that are kept.
const MAX_ERROR_BYTES: usize = 500;

/// What the relay of an outbox knows about its rows. Times are those of Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutboxState {
    /// When it was noted, in milliseconds since 1970.
    pub at_ms: u64,
    /// How many rows wait, counted up to a bound.
    pub rows: u64,
    /// How many rows can never be jobs, counted up to a bound.
    pub refused: u64,
    /// When the oldest row that waits was written, in milliseconds since 1970; `None` if none waits.
    pub oldest_ms: Option<u64>,
    /// Why rows cannot be submitted at present; empty if they can.
    pub error: String,
    /// Since when that is so, in milliseconds since 1970.
    pub failing_since_ms: Option<u64>,
}

impl Broker {
    /// Takes or renews the lease of the process that submits the jobs of an outbox; zero gives it up. Returns whether this process has it.
    /// Correctness does not depend on it.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn lead_outbox(&self, own: &str, lease: Duration) -> Result<bool, Error> {
        let key = keys::outbox(self.namespace());
        self.link_to(&key).take_lease(&key, own, lease).await
    }

    /// Tells the process that submits the jobs of an outbox that rows were committed, so that it does not wait until it looks again.
    /// Nothing depends on it: rows are found without it.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn wake_outbox(&self) -> Result<(), Error> {
        let key = keys::outbox_wake(self.namespace());
        let link = self.link_to(&key);
        let client = link.client();
        // One entry is enough, however many commit.
        let (one, fields) = (("MAXLEN", "=", 1), vec![("wake", "1")]);
        link.ask("xadd", client.xadd::<Value, _, _, _, _>(key, false, one, "*", fields)).await.map(drop)
    }

    /// Opens a connection for [`Broker::await_outbox`].
    #[doc(hidden)]
    pub async fn open_outbox(&self) -> Result<Link, Error> {
        let key = keys::outbox_wake(self.namespace());
        self.link_to(&key).open_blocking(key).await
    }

    /// Waits at most `longest` for an entry after this one, which says that rows were committed. Returns it, if there is one.
    #[doc(hidden)]
    pub async fn await_outbox(
        &self,
        link: &Link,
        after: EntryId,
        longest: Duration,
    ) -> Result<Option<EntryId>, Error> {
        link.await_entry(keys::outbox_wake(self.namespace()), after, longest).await
    }

    /// Notes what the relay knows. Of the error, 500 bytes are kept.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn note_outbox(&self, state: &OutboxState) -> Result<(), Error> {
        let key = keys::outbox_state(self.namespace());
        let mut state = state.clone();
        state.error = cut(state.error, MAX_ERROR_BYTES);
        let text = serde_json::to_string(&state).unwrap_or_default();
        let link = self.link_to(&key);
        let known_for = Some(Expiration::EX(i64::try_from(KNOWN_FOR.as_secs()).unwrap_or(i64::MAX)));
        let client = link.client();
        let set = client.set::<Value, _, _>(key, text, known_for, None, false);
        link.ask("set", set).await.map(drop)
    }

    /// Returns what the relay has noted; `None` if there has been none for a day.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn outbox_state(&self) -> Result<Option<OutboxState>, Error> {
        let key = keys::outbox_state(self.namespace());
        let link = self.link_to(&key);
        let client = link.client();
        let reply = link.ask("get", client.get::<Value, _>(key)).await?;
        // What another version or a person has written says nothing.
        Ok(serde_json::from_str(&decode::text(&reply)).ok())
    }
}
