//! The types whose jobs wait in waiting lists because the workers that read them did not know the type, and which types the live
//! workers of a queue know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fred::interfaces::{ClientLike, HashesInterface};
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::scripts;
use crate::inspect::pools::{self, PoolDown};
use crate::inspect::server::{WorkerInfo, worker_facts};
use crate::job::{ConsumerName, JobType, Lane, Pacing, Parking, Timestamp};
use crate::{Broker, Queue};

scripts! { UNSERVED "unserved" }

/// The most waiting lists that one script checks.
const PAGE: usize = 100;

/// About how many waiting lists of any kind one command of a walk returns.
const SCANNED: i64 = 1000;

/// The most commands of one walk. A worker that knows many types takes this many each time that it asks.
const MAX_SCANS: usize = 20;

/// The most workers that are asked what they know, …
const MAX_WORKERS: usize = 1000;

/// … and how many of them at once.
const AT_ONCE: usize = 16;

/// The most types that are written down, …
const MAX_KNOWN: usize = 1000;

/// … and the most bytes of their names.
const MAX_KNOWN_BYTES: usize = 32 * 1024;

/// The most bytes of pools that are written down.
const MAX_DOWN_BYTES: usize = 128 * 1024;

/// The field of the fleet's settings that has the types of the live workers: when and how often it is written, and the
/// names.
const TYPES: &str = "types";

/// The field beside it that has the pools because of which no worker can run some types.
const POOLS_DOWN: &str = "pools_down";

/// A type whose jobs wait in a waiting list because some worker did not know it; see the [example](Queue::unknown_types).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownType {
    /// The type.
    pub job_type: JobType,
    /// How many of its jobs wait in the waiting list.
    pub jobs: u64,
    /// How long no worker has known the type; `None` if a live worker of the queue knows it.
    pub unserved_for: Option<Duration>,
}

/// A part of the waiting lists of unknown types.
#[derive(Debug, Default)]
pub struct UnknownPage {
    pub types: Vec<UnknownType>,
    /// Where to continue; `None` at the end.
    pub next: Option<String>,
    /// How long nobody has asked about a type that no worker knows.
    pub unasked_for: Duration,
    /// What the clock of Redis showed, if there are waiting lists.
    pub now: Option<Timestamp>,
}

impl Queue {
    /// Returns types whose jobs wait because the worker that read them did not know the type, at most `most`, by name.
    ///
    /// If a live worker knows the type, it takes the jobs as soon as it has free slots. The walk ends after some 20,000
    /// waiting lists.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// for unknown in queue.unknown_types(100).await? {
    ///     if let Some(time) = unknown.unserved_for {
    ///         println!("{} jobs of type {}: no worker has known it for {time:?}", unknown.jobs, unknown.job_type);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn unknown_types(&self, most: usize) -> Result<Vec<UnknownType>, Error> {
        let (mut types, mut from) = (Vec::new(), None);
        for _ in 0..MAX_SCANS {
            let page = self.unknown_waitlists(from.as_deref()).await?;
            types.extend(page.types);
            from = page.next;
            if from.is_none() || types.len() >= most {
                break;
            }
        }
        types.sort_by(|one, other| one.job_type.cmp(&other.job_type));
        // A walk may meet a waiting list twice.
        types.dedup_by(|one, other| one.job_type == other.job_type);
        types.truncate(most);
        Ok(types)
    }

    /// Returns a part of the waiting lists of unknown types that have jobs, or had some just now.
    #[doc(hidden)]
    pub async fn unknown_waitlists(&self, from: Option<&str>) -> Result<UnknownPage, Error> {
        let (found, next) = self.scan_waitlists(&self.link, from.unwrap_or("0")).await?;
        let mut page = UnknownPage { next, ..UnknownPage::default() };
        for types in found.chunks(PAGE) {
            self.add_unserved(&mut page, types).await?;
        }
        Ok(page)
    }

    /// Returns the types whose jobs wait in waiting lists, of up to some 20,000 waiting lists of any kind, and where to continue; `None`
    /// at the end.
    #[doc(hidden)]
    pub async fn parked_types(
        &self,
        link: &Link,
        from: Option<String>,
    ) -> Result<(Vec<JobType>, Option<String>), Error> {
        let (mut types, mut from) = (Vec::new(), from.unwrap_or_else(|| "0".to_owned()));
        for _ in 0..MAX_SCANS {
            let (found, next) = self.scan_waitlists(link, &from).await?;
            types.extend(found);
            let Some(next) = next else { return Ok((types, None)) };
            from = next;
        }
        Ok((types, Some(from)))
    }

    /// Walks the index of all waiting lists. Its reply begins with a cursor, not with data.
    async fn scan_waitlists(&self, link: &Link, from: &str) -> Result<(Vec<JobType>, Option<String>), Error> {
        let client = link.client();
        let command = CustomCommand::new_static("HSCAN", ClusterHash::FirstKey, false);
        let key = self.keys.waitlists.clone();
        let mut args: Vec<Value> = vec![key.into(), from.into(), "MATCH".into()];
        args.extend([Parking::UNKNOWN_PATTERN.into(), "COUNT".into(), Value::Integer(SCANNED)]);
        let page = link.ask("hscan", client.custom::<Value, Value>(command, args)).await?;
        let Value::Array(parts) = &page else { return Err(Error::contract("hscan", page)) };
        let [next, Value::Array(flat)] = &parts[..] else { return Err(Error::contract("hscan", page)) };
        let types = flat.chunks_exact(2).filter_map(|pair| Parking::unknown_type(&decode::text(&pair[0])));
        let next = Some(decode::text(next)).filter(|next| next != "0");
        Ok((types.collect(), next))
    }

    async fn add_unserved(&self, page: &mut UnknownPage, types: &[JobType]) -> Result<(), Error> {
        let names: Vec<String> = types.iter().map(|job_type| Parking::unknown(job_type).waitlist).collect();
        let own = &self.keys;
        let mut keys =
            vec![own.waitlists.clone(), own.waitlists_asked.clone(), own.stream(Lane::Normal).clone()];
        keys.extend(names.iter().map(|name| own.waitlist(name)));
        let args = names.into_iter().map(Value::from).collect();
        let answer = self.run(&UNSERVED, keys, args).await?;
        let [members, all, waitlists @ ..] = &answer.rest[..] else {
            return Err(Error::contract("unserved", answer));
        };
        let now = u64::try_from(answer.status).unwrap_or(0);
        page.now = Some(timestamp(now));
        let walks = decode::number(all).unwrap_or(0).div_ceil(SCANNED as u64 * MAX_SCANS as u64);
        page.unasked_for = Pacing::of(decode::number(members).unwrap_or(0)).unasked_for(walks);
        let unasked_for = page.unasked_for;
        let waitlists = types.iter().zip(waitlists.chunks_exact(3)).filter_map(|(job_type, waitlist)| {
            // A waiting list that was emptied in the meantime has no time.
            let since = decode::number(&waitlist[0])?;
            let asked = decode::number(&waitlist[1]).unwrap_or(0);
            let quiet = Duration::from_millis(now.saturating_sub(since.max(asked)));
            let unserved_for = Some(quiet).filter(|quiet| *quiet >= unasked_for);
            let jobs = decode::number(&waitlist[2]).unwrap_or(0);
            Some(UnknownType { job_type: job_type.clone(), jobs, unserved_for })
        });
        page.types.extend(waitlists);
        Ok(())
    }
}

