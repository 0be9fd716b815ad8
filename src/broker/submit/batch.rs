//! Batches: jobs after whose success together one more job follows.

use crate::broker::client::script::scripts;
use std::time::Duration;

use fred::types::Value;

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::inspect::depths::timestamp;
use crate::broker::{Queue, millis};
use crate::job::{BatchId, Envelope, JobId, Lane, State, Timestamp};

scripts! { BATCH "batch", BATCHED "batched" }

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
    /// Some of those that have not succeeded: at most 20.
    pub waiting_for: Vec<Awaited>,
}

/// A member that has not succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// Its id.
    pub member: String,
    /// The job whose success counts for it: itself, or the one that was there when it was submitted, of its id or its unique
    /// key, so that it was not accepted.
    pub job: String,
    /// Where that job is; `None` where it is not known: it was never submitted, waits behind a raw `XADD`, or was dropped.
    pub state: Option<State>,
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
        Ok(self.run(&BATCH, keys, args).await?.status == 1)
    }

    /// How far a batch is; `None` where there is none of this name, or no longer.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn batch_status(&self, batch: &BatchId) -> Result<Option<Batch>, Error> {
        const SHOWN: usize = 20;
        let (mut page, mut waiting_for) = ("0".to_owned(), Vec::new());
        loop {
            let keys = vec![self.keys.batch(Some(batch))];
            let answer = self.run(&BATCHED, keys, vec![page.into()]).await?;
            if answer.status == 0 {
                return Ok(None);
            }
            let [state, size, left, created, next, members @ ..] = &answer.rest[..] else {
                return Err(Error::contract("batched", answer));
            };
            page = decode::text(next);
            let members =
                members.chunks_exact(2).map(|pair| [decode::text(&pair[0]), decode::text(&pair[1])]);
            waiting_for.extend(members.take(SHOWN - waiting_for.len()));
            if page == "0" || waiting_for.len() == SHOWN {
                return Ok(Some(Batch {
                    state: decode::text(state),
                    size: decode::number(size).unwrap_or(0),
                    left: decode::number(left).unwrap_or(0),
                    created: timestamp(decode::number(created).unwrap_or(0)),
                    waiting_for: self.awaited(waiting_for).await?,
                }));
            }
        }
    }

    /// Where the jobs are that members wait for.
    async fn awaited(&self, members: Vec<[String; 2]>) -> Result<Vec<Awaited>, Error> {
        let mut awaited = Vec::with_capacity(members.len());
        for [member, job] in members {
            let state = match job.parse() {
                Ok(id) => self.status_without_log(&id).await?.map(|status| status.state),
                Err(_) => None,
            };
            awaited.push(Awaited { member, job, state });
        }
        Ok(awaited)
    }
}
