//! What Redis says of itself, and what workers say of themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::scan::ScanType;
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use futures_util::TryStreamExt;

use super::error::Error;
use super::link::Link;
use super::{Broker, bytes, decode, keys, millis, script};
use crate::job::{ConsumerName, QueueName, Timestamp};

/// What `INFO` says, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub struct Server {
    facts: BTreeMap<String, String>,
}

impl Server {
    /// One line of `INFO`, such as `redis_version`.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }

    /// `Redis` or `Valkey`, with its version. `None` where the server tells neither.
    ///
    /// Valkey's `redis_version` is that of the Redis which it is compatible with, so it is none of its own.
    pub fn product(&self) -> Option<(&'static str, &str)> {
        let valkey = self.fact("valkey_version").map(|version| ("Valkey", version));
        valkey.or_else(|| self.fact("redis_version").map(|version| ("Redis", version)))
    }

    fn read(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Self { facts: lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect() }
    }
}

/// A live worker, by its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Its consumer name.
    pub consumer: String,
    /// What it said: `queues`, `types`, `running`, `slots`, `version`, `started_ms`, `state`.
    pub facts: BTreeMap<String, String>,
}

impl Broker {
    /// Asks Redis for a sign of life.
    ///
    /// # Errors
    ///
    /// [`Error`] where there is none.
    pub async fn ping(&self) -> Result<(), Error> {
        let client = self.link().client();
        let reply = client.ping::<Value>(None);
        self.link().ask("ping", reply).await.map(drop)
    }

    /// What Redis says of itself.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn server(&self) -> Result<Server, Error> {
        let client = self.link().client();
        let reply = client.info::<Value>(None);
        Ok(Server::read(&decode::text(&self.link().ask("info", reply).await?)))
    }

    /// Says that a worker lives and what it does; returns the server's time. See `scripts/beat.lua`.
    pub(crate) async fn beat(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        lives: Duration,
        facts: &[(&str, String)],
    ) -> Result<Timestamp, Error> {
        let mut args = vec![millis(lives)];
        args.extend(facts.iter().flat_map(|(name, value)| [bytes(name.as_bytes()), bytes(value.as_bytes())]));
        let key = keys::worker(self.namespace(), consumer);
        let answer = link.run(&script::BEAT, vec![key], args).await?;
        let now = u64::try_from(answer.status).ok().and_then(Timestamp::from_ms);
        now.ok_or_else(|| Error::contract("beat", answer))
    }

    /// Says that a worker is gone.
    pub(crate) async fn forget(&self, consumer: &ConsumerName) -> Result<(), Error> {
        let key = keys::worker(self.namespace(), consumer);
        self.delete(vec![key]).await
    }

    /// The queues of this namespace, by name.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn queues(&self) -> Result<Vec<QueueName>, Error> {
        let found = self.scan(keys::queues(self.namespace())).await?;
        let mut names: Vec<_> =
            found.iter().filter_map(|key| keys::queue_of(self.namespace(), &key.as_str_lossy())).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The live workers of this namespace, by name.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let mut workers = Vec::new();
        for key in self.scan(keys::workers(self.namespace())).await? {
            let consumer = key.as_str_lossy().rsplit(':').next().unwrap_or_default().to_owned();
            let facts = self.hash(key).await?;
            // An empty hash is one that expired between the two commands.
            if !facts.is_empty() {
                workers.push(WorkerInfo { consumer, facts });
            }
        }
        workers.sort_by(|one, other| one.consumer.cmp(&other.consumer));
        Ok(workers)
    }

    /// Deletes keys of this namespace that a check has made.
    pub(crate) async fn delete(&self, keys: Vec<Key>) -> Result<(), Error> {
        let client = self.link().client();
        let reply = client.del::<Value, _>(keys);
        self.link().ask("del", reply).await.map(drop)
    }

    async fn scan(&self, pattern: String) -> Result<Vec<Key>, Error> {
        let client = self.link().client();
        let mut found = Vec::new();
        if client.is_clustered() {
            let failed = |error: fred::error::Error| Error::from_client("scan", &error);
            let mut pages =
                std::pin::pin!(client.scan_cluster_buffered(pattern, Some(1000), None::<ScanType>));
            while let Some(key) = pages.try_next().await.map_err(failed)? {
                found.push(key);
            }
        } else {
            let mut cursor = "0".to_owned();
            loop {
                cursor = self.scan_page(&cursor, &pattern, &mut found).await?;
                if cursor == "0" {
                    break;
                }
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// One page, by hand: the client's own scan does not say why it was refused. The cursor of the next page, or `0`.
    async fn scan_page(&self, cursor: &str, pattern: &str, found: &mut Vec<Key>) -> Result<String, Error> {
        let client = self.link().client();
        let command = CustomCommand::new_static("SCAN", ClusterHash::Random, false);
        let args: Vec<Value> =
            vec![cursor.into(), "MATCH".into(), pattern.into(), "COUNT".into(), 1000.into()];
        let page = self.link().ask("scan", client.custom::<Value, Value>(command, args)).await?;
        let Value::Array(parts) = page else { return Err(Error::contract("scan", page)) };
        let [next, Value::Array(keys)] = &parts[..] else { return Err(Error::contract("scan", parts)) };
        found.extend(keys.iter().map(|key| Key::from(decode::data(key))));
        Ok(decode::text(next))
    }

    /// A hash, read by HSCAN because its reply begins with a cursor, not with data.
    async fn hash(&self, key: Key) -> Result<BTreeMap<String, String>, Error> {
        let client = self.link().client();
        let failed = |error: fred::error::Error| Error::from_client("hscan", &error);
        let command = CustomCommand::new_static("HSCAN", ClusterHash::FirstKey, false);
        let args: Vec<Value> = vec![key.into(), "0".into(), "COUNT".into(), 1000.into()];
        let page: Value = client.custom(command, args).await.map_err(failed)?;
        let Value::Array(parts) = page else { return Err(Error::contract("hscan", page)) };
        let Some(Value::Array(flat)) = parts.get(1) else { return Err(Error::contract("hscan", parts)) };
        Ok(flat.chunks_exact(2).map(|pair| (decode::text(&pair[0]), decode::text(&pair[1]))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_by_its_own_name_and_version() {
        let valkey = Server::read("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n");
        assert_eq!(valkey.product(), Some(("Valkey", "8.0.1")));
        assert_eq!(Server::read("redis_version:7.0.15\r\n").product(), Some(("Redis", "7.0.15")));
        assert_eq!(Server::read("").product(), None);
    }
}