/// What the live workers of a queue know.
#[derive(Debug, Default)]
pub struct LiveTypes {
    /// The members of the group, live or not.
    pub members: usize,
    /// The types; `None` if no worker is live, one of them knows more types than it reports, or there are too many workers
    /// to ask.
    pub types: Option<BTreeSet<JobType>>,
    /// The pools because of which none of them can run some types.
    pub pools_down: Vec<PoolDown>,
}

impl Broker {
    /// Asks the live workers of a queue which types they know.
    #[doc(hidden)]
    pub async fn live_types(&self, queue: &Queue) -> Result<LiveTypes, Error> {
        let (members, serving) = self.live_workers(queue).await?;
        let mut live = LiveTypes { members, types: None, pools_down: pools::blocking(&serving) };
        if !serving.is_empty() && !serving.iter().any(WorkerInfo::leaves_types_out) {
            let types = serving.iter().flat_map(|worker| listed(&worker.facts, "types"));
            live.types = Some(types.filter_map(|name| name.parse().ok()).collect());
        }
        Ok(live)
    }

    /// Returns how many members the group of a queue has, live or not, and what those that are live report; nothing of the latter
    /// if there are too many to ask.
    async fn live_workers(&self, queue: &Queue) -> Result<(usize, Vec<WorkerInfo>), Error> {
        let members = queue.consumers(Lane::Normal).await?;
        let workers = members.iter().filter(|member| !member.name.ends_with(".claims"));
        let members: Vec<ConsumerName> = workers.filter_map(|member| member.name.parse().ok()).collect();
        let count = members.len();
        if count > MAX_WORKERS {
            return Ok((count, Vec::new()));
        }
        let facts = stream::iter(members).map(|consumer| async move {
            let facts = worker_facts(self, &consumer).await?;
            Ok::<_, Error>(WorkerInfo { consumer: consumer.to_string(), facts })
        });
        let mut workers: Vec<_> = facts.buffer_unordered(AT_ONCE).try_collect().await?;
        workers.retain(|worker| listed(&worker.facts, "queues").any(|name| name == queue.name().as_str()));
        Ok((count, workers))
    }
}

impl WorkerInfo {
    /// Returns true if it reports not all types that it knows.
    fn leaves_types_out(&self) -> bool {
        self.facts.contains_key("types_left_out")
    }

