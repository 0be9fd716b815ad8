//! What Redis and the workers report about themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::config::Server as Node;
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use futures_util::future::join_all;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::keys;
use crate::client::link::Link;
use crate::client::script::{args, scripts};
use crate::inspect::drains::Requested;
use crate::job::{ConsumerName, QueueName, Timestamp};
use crate::{Broker, Queue, bytes, millis};

scripts! { BEAT "beat" }

/// The relevant facts of `INFO`; see the [example](Broker::servers).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Server {
    /// The node of the cluster, as `host:port`; `None` for a single server.
    pub node: Option<String>,
    facts: BTreeMap<String, String>,
}

/// What was found on all servers that hold a part of it; see the [example](Broker).
#[derive(Debug, Clone)]
pub struct Listed<T> {
    /// All that was found.
    pub found: Vec<T>,
    /// Servers of a cluster that did not answer; `found` lacks what they hold.
    pub missing: Vec<Missing>,
}

/// A server of a cluster that could not be asked; see the [example](Broker).
#[derive(Debug, Clone)]
pub struct Missing {
    /// Its address, as `host:port`.
    pub node: String,
    /// Why it could not be asked.
    pub error: Error,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the data of {} is not shown, because it could not be queried: {}", self.node, self.error)
    }
}

impl Server {
    /// Returns one line of `INFO`, such as `redis_version`.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }

    /// Returns `Redis` or `Valkey`, with its version; `None` if the server reports neither.
    ///
    /// Valkey's `redis_version` names the Redis that it is compatible with, and is not its own version.
    pub fn product(&self) -> Option<(&'static str, &str)> {
        let valkey = self.fact("valkey_version").map(|version| ("Valkey", version));
        valkey.or_else(|| self.fact("redis_version").map(|version| ("Redis", version)))
    }

    /// Returns the oldest supported version, such as `7.0`, if the server's is older.
    pub fn least_version(&self) -> Option<&'static str> {
        let (name, have) = self.version()?;
        let (least, text) = if name == "Valkey" { ([7, 2, 0], "7.2") } else { ([7, 0, 0], "7.0") };
        (have < least).then_some(text)
    }

    /// Returns true if the server has an `XACKDEL` that is safe to use: that of Redis before 8.2.3 overruns a buffer when
    /// it gets several ids (CVE-2025-62507).
    pub(crate) fn has_xackdel(&self) -> bool {
        self.version()
            .is_some_and(|(name, have)| have >= if name == "Valkey" { [9, 2, 0] } else { [8, 2, 3] })
    }

    /// The numbers of the server's own version.
    fn version(&self) -> Option<(&'static str, [u64; 3])> {
        let (name, version) = self.product()?;
        let mut numbers = version.split('.').map_while(|part| part.parse::<u64>().ok());
        Some((name, std::array::from_fn(|_| numbers.next().unwrap_or(0))))
    }

    /// Reads the reply of `INFO`.
    #[doc(hidden)]
    pub fn read(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let facts = lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        Self { node: None, facts }
    }
}

/// A live worker, as it reports itself; see the [example](Broker::workers).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its consumer name.
    pub consumer: String,
    /// The fields that it reports: `queues`, `types`, `running`, `slots`, `version`, `state`, `config` (the same for workers with
    /// the same configuration), `beat_ms` (when it reported that) and `up_ms` (for how long it had been running then). Those
    /// whose names begin with `drain_` are a request to drain that somebody made; see [`WorkerInfo::drain`].
    pub facts: BTreeMap<String, String>,
}

impl Broker {
    /// Checks that Redis answers; for a cluster, asks each server that has slots.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer; for a cluster, if no server answers.
    pub async fn ping(&self) -> Result<(), Error> {
        let ping = |link: Link| async move {
            let client = link.client();
            link.ask("ping", client.ping::<Value>(None)).await.map(|_| vec![()])
        };
        let listed = self.of_all(ping).await?;
        match (listed.found.first(), listed.missing.into_iter().next()) {
            (None, Some(missing)) => Err(missing.error),
            _ => Ok(()),
        }
    }

