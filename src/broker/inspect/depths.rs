//! Reading a queue's figures without changing it. Nothing walks a stream to count it.

use std::time::Duration;

use fred::interfaces::{ClientLike, StreamsInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::script::scripts;
use crate::broker::inspect::history::{Attempt, LogLine, Progress};
use crate::broker::{Part, Queue, Unread};
use crate::job::{EntryId, JobId, Lane, State, Timestamp};

scripts! { DEPTHS "depths" }

/// How many jobs a queue has in each state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depths {
    /// The time of the server's clock.
    pub now: Timestamp,
    /// Each lane, in the order of [`Lane::ALL`].
    pub lanes: [LaneDepth; 3],
    /// Jobs in the delayed set.
    pub delayed: u64,
    /// When the next of them is due.
    pub next_due: Option<Timestamp>,
    /// Dead letters.
    pub dead: u64,
    /// The consumer that leads.
    pub leader: Option<String>,
    /// Keys that cannot be read. Their figures are missing: the zeros here mean nothing.
    pub unread: Vec<Unread>,
}

/// How many jobs one lane has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneDepth {
    /// Jobs that no worker has taken.
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// The oldest entry of the stream, waiting or running.
    pub oldest: Option<EntryId>,
    /// The oldest entry that no worker has taken.
    pub oldest_waiting: Option<EntryId>,
}

impl Depths {
    /// Jobs that no worker has taken, over all lanes.
    pub fn waiting(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.waiting).sum()
    }

    /// How long the oldest waiting job has been in its stream.
    pub fn oldest_waiting(&self) -> Option<Duration> {
        let oldest = self.lanes.iter().filter_map(|lane| lane.oldest_waiting).min()?;
        Some(self.now.since(Timestamp::from_ms(oldest.ms).unwrap_or(Timestamp::MAX)))
    }

    /// Jobs that a worker holds, over all lanes.
    pub fn running(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.running).sum()
    }
}

/// Everything known about one job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The time of the server's clock.
    pub now: Timestamp,
    /// The job.
    pub id: JobId,
    /// Its state.
    pub state: State,
    /// The type of handler it needs; empty for bytes that are not a job.
    pub job_type: String,
    /// Its lane.
    pub lane: Lane,
    /// When it was submitted, if known.
    pub created: Option<Timestamp>,
    /// When it is due, if it is in the delayed set.
    pub due: Option<Timestamp>,
    /// Its entry, if it is in a stream.
    pub entry: Option<EntryId>,
    /// The consumer that runs it, if any.
    pub worker: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// The result of a success, as JSON.
    pub result: Option<String>,
    /// When its cancellation was requested, until it has ended.
    pub cancelling: Option<Timestamp>,
    /// Who requested its cancellation, if its record has it.
    pub cancelled_by: Option<String>,
    /// Its dead letter.
    pub dead: Option<EntryId>,
    /// The last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Its progress, if its handler reported any.
    pub progress: Option<Progress>,
    /// The last lines that its handler logged, oldest first.
    pub log: Vec<LogLine>,
    /// How many lines it has logged in total.
    pub logged: u64,
}

/// The part of the queue behind each key of `depths.lua`.
const PARTS: [Part; 6] = [
    Part::Delayed,
    Part::Dead,
    Part::Leader,
    Part::Lane(Lane::High),
    Part::Lane(Lane::Normal),
    Part::Lane(Lane::Low),
];

impl Queue {
    /// Returns how many jobs there are in each state. A key that cannot be read affects only its own figures.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn depths(&self) -> Result<Depths, Error> {
        let mut keys = vec![self.keys.delayed.clone(), self.keys.dead.clone(), self.keys.leader.clone()];
        keys.extend(self.keys.streams().clone());
        let answer = self.run(&DEPTHS, keys.clone(), vec![]).await?;
        let [unread, delayed, dead, next, leader, lanes @ ..] = &answer.rest[..] else {
            return Err(Error::contract("depths", answer));
        };
        let lane = async |at: usize| {
            let Some([entries, pending, oldest, waits]) = lanes.get(4 * at..4 * at + 4) else {
                return Err(Error::contract("depths", &answer));
            };
            let (Some(entries), Some(running)) = (decode::number(entries), decode::number(pending)) else {
                return Err(Error::contract("depths", &answer));
            };
            let [oldest, waits] = [oldest, waits].map(decode::text);
            let stream = &self.keys.streams()[at];
            let first = self.first_entry(stream, &oldest).await?;
            let same = oldest == waits;
            let waiting = if same { first } else { self.first_entry(stream, &waits).await? };
            let depth = LaneDepth {
                waiting: entries.saturating_sub(running),
                running,
                oldest: first,
                oldest_waiting: waiting,
            };
            Ok(depth)
        };
        let (high, normal, low) = tokio::try_join!(lane(0), lane(1), lane(2))?;
        Ok(Depths {
            now: timestamp(answer.status.cast_unsigned()),
            lanes: [high, normal, low],
            delayed: decode::number(delayed).unwrap_or(0),
            next_due: decode::number(next).map(timestamp),
            dead: decode::number(dead).unwrap_or(0),
            leader: Some(decode::text(leader)).filter(|leader| !leader.is_empty()),
            unread: Unread::read(unread, &PARTS, &keys),
        })
    }

    /// Returns the id of the first entry of a stream from `from` on; nothing if there is nowhere to start. No script
    /// does this: Lua would get the whole body, which may have 8 MiB, and would block Redis three times as long.
    pub(in crate::broker) async fn first_entry(
        &self,
        stream: &Key,
        from: &str,
    ) -> Result<Option<EntryId>, Error> {
        if from.is_empty() {
            return Ok(None);
        }
        let client = self.link.client();
        let reply: Value = self.link.ask("xrange", client.xrange(stream.clone(), from, "+", Some(1))).await?;
        Ok(decode::entries("xrange", &reply, Lane::Normal)?.first().map(|entry| entry.id))
    }

    /// Returns the time of the server's clock.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn clock(&self) -> Result<Timestamp, Error> {
        let client = self.link.client();
        let command = CustomCommand::new_static("TIME", ClusterHash::Random, false);
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, vec![])).await };
        let reply = self.link.ask("time", reply).await?;
        let Value::Array(parts) = &reply else { return Err(Error::contract("time", reply)) };
        let part = |at: usize| parts.get(at).and_then(decode::number);
        match (part(0), part(1)) {
            (Some(seconds), Some(us)) => Ok(timestamp(seconds * 1000 + us / 1000)),
            _ => Err(Error::contract("time", reply)),
        }
    }
}

/// Converts a time from Redis; one beyond the calendar becomes the calendar's end.
pub(in crate::broker) fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap_or(Timestamp::MAX)
}