    /// Returns true if it knows the type, as far as it reports that.
    pub(super) fn knows(&self, job_type: &JobType) -> bool {
        self.leaves_types_out() || listed(&self.facts, "types").any(|name| name == job_type.as_str())
    }
}

impl Queue {
    /// Returns the types that the live workers of the queue know; `None` if that is not known: no worker is live, or they
    /// know more than a thousand types or 32 KiB of names.
    ///
    /// The queue's leader writes this down every 10 s, and less often if the queue has many workers. After a worker with
    /// further types has joined, they are not known until the leader has asked again.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(types) = queue.known_types().await? {
    ///     println!("workers know {} types", types.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn known_types(&self) -> Result<Option<BTreeSet<JobType>>, Error> {
        let list = self.told(TYPES).await?;
        let types = |list: String| list.split(',').filter_map(|name| name.parse().ok()).collect();
        Ok(list.map(types))
    }

    /// Returns the pool because of which no live worker of the queue can run this type, if the leader has found one. It looks as
    /// often as for [types](Queue::known_types).
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn pool_down(&self, job_type: &JobType) -> Result<Option<PoolDown>, Error> {
        let blocks = |pool: &PoolDown| pool.types.iter().any(|own| own == job_type.as_str());
        Ok(self.pools_down().await?.into_iter().find(blocks))
    }

    /// Returns the pools because of which no live worker of the queue can run some types, each with these types.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn pools_down(&self) -> Result<Vec<PoolDown>, Error> {
        Ok(pools::read(&self.told(POOLS_DOWN).await?.unwrap_or_default()))
    }

    /// Returns what the leader has written down in a field, unless it is old.
    async fn told(&self, field: &'static str) -> Result<Option<String>, Error> {
        let client = self.link.client();
        let told: Value = self.link.ask("hget", client.hget(self.keys.control.clone(), field)).await?;
        let told = decode::text(&told);
        let mut parts = told.splitn(3, ' ');
        let ms = |part: Option<&str>| part.and_then(|part| part.parse::<u64>().ok());
        let (Some(at), Some(every), Some(list)) = (ms(parts.next()), ms(parts.next()), parts.next()) else {
            return Ok(None);
        };
        let age = self.clock().await?.as_ms().abs_diff(at);
        Ok((age < every.saturating_mul(3)).then(|| list.to_owned()))
    }

    /// Returns true if a worker has ever joined the queue.
    #[doc(hidden)]
    pub async fn was_joined(&self) -> Result<bool, Error> {
        let client = self.link.client();
        let wire: Value = self.link.ask("hget", client.hget(self.keys.control.clone(), "wire")).await?;
        Ok(!wire.is_null())
    }

    /// Deletes what is written down if it lacks one of these types, which a worker knows that has joined since. Until the leader
    /// asks again, nobody says that no worker knows them.
    #[doc(hidden)]
    pub async fn doubt_known_types(&self, types: &[JobType]) -> Result<(), Error> {
        match self.known_types().await? {
            Some(known) if types.iter().any(|job_type| !known.contains(job_type)) => {
                self.set_known_types(&LiveTypes::default(), Duration::ZERO).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes down the types that the live workers know, and the pools because of which none of them can run some, for as long as
    /// three times `every`.
    #[doc(hidden)]
    pub async fn set_known_types(&self, live: &LiveTypes, every: Duration) -> Result<(), Error> {
        let types = live.types.as_ref().filter(|types| types.len() <= MAX_KNOWN);
        let list = types.map(|types| types.iter().map(JobType::as_str).collect::<Vec<_>>().join(","));
        let pools = Some(&live.pools_down).filter(|pools| !pools.is_empty());
        let pools = pools.and_then(|pools| serde_json::to_string(pools).ok());
        let now = self.clock().await?.as_ms();
        let (mut set, mut gone) = (Vec::new(), Vec::new());
        for (field, told, most) in [(TYPES, list, MAX_KNOWN_BYTES), (POOLS_DOWN, pools, MAX_DOWN_BYTES)] {
            match told.filter(|told| told.len() <= most) {
                Some(told) => set.extend([field.to_owned(), format!("{now} {} {told}", every.as_millis())]),
                None => gone.push(field.to_owned()),
            }
        }
        for (command, fields) in [("HSET", set), ("HDEL", gone)] {
            if !fields.is_empty() {
                let client = self.link.client();
                let key: Value = self.keys.control.clone().into();
                let args: Vec<Value> = [key].into_iter().chain(fields.into_iter().map(Value::from)).collect();
                let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
                self.link.ask("hset", client.custom::<Value, Value>(command, args)).await?;
            }
        }
        Ok(())
    }
}

/// Returns the items of a fact that is a list.
fn listed<'a>(facts: &'a BTreeMap<String, String>, name: &str) -> impl Iterator<Item = &'a str> {
    let list = facts.get(name).map(String::as_str).unwrap_or_default();
    list.split(',').filter(|item| !item.is_empty())
}