    /// Returns the facts of Redis; for a cluster, those of any of its servers.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn server(&self) -> Result<Server, Error> {
        let listed = self.servers().await?;
        match (listed.found.into_iter().next(), listed.missing.into_iter().next()) {
            (Some(server), _) => Ok(server),
            (None, Some(missing)) => Err(missing.error),
            (None, None) => Err(Error::Unreachable("the cluster has no server with slots".to_owned())),
        }
    }

    /// Returns the facts of each server: the only one, or those of a cluster that have slots.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
    /// for server in broker.servers().await?.found {
    ///     let Some((product, version)) = server.product() else { continue };
    ///     match server.least_version() {
    ///         Some(least) => eprintln!("{product} {version} is too old: at least {least} is needed"),
    ///         None => println!("{product} {version}"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses; for a cluster, if its servers are unknown.
    pub async fn servers(&self) -> Result<Listed<Server>, Error> {
        let is_clustered = self.is_clustered();
        let info = |link: Link| async move {
            let client = link.client();
            let reply = link.ask("info", client.info::<Value>(None)).await?;
            let node = link.locator().current().hosts().first().map(ToString::to_string);
            Ok(vec![Server { node: node.filter(|_| is_clustered), ..Server::read(&decode::text(&reply)) }])
        };
        self.of_all(info).await
    }

    /// Asks the only server, or concurrently all servers of a cluster that have slots, each over a separate connection.
    // An `AsyncFn` would make futures that no task can run: nothing shows that they can be sent to another thread.
    async fn of_all<T, F>(&self, ask: impl Fn(Link) -> F) -> Result<Listed<T>, Error>
    where
        F: Future<Output = Result<Vec<T>, Error>>,
    {
        let Some(cluster) = self.shared.link.locator().cluster() else {
            return Ok(Listed { found: ask(self.shared.link.clone()).await?, missing: Vec::new() });
        };
        // A server that is down may have been replaced.
        if let Err(error) = cluster.refresh(None).await {
            tracing::debug!(%error, "failed to refresh the list of servers; using the last known one");
        }
        let of = |node: Node| {
            let (name, asked) = (node.to_string(), ask(self.shared.link.to_server(node)));
            async move { (name, asked.await) }
        };
        let mut listed = Listed { found: Vec::new(), missing: Vec::new() };
        for (node, answer) in join_all(cluster.masters().into_iter().map(of)).await {
            match answer {
                Ok(found) => listed.found.extend(found),
                Err(error) => listed.missing.push(Missing { node, error }),
            }
        }
        Ok(listed)
    }

    /// Reports that a worker is alive and what it does; returns the server's time, and what people ask of the worker. See
    /// `beat.lua`.
    #[doc(hidden)]
    pub async fn beat(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        alive_for: Duration,
        facts: &[(&str, String)],
    ) -> Result<(Timestamp, Requested), Error> {
        let mut args = Vec::from(args![BEAT; gone_ms = millis(alive_for)]);
        args.extend(facts.iter().flat_map(|(name, value)| [bytes(name.as_bytes()), bytes(value.as_bytes())]));
        let key = keys::worker(self.namespace(), consumer);
        let answer = link.run(&BEAT, vec![key], args).await?;
        let now = u64::try_from(answer.status).ok().and_then(Timestamp::from_ms);
        let requested = Requested::read(&answer.rest);
        now.map(|now| (now, requested)).ok_or_else(|| Error::contract("beat", answer))
    }

    /// Reports that a worker is gone.
    #[doc(hidden)]
    pub async fn forget(&self, consumer: &ConsumerName) -> Result<(), Error> {
        self.delete(vec![keys::worker(self.namespace(), consumer)]).await
    }

    /// Returns the queues of this namespace, by name.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses; for a cluster, if its servers are unknown.
    pub async fn queues(&self) -> Result<Listed<QueueName>, Error> {
        Ok(self.queues_and_audits().await?.0)
    }

    /// Returns the queues of this namespace, and beside them the names of all audits: people may have done something to a queue that
    /// has nothing else, because they misspelled its name.
    #[doc(hidden)]
    pub async fn queues_and_audits(&self) -> Result<(Listed<QueueName>, BTreeSet<QueueName>), Error> {
        let pattern = keys::queues(self.namespace());
        let scanned = self
            .of_all(|link: Link| {
                let pattern = pattern.as_str();
                async move { scan(&link, pattern).await }
            })
            .await?;
        let named = |telling: &[&str]| -> BTreeSet<QueueName> {
            let of = |key: &Key| keys::queue_of(self.namespace(), &key.as_str_lossy(), telling);
            scanned.found.iter().filter_map(of).collect()
        };
        let (queues, audits) = (named(&keys::OF_QUEUE), named(&["audit"]));
        Ok((Listed { found: queues.into_iter().collect(), missing: scanned.missing }, audits))
    }

    /// Returns the live workers of this namespace, by name.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
    /// for worker in broker.workers().await?.found {
    ///     let queues = worker.facts.get("queues").map_or("", String::as_str);
    ///     println!("{} serves {queues}", worker.consumer);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses; for a cluster, if its servers are unknown.
    pub async fn workers(&self) -> Result<Listed<WorkerInfo>, Error> {
        let pattern = keys::workers(self.namespace());
        let pattern = pattern.as_str();
        let workers = |link: Link| async move {
            let mut workers = Vec::new();
            for key in scan(&link, pattern).await? {
                let consumer = key.as_str_lossy().rsplit(':').next().unwrap_or_default().to_owned();
                let facts = hash(&link, key).await?;
                // An empty hash expired between the two commands.
                if !facts.is_empty() {
                    workers.push(WorkerInfo { consumer, facts });
                }
            }
            Ok(workers)
        };
        let mut listed = self.of_all(workers).await?;
        listed.found.sort_by(|one, other| one.consumer.cmp(&other.consumer));
        Ok(listed)
    }

    /// Deletes keys of this namespace that a check or a worker created. All of them must share a slot.
    #[doc(hidden)]
    pub async fn delete(&self, keys: Vec<Key>) -> Result<(), Error> {
        let Some(first) = keys.first() else { return Ok(()) };
        let link = self.link_to(first);
        let client = link.client();
        link.ask("del", client.del::<Value, _>(keys)).await.map(drop)
    }
}

