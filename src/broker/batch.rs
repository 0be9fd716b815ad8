//! Batches: jobs after whose success together one more job follows.

use std::time::Duration;

use fred::types::Value;

use super::error::Error;
use super::inspect::timestamp;
use super::{Queue, decode, millis, script};
use crate::job::{BatchId, Envelope, JobId, Lane, Timestamp};

/// A batch that is never done is forgotten after so long.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How far a batch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// `open` while members are still added, `closed` while they are awaited, or `done`.
    pub state: String,
    /// Its members.
    pub size: u64,
    /// Those that have not succeeded yet; a dead one is among them until it is replayed with success.
    pub left: u64,
    /// When it was begun.
    pub created: Timestamp,
    /// Some of those that have not succeeded.
    pub waiting_for: Vec<String>,
}

impl Queue {
    /// Adds members to a batch; without any, closes it. The first call makes it, and says what follows: `follow` goes to
    /// the lane of the member that is done last. False where the batch was closed before, without some of them.
    ///
    /// Members are named before they are submitted, so that none can end unnoticed.
    pub(crate) async fn batch(
        &self,
        batch: &BatchId,
        follow: &Envelope,
        members: &[JobId],
    ) -> Result<bool, Error> {
        let keys = vec![self.keys.batch(Some(batch)), self.keys.stream(Lane::Normal).clone()];
        let packed = follow.pack(Lane::Normal);
        let mut args = vec![Value::Bytes(packed.into()), millis(KEPT)];
        args.extend(members.iter().map(|id| Value::from(id.to_string())));
        Ok(self.run(&script::BATCH, keys, args).await?.status == 1)
    }

    /// How far a batch is; `None` where there is none of this name, or no longer.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn batch_status(&self, batch: &BatchId) -> Result<Option<Batch>, Error> {
        const SHOWN: i64 = 20;
        let answer =
            self.run(&script::BATCHED, vec![self.keys.batch(Some(batch))], vec![SHOWN.into()]).await?;
        if answer.status == 0 {
            return Ok(None);
        }
        let [state, size, left, created, waiting_for @ ..] = &answer.rest[..] else {
            return Err(Error::contract("batched", answer));
        };
        Ok(Some(Batch {
            state: decode::text(state),
            size: decode::number(size).unwrap_or(0),
            left: decode::number(left).unwrap_or(0),
            created: timestamp(decode::number(created).unwrap_or(0)),
            waiting_for: waiting_for.iter().map(decode::text).collect(),
        }))
    }
}
