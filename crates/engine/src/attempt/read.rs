//! Reading and claiming entries of a queue's work streams.

use std::time::Duration;

use fred::interfaces::{ClientLike, StreamsInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};

use crate::client::decode::{self, Entry, Reply};
use crate::client::error::{Class, Error};
use crate::client::link::Link;
use crate::client::script::{args, scripts};
use crate::job::{ConsumerName, EntryId, Lane};
use crate::submit::enqueue::drawn_call;
use crate::{GROUP, Queue, millis};

scripts! { JOIN "join", KEEPALIVE "keepalive" }

/// The most ids that one keepalive renews.
const KEEPALIVE_BATCH: usize = 500;

/// What [`Queue::join`] found out about the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Joined {
    /// Groups that had to be created. If the queue was in use, they had been lost.
    pub groups_created: u64,
    /// How long a consumer may leave an entry without renewing it, for the whole fleet.
    pub lease: Duration,
    /// The version of the wire contract that the fleet writes.
    pub wire: u64,
}

/// One member of the group; see the [example](Queue::consumers).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// Entries that were delivered to it and are not settled.
    pub pending: u64,
    /// How long ago it last read.
    pub idle: Duration,
}

impl Queue {
    /// Creates missing streams and groups, and agrees on the lease. See `join.lua`.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let joined = queue.join(Duration::from_secs(30)).await?;
    /// println!("a worker that is silent for {:?} loses its jobs", joined.lease);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer, refuses, or holds keys of another type under these names.
    pub async fn join(&self, lease: Duration) -> Result<Joined, Error> {
        self.join_with(lease, "".into(), "").await
    }

    /// Joins, and sets the most jobs that the queue accepts; `None` removes the limit.
    #[doc(hidden)]
    pub async fn join_limited(&self, lease: Duration, limit: Option<u64>) -> Result<Joined, Error> {
        self.join_with(lease, Value::Integer(limit.unwrap_or(0).cast_signed()), "").await
    }

    /// Joins again for a worker that has joined before: it learns of all groups that were created, even if an answer is lost.
    #[doc(hidden)]
    pub async fn rejoin_limited(&self, lease: Duration, limit: Option<u64>) -> Result<Joined, Error> {
        let limit = Value::Integer(limit.unwrap_or(0).cast_signed());
        self.join_with(lease, limit, &drawn_call()).await
    }

    /// Joins by a call of this name, which is sent again if its answer is lost, or by a call without a name, which is sent once.
    async fn join_with(&self, lease: Duration, limit: Value, call: &str) -> Result<Joined, Error> {
        let mut keys = vec![self.keys.control.clone(), self.keys.receipt(call)];
        keys.extend(self.keys.streams().clone());
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        let wire = i64::from(crate::WIRE_VERSION);
        let args = Vec::from(args![JOIN; lease_ms, wire, max_depth = limit]);
        let answer = match call {
            "" => self.run(&JOIN, keys, args).await?,
            _ => self.run_named(&JOIN, keys, args).await?,
        };
        let number = |at: usize| answer.rest.get(at).and_then(decode::number);
        match (u64::try_from(answer.status), number(0), number(1)) {
            (Ok(groups_created), Some(lease_ms), Some(wire)) => {
                Ok(Joined { groups_created, lease: Duration::from_millis(lease_ms), wire })
            }
            _ => Err(Error::contract("join", answer)),
        }
    }

    /// Takes up to `count` new entries of one lane, without waiting.
    #[doc(hidden)]
    pub async fn read_lane(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lane: Lane,
        count: usize,
    ) -> Result<Vec<Entry>, Error> {
        self.read(
            link,
            consumer,
            vec![self.keys.stream(lane).clone()],
            Take { count, block: None, after: ">" },
        )
        .await
    }

    /// Takes up to `count` new entries of each of these lanes, waiting up to `block` for the first.
    ///
    /// The future must be awaited to its end: an entry that is delivered to a dropped future stays pending, and nobody
    /// knows it.
    #[doc(hidden)]
    pub async fn read_waiting(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lanes: &[Lane],
        (count, block): (usize, Duration),
    ) -> Result<Vec<Entry>, Error> {
        let streams = lanes.iter().map(|lane| self.keys.stream(*lane).clone()).collect();
        self.read(link, consumer, streams, Take { count, block: Some(block), after: ">" }).await
    }

