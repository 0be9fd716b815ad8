//! Marks of requests: what somebody wanted when they first named a job, for as long as they may name it again.

use std::time::Duration;

use fred::interfaces::KeysInterface;
use fred::types::{Expiration, SetOptions, Value};

use crate::Queue;
use crate::client::decode;
use crate::client::error::Error;
use crate::job::JobId;

impl Queue {
    /// Notes the mark of the request that named a job, for this long, unless it has one.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn note_mark(&self, id: &JobId, mark: &str, kept: Duration) -> Result<(), Error> {
        let ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX).max(1);
        let (client, key) = (self.link.client(), self.keys.mark(id));
        let set = client.set::<Value, _, _>(key, mark, Some(Expiration::PX(ms)), Some(SetOptions::NX), false);
        self.link.ask("set", set).await.map(drop)
    }

    /// Returns the mark of the request that named a job; `None` if it is not known, or no longer.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn mark_of(&self, id: &JobId) -> Result<Option<String>, Error> {
        let client = self.link.client();
        let get = client.get::<Value, _>(self.keys.mark(id));
        let mark = decode::text(&self.link.ask("get", get).await?);
        Ok(Some(mark).filter(|mark| !mark.is_empty()))
    }
}
