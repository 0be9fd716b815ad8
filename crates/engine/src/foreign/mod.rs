//! A Redis in which another system keeps its jobs, to take them over. Its keys have nothing to do with those of the fleet.
//!
//! An element leaves the other system's list in the same script that notes it in a stream of the same server. From then on no worker of
//! that system can take it, and the id of the stream's entry, which never repeats, names it until its job is accepted here.

use fred::interfaces::{
    HashesInterface, KeysInterface, ListInterface, SortedSetsInterface, StreamsInterface,
};
use fred::types::Value;

use crate::client::decode;
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Envelope, Lane};
use crate::{Broker, Config, Error, Link, bytes};

scripts! { TAKE_OVER "take_over" }

/// About how many bytes one script moves at most, so that it stays short.
const MOST_BYTES: i64 = 1024 * 1024;

/// A Redis of another system.
pub struct ForeignRedis {
    link: Link,
    shown: String,
}

/// What a key of another system holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignKind {
    /// A list whose workers take the first element, where `LPUSH` adds.
    First,
    /// A list whose workers take the last element, where `RPUSH` adds.
    Last,
    /// A sorted set.
    Set,
}

/// An element of a list, or a member of a sorted set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ForeignElement {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its score, if it is a member of a sorted set.
    pub score: Option<f64>,
}

impl ForeignRedis {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`Error`] if the address is unusable or is that of a cluster, nobody listens there, or the login is refused.
    pub async fn connect(config: Config) -> Result<Self, Error> {
        let broker = Broker::connect(config).await?;
        if broker.is_clustered() {
            return Err(Error::Address("jobs are not taken over from a cluster".to_owned()));
        }
        Ok(Self { link: broker.shared.link.clone(), shown: broker.shown() })
    }

    /// The address, without a password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// How many elements a key has; 0 if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, also because the key holds something else.
    pub async fn count(&self, key: &str, kind: ForeignKind) -> Result<u64, Error> {
        let client = self.link.client();
        match kind {
            ForeignKind::First | ForeignKind::Last => self.link.ask("llen", client.llen(key)).await,
            ForeignKind::Set => self.link.ask("zcard", client.zcard(key)).await,
        }
    }

    /// Reads `count` elements from this place on, in the order in which they are taken over.
    ///
    /// # Errors
    ///
    /// [`Error`] as for [`count`](Self::count).
    pub async fn look(
        &self,
        key: &str,
        kind: ForeignKind,
        (from, count): (u64, u64),
    ) -> Result<Vec<ForeignElement>, Error> {
        let client = self.link.client();
        let place = |at: u64| i64::try_from(at).unwrap_or(i64::MAX / 2);
        let (first, last) = (place(from), place(from + count) - 1);
        let reply: Value = match kind {
            ForeignKind::First => self.link.ask("lrange", client.lrange(key, first, last)).await?,
            ForeignKind::Last => self.link.ask("lrange", client.lrange(key, -last - 1, -first - 1)).await?,
            ForeignKind::Set => {
                self.link.ask("zrange", client.zrange(key, first, last, None, false, None, true)).await?
            }
        };
        if reply.is_null() {
            return Ok(Vec::new());
        }
        let Value::Array(items) = &reply else { return Err(Error::contract("lrange", &reply)) };
        let listed = items.iter().map(|item| element(decode::data(item), None));
        Ok(match kind {
            ForeignKind::First => listed.collect(),
            ForeignKind::Last => listed.rev().collect(),
            ForeignKind::Set => items.chunks_exact(2).map(|pair| scored(&pair[0], &pair[1])).collect(),
        })
    }

    /// Takes over up to `count` elements of a list. If the answer is lost, [`taken`](Self::taken) tells which.
    ///
    /// # Errors
    ///
    /// [`Error`] as for [`count`](Self::count).
    pub async fn take(&self, key: &str, kind: ForeignKind, count: u32) -> Result<u64, Error> {
        let how = if kind == ForeignKind::First { "first" } else { "last" };
        self.run(key, how, count, &[]).await
    }

    /// Takes over these elements, as far as they are still there.
    ///
    /// # Errors
    ///
    /// [`Error`] as for [`count`](Self::count).
    pub async fn take_these(&self, key: &str, kind: ForeignKind, elements: &[&[u8]]) -> Result<u64, Error> {
        let how = if kind == ForeignKind::Set { "set" } else { "list" };
        self.run(key, how, 0, elements).await
    }

    /// Returns how many elements were moved.
    async fn run(&self, key: &str, how: &str, count: u32, elements: &[&[u8]]) -> Result<u64, Error> {
        let args = args![TAKE_OVER; how, count = i64::from(count), most_bytes = MOST_BYTES];
        let args = args.into_iter().chain(elements.iter().map(|element| bytes(element))).collect();
        let answer = self.link.run(&TAKE_OVER, vec![key.into(), taken(key).into()], args).await?;
        u64::try_from(answer.status).map_err(|_| Error::contract("take_over", &answer))
    }

    /// The elements of a key that were taken over and are not forgotten, those behind this one, at most `count`.
    ///
    /// # Errors
    ///
    /// [`Error`] as for [`count`](Self::count).
    pub async fn taken(
        &self,
        key: &str,
        after: Option<&EntryId>,
        count: u64,
    ) -> Result<Vec<(EntryId, ForeignElement)>, Error> {
        let from = after.map_or_else(|| "-".to_owned(), |id| format!("({id}"));
        let reply: Value =
            self.link.ask("xrange", self.link.client().xrange(taken(key), from, "+", Some(count))).await?;
        let entries = decode::entries("xrange", &reply, Lane::Normal)?.into_iter();
        let read = entries.filter_map(|entry| {
            let fields = entry.envelope?;
            let score = fields.get(b"score").and_then(number);
            Some((entry.id, element(fields.get(b"element").unwrap_or_default(), score)))
        });
        Ok(read.collect())
    }

    /// Reads the fields of a hash; none if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error`] as for [`count`](Self::count).
    pub async fn fields(&self, key: &str) -> Result<Envelope, Error> {
        let reply: Value = self.link.ask("hgetall", self.link.client().hgetall(key)).await?;
        let Value::Map(fields) = reply else {
            let Value::Array(flat) = reply else { return Ok(decode::envelope::<Value>(&[])) };
            return Ok(decode::envelope(&flat));
        };
        let fields: Vec<_> = fields.inner().into_iter().collect();
        Ok(Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), decode::data(value)))))
    }

    /// Forgets elements of a key whose jobs are accepted, and deletes these records of theirs.
    ///
    /// # Errors
    ///
    /// [`Error`] as for [`count`](Self::count).
    pub async fn forget(&self, key: &str, ids: &[EntryId], records: Vec<String>) -> Result<(), Error> {
        let client = self.link.client();
        if !ids.is_empty() {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let _: u64 = self.link.ask("xdel", client.xdel(taken(key), ids)).await?;
        }
        // Last: an element whose record is gone would be refused by the next import.
        if !records.is_empty() {
            let _: u64 = self.link.ask("del", client.del(records)).await?;
        }
        Ok(())
    }
}

/// The stream beside a key of another system that has the elements that were taken over. It stays when it is empty, so that no id repeats.
fn taken(key: &str) -> String {
    format!("streamfleet-import {key}")
}

fn element(bytes: &[u8], score: Option<f64>) -> ForeignElement {
    ForeignElement { bytes: bytes.to_vec(), score }
}

fn scored(member: &Value, score: &Value) -> ForeignElement {
    let score = score.as_f64().or_else(|| number(decode::data(score)));
    element(decode::data(member), score)
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