    /// Returns up to `count` entries of one lane that are pending for this consumer, after the entry `after`, without their
    /// large fields; see [`Queue::restored`].
    #[doc(hidden)]
    pub async fn read_own(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lane: Lane,
        after: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, Error> {
        let after = after.to_string();
        let streams = vec![self.keys.stream(lane).clone()];
        self.read_bare(link, consumer, streams, Take { count, block: None, after: &after }).await
    }

    /// Returns an entry with its large fields; none if Redis refuses to return these.
    #[doc(hidden)]
    pub async fn restored(&self, link: &Link, entry: Entry) -> Result<Vec<Entry>, Error> {
        let mut entries = vec![entry];
        self.restore_delivered(link, &mut entries).await?;
        Ok(entries)
    }

    async fn read(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        streams: Vec<Key>,
        take: Take<'_>,
    ) -> Result<Vec<Entry>, Error> {
        let mut entries = self.read_bare(link, consumer, streams, take).await?;
        self.restore_delivered(link, &mut entries).await?;
        Ok(entries)
    }

    async fn read_bare(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        streams: Vec<Key>,
        take: Take<'_>,
    ) -> Result<Vec<Entry>, Error> {
        let mut args: Vec<Value> = vec!["GROUP".into(), GROUP.into(), consumer.as_str().into()];
        args.extend(["COUNT".into(), Value::Integer(take.count as i64)]);
        args.extend(take.block.into_iter().flat_map(|block| ["BLOCK".into(), millis(block)]));
        args.push("STREAMS".into());
        // Set explicitly: for a custom command, the client would hash the first argument, whatever offset is named.
        let slot = streams.first().map_or(ClusterHash::Random, |key| ClusterHash::Custom(key.cluster_hash()));
        let ids = vec![Value::from(take.after); streams.len()];
        args.extend(streams.into_iter().map(Value::from).chain(ids));
        let command = CustomCommand::new_static("XREADGROUP", slot, take.block.is_some());
        let client = link.client();
        // The raw frame, because converting a large reply to values costs as much again as reading it.
        let reply = async move {
            let frame = Box::pin(client.custom_raw(command, args)).await?;
            // Only the client can convert an error frame to its own error.
            if frame.items().is_none() { Value::try_from(frame).map(|_| None) } else { Ok(Some(frame)) }
        };
        let frame = match take.block {
            Some(_) => link.ask_waiting("xreadgroup", reply).await?,
            None => link.ask("xreadgroup", reply).await?,
        };
        let Some(frame) = frame else { return Ok(Vec::new()) };
        decode::streams("xreadgroup", &frame, |name| self.lane_of(name))
    }

    fn lane_of(&self, name: &[u8]) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| self.keys.stream(*lane).as_bytes() == name)
    }

    /// Renews the lease of entries that this consumer still holds; returns those that it does not.
    #[doc(hidden)]
    pub async fn keep_alive(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lane: Lane,
        ids: &[EntryId],
    ) -> Result<Vec<EntryId>, Error> {
        let mut lost = Vec::new();
        for batch in ids.chunks(KEEPALIVE_BATCH) {
            let mut args = Vec::from(args![KEEPALIVE; consumer = consumer.as_str()]);
            args.extend(batch.iter().map(|id| Value::from(id.to_string())));
            let keys = vec![self.keys.stream(lane).clone()];
            let answer = link.run(&KEEPALIVE, keys, args).await?;
            lost.extend(answer.rest.iter().filter_map(decode::entry_id));
        }
        Ok(lost)
    }

    /// Returns one entry of a lane; `None` if it was deleted.
    #[doc(hidden)]
    pub async fn read_entry(&self, lane: Lane, id: EntryId) -> Result<Option<Entry>, Error> {
        let mut entry = self.bare_entry(lane, None, id).await?;
        self.restore(&self.link, entry.as_mut_slice()).await?;
        Ok(entry)
    }

    /// Returns the members of one lane's group; none if nobody has joined it yet.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::job::Lane;
    ///
    /// for consumer in queue.consumers(Lane::Normal).await? {
    ///     println!("{} holds {} jobs, and last read {:?} ago", consumer.name, consumer.pending, consumer.idle);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn consumers(&self, lane: Lane) -> Result<Vec<Consumer>, Error> {
        let client = self.link.client();
        let reply = client.xinfo_consumers(self.keys.stream(lane).clone(), GROUP);
        match self.link.ask("xinfo", reply).await {
            Ok(Value::Array(items)) => Ok(items.iter().filter_map(consumer).collect()),
            Ok(reply) => Err(Error::contract("xinfo", reply)),
            Err(error) if error.class() == Some(Class::NoGroup) => Ok(Vec::new()),
            // The stream does not exist; this command alone answers with these words.
            Err(Error::Refused { detail, .. }) if detail.ends_with("no such key") => Ok(Vec::new()),
            Err(error) => Err(error.of_key(self.keys.stream(lane))),
        }
    }
}

struct Take<'a> {
    count: usize,
    block: Option<Duration>,
    after: &'a str,
}

fn consumer(item: &Value) -> Option<Consumer> {
    let Value::Array(flat) = item else { return None };
    let find = |name: &str| {
        flat.chunks_exact(2).find(|pair| decode::data(&pair[0]) == name.as_bytes()).map(|pair| &pair[1])
    };
    Some(Consumer {
        name: decode::text(find("name")?),
        pending: find("pending").and_then(decode::number)?,
        idle: Duration::from_millis(find("idle").and_then(decode::number)?),
    })
}