/// Returns what a worker reports about itself; nothing if it is not live.
pub(crate) async fn worker_facts(
    broker: &Broker,
    consumer: &ConsumerName,
) -> Result<BTreeMap<String, String>, Error> {
    hash(&broker.link_for(consumer), keys::worker(broker.namespace(), consumer)).await
}

/// Returns all keys of a server that match the pattern.
async fn scan(link: &Link, pattern: &str) -> Result<Vec<Key>, Error> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        cursor = scan_page(link, &cursor, pattern, &mut found).await?;
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Reads one page with a raw command, because the client's own scan does not report why it was refused. Returns the
/// cursor of the next page, or `0`.
pub(crate) async fn scan_page(
    link: &Link,
    cursor: &str,
    pattern: &str,
    found: &mut Vec<Key>,
) -> Result<String, Error> {
    let client = link.client();
    let command = CustomCommand::new_static("SCAN", ClusterHash::Random, false);
    let args: Vec<Value> = vec![cursor.into(), "MATCH".into(), pattern.into(), "COUNT".into(), 1000.into()];
    let page = link.ask("scan", client.custom::<Value, Value>(command, args)).await?;
    let Value::Array(parts) = page else { return Err(Error::contract("scan", page)) };
    let [next, Value::Array(keys)] = &parts[..] else { return Err(Error::contract("scan", parts)) };
    found.extend(keys.iter().map(|key| Key::from(decode::data(key))));
    Ok(decode::text(next))
}

/// Reads a hash by `HSCAN`, because its reply begins with a cursor, not with data.
async fn hash(link: &Link, key: Key) -> Result<BTreeMap<String, String>, Error> {
    let client = link.client();
    let command = CustomCommand::new_static("HSCAN", ClusterHash::FirstKey, false);
    let args: Vec<Value> = vec![key.into(), "0".into(), "COUNT".into(), 1000.into()];
    let page = link.ask("hscan", client.custom::<Value, Value>(command, args)).await?;
    let Value::Array(parts) = page else { return Err(Error::contract("hscan", page)) };
    let Some(Value::Array(flat)) = parts.get(1) else { return Err(Error::contract("hscan", parts)) };
    Ok(flat.chunks_exact(2).map(|pair| (decode::text(&pair[0]), decode::text(&pair[1]))).collect())
}

impl Queue {
    /// Returns the facts of the server that holds the queue.
    #[doc(hidden)]
    pub async fn server(&self) -> Result<Server, Error> {
        let client = self.link().client();
        let reply = self.link().ask("info", client.info::<Value>(None)).await?;
        Ok(Server::read(&decode::text(&reply)))
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
            (Some(seconds), Some(us)) => Ok(decode::timestamp(seconds * 1000 + us / 1000)),
            _ => Err(Error::contract("time", reply)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_too_old_by_the_products_own_numbers() {
        let least = |info: &str| Server::read(info).least_version();
        assert_eq!(least("redis_version:6.2.14\r\n"), Some("7.0"));
        assert_eq!(least("redis_version:7.0.0\r\n"), None);
        assert_eq!(least("redis_version:10.1\r\n"), None);
        assert_eq!(least("redis_version:7.2.4\r\nvalkey_version:7.0.1\r\n"), Some("7.2"));
        assert_eq!(least("redis_version:7.2.4\r\nvalkey_version:8.1.0\r\n"), None);
        assert_eq!(least("uptime:1\r\n"), None);
    }

    #[test]
    fn xackdel_is_used_only_where_it_is_sound() {
        let has = |info: &str| Server::read(info).has_xackdel();
        assert!(!has("redis_version:7.0.15\r\n") && !has("redis_version:8.0.9\r\n"));
        assert!(!has("redis_version:8.2\r\n") && !has("redis_version:8.2.2\r\n"));
        assert!(!has("redis_version:8.2.3-rc1\r\n"));
        assert!(has("redis_version:8.2.3\r\n") && has("redis_version:8.2.10\r\n"));
        assert!(has("redis_version:8.4.0\r\n") && has("redis_version:10.0.0\r\n"));
        // Valkey has another history: the version of Redis that it reports says nothing.
        assert!(!has("redis_version:8.4.0\r\nvalkey_version:9.1.2\r\n"));
        assert!(has("redis_version:7.2.4\r\nvalkey_version:9.2.0\r\n"));
        assert!(!has("uptime:1\r\n"));
    }

    #[test]
    fn a_server_is_called_by_its_own_name_and_version() {
        let valkey = Server::read("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n");
        assert_eq!(valkey.product(), Some(("Valkey", "8.0.1")));
        assert_eq!(Server::read("redis_version:7.0.15\r\n").product(), Some(("Redis", "7.0.15")));
        assert_eq!(Server::read("").product(), None);
    }
}
