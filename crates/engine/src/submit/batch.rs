//! Batches: jobs after whose success one more job follows.

use std::time::Duration;

use fred::types::Value;

use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{BatchId, Envelope, JobId, Lane, State, Timestamp};
use crate::submit::offload::ScriptFields;
use crate::{Queue, millis};

scripts! { BATCH "batch", BATCHED "batched" }

/// How long a batch that never completes is kept.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The most bytes of a job that follows a batch which the batch itself keeps.
const LIGHT: usize = 2048;

/// The progress of a batch; see the [example](Queue::batch_status).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batch {
    /// `open` while members can be added, `closed` while the batch waits for them, or `done`.
    pub state: String,
    /// The number of its members.
    pub size: u64,
    /// The number of members that have not succeeded yet. A dead member counts until it is replayed with success.
    pub left: u64,
    /// When the batch was created.
    pub created: Timestamp,
    /// Up to 20 of the members that have not succeeded.
    pub waiting_for: Vec<Awaited>,
}

/// A member that has not succeeded; see the [example](Queue::batch_status).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// Its id.
    pub member: String,
    /// The job whose success counts for the member. It is the member itself, or the existing job with the same id or
    /// unique key because of which the member was not accepted.
    pub job: String,
    /// That job's state; `None` if unknown, because it was never submitted, waits behind a raw `XADD`, or was dropped.
    pub state: Option<State>,
}

/// The job that follows a batch.
#[derive(Debug)]
pub struct BatchFollower(ScriptFields);

impl Queue {
    /// Prepares the job that follows a batch. Many batches may end with one job, so its large fields are kept elsewhere if it
    /// has more than [`LIGHT`] bytes.
    #[doc(hidden)]
    pub async fn batch_follower(&self, fields: Envelope) -> Result<BatchFollower, Error> {
        if fields.size() <= LIGHT {
            return Ok(BatchFollower(ScriptFields { envelope: fields, offloaded: self.keys.offloaded("") }));
        }
        // The key ends with the generation for which it is named.
        let generation = format!("{:032x}", rand::random::<u128>());
        let fields = fields.after(b"life", generation.as_bytes());
        let generation = generation.parse().map_err(|error| Error::contract("set", error))?;
        self.offload_beyond(LIGHT, fields, &generation).await.map(BatchFollower)
    }

    /// Adds members to a batch, or closes it if there are none.
    ///
    /// The first call creates the batch and sets the job that follows: `follow` goes to the lane of the member that
    /// finishes last. Returns false if the batch was closed before without some of these members.
    ///
    /// Members are named before they are submitted, so that none can end unnoticed.
    #[doc(hidden)]
    pub async fn batch(
        &self,
        batch: &BatchId,
        BatchFollower(follow): &BatchFollower,
        members: &[JobId],
    ) -> Result<bool, Error> {
        let stream = self.keys.stream(Lane::Normal).clone();
        let keys = vec![self.keys.batch(Some(batch)), stream, follow.offloaded.clone()];
        let packed = follow.envelope.pack(Lane::Normal);
        let (follow, keep_ms) = (Value::Bytes(packed.into()), millis(RETENTION));
        let mut args = Vec::from(args![BATCH; follow, keep_ms]);
        args.extend(members.iter().map(|id| Value::from(id.to_string())));
        Ok(self.run(&BATCH, keys, args).await?.status == 1)
    }

    /// Returns the progress of a batch; `None` if no batch of this name exists, or no longer exists.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::job::BatchId;
    ///
    /// let id: BatchId = "newsletter-7".parse()?;
    /// let Some(batch) = queue.batch_status(&id).await? else { return Ok(()) };
    /// println!("{} of {} jobs have succeeded", batch.size - batch.left, batch.size);
    /// for awaited in batch.waiting_for {
    ///     println!("waiting for {}", awaited.job);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn batch_status(&self, batch: &BatchId) -> Result<Option<Batch>, Error> {
        const SHOWN: usize = 20;
        let (mut page, mut waiting_for) = ("0".to_owned(), Vec::new());
        loop {
            let keys = vec![self.keys.batch(Some(batch))];
            let answer = self.run(&BATCHED, keys, args![BATCHED; cursor = page].into()).await?;
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

    /// Looks up the jobs that members wait for.
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
