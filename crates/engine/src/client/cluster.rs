//! Knows which master of a cluster has which slots. It learns this from any node that answers: those in the address,
//! and all nodes learned since. Old knowledge stays in use until something better is known, so an outage of the nodes
//! that know the slots costs nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fred::interfaces::ClientLike;
use fred::types::config::{Config, Server, ServerConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rand::seq::SliceRandom as _;

use crate::client::decode;
use crate::client::error::{Class, Error};
use crate::client::setup;
use crate::job::jittered;
use crate::mutex::lock;

/// How long a node may take to accept a connection, and to answer.
const NODE_DEADLINE: Duration = Duration::from_secs(2);

/// After this long without an answer from one node, another one is asked too.
const STAGGER: Duration = Duration::from_millis(300);

/// The shortest time between two lookups of one process.
const MIN_LOOKUP_PAUSE: Duration = Duration::from_millis(300);

/// How long a MOVED answer is believed over a map that contradicts it.
const TRUST_REDIRECT_FOR: Duration = Duration::from_secs(1);

/// The most nodes that are remembered: a cluster has up to 1000, and addresses of old nodes must not pile up.
const NODES_MAX: usize = 1000;

const COMMAND: &str = "cluster slots";

/// What is known about a cluster.
pub(crate) struct Cluster {
    access: Config,
    map: Mutex<Map>,
    version: AtomicU64,
    last: tokio::sync::Mutex<Option<Lookup>>,
}

#[derive(Debug, Clone, Default)]
struct Map {
    /// From MOVED answers newer than the map: the slot, its reported owner, and the time of the answer.
    redirects: Vec<(u16, Server, Instant)>,
    ranges: Vec<Range>,
    /// Every node ever named in the address or by another node; the current masters first.
    nodes: Vec<Server>,
}

/// Slots that one master has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    owner: Server,
    replicas: Vec<Server>,
}

/// The last time that nodes were asked.
struct Lookup {
    begun: Instant,
    ended: Instant,
    result: Result<(), Error>,
}

impl Cluster {
    /// Creates a cluster of which only the nodes in the address are known.
    pub(crate) fn new(access: Config) -> Self {
        let map = Map { nodes: access.server.hosts(), ..Map::default() };
        // A cluster has one database, and the client would try to select it.
        let access = Config { database: None, ..access };
        Self { access, map: Mutex::new(map), version: AtomicU64::new(0), last: tokio::sync::Mutex::default() }
    }

    /// The client's configuration for connecting to any of the nodes.
    pub(crate) fn access(&self) -> &Config {
        &self.access
    }

    /// Returns the master that has a slot. If that is unknown, returns some node, which will name the owner.
    pub(crate) fn owner(&self, slot: u16) -> Server {
        let map = lock(&self.map);
        let redirect = map.redirects.iter().find(|(of, ..)| *of == slot).map(|(_, server, _)| server);
        let range = || map.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        let owner = redirect.or_else(|| range().map(|range| &range.owner)).or_else(|| map.nodes.first());
        owner.cloned().unwrap_or_else(|| Server::new("", 0))
    }

    /// Returns every master that has slots.
    pub(crate) fn masters(&self) -> Vec<Server> {
        let mut masters: Vec<_> = lock(&self.map).ranges.iter().map(|range| range.owner.clone()).collect();
        masters.sort();
        masters.dedup();
        masters
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Notes that a node named another node as the owner of the slot.
    pub(crate) fn note_redirect(&self, slot: u16, to: &Server) {
        if self.owner(slot) == *to {
            return;
        }
        let mut map = lock(&self.map);
        map.redirects.retain(|(of, ..)| *of != slot);
        map.redirects.push((slot, to.clone(), Instant::now()));
        if !map.nodes.contains(to) {
            map.nodes.push(to.clone());
        }
        drop(map);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Asks for the slots, the doubted node last. Concurrent callers get the same answer.
    ///
    /// # Errors
    ///
    /// [`Error`] if no node answers.
    pub(crate) async fn refresh(&self, doubted: Option<&Server>) -> Result<(), Error> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(lookup) = &*last {
            if lookup.begun >= asked {
                return lookup.result.clone();
            }
            let apart = jittered(MIN_LOOKUP_PAUSE, 0.5..1.5, rand::random());
            tokio::time::sleep(apart.saturating_sub(lookup.ended.elapsed())).await;
        }
        let begun = Instant::now();
        let result = self.fetch(doubted).await;
        *last = Some(Lookup { begun, ended: Instant::now(), result: result.clone() });
        result
    }

    async fn fetch(&self, doubted: Option<&Server>) -> Result<(), Error> {
        let nodes = self.in_order(doubted);
        let (mut rest, mut asked, mut failed) = (nodes.iter(), FuturesUnordered::new(), Vec::new());
        loop {
            match rest.next() {
                Some(node) => asked.push(async move { (node, self.ask(node).await) }),
                None if asked.is_empty() => return Err(none_answered(failed)),
                None => {}
            }
            let pause = if rest.len() > 0 { STAGGER } else { 3 * NODE_DEADLINE };
            match tokio::time::timeout(pause, asked.next()).await {
                Ok(Some((node, Ok(ranges)))) => {
                    self.store(node, ranges);
                    return Ok(());
                }
                Ok(Some((node, Err(error)))) => failed.push((node, error)),
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// The order in which to ask: first the nodes reported to own a slot, then the others at random, so that a fleet
    /// spreads over them.
    fn in_order(&self, doubted: Option<&Server>) -> Vec<Server> {
        let map = lock(&self.map);
        let named = map.redirects.last().map(|(_, server, _)| server.clone());
        let mut nodes = map.nodes.clone();
        drop(map);
        nodes.shuffle(&mut rand::rng());
        nodes.sort_by_key(|node| (named.as_ref() != Some(node), doubted == Some(node)));
        nodes
    }

    async fn ask(&self, node: &Server) -> Result<Vec<Range>, Error> {
        let server = ServerConfig::Centralized { server: node.clone() };
        let client = setup::query_client(&self.access, &server, NODE_DEADLINE);
        let late = || Error::Unreachable(format!("no answer within {:?}", 2 * NODE_DEADLINE));
        let reply = async {
            let _open = setup::connect(&client).await.map_err(|error| Error::from_connect(&error))?;
            let slots = CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
            let reply = client.custom::<Value, Value>(slots, vec!["SLOTS".into()]).await;
            reply.map_err(|error| Error::from_client(COMMAND, &error))
        };
        let reply = tokio::time::timeout(2 * NODE_DEADLINE, Box::pin(reply)).await.map_err(|_| late())??;
        let ranges = ranges(&reply, node, self.access.uses_tls())?;
        if ranges.is_empty() {
            let detail = "it does not know any slots".to_owned();
            return Err(Error::Refused { command: COMMAND, class: Class::Busy, detail });
        }
        Ok(ranges)
    }

    fn store(&self, source: &Server, ranges: Vec<Range>) {
        let mut map = lock(&self.map);
        let all = ranges.iter().flat_map(|range| std::iter::once(&range.owner).chain(&range.replicas));
        let mut nodes: Vec<Server> = all.chain([source]).cloned().collect();
        nodes.extend(map.nodes.iter().cloned());
        let mut seen = std::collections::HashSet::new();
        nodes.retain(|node| seen.insert(node.clone()));
        nodes.truncate(NODES_MAX);
        // A node that has not yet learned what another node reported may be asked just after that.
        let is_fresh =
            |(_, to, at): &&(u16, Server, Instant)| to != source && at.elapsed() < TRUST_REDIRECT_FOR;
        let redirects: Vec<_> = map.redirects.iter().filter(is_fresh).cloned().collect();
        let changed = map.ranges != ranges || map.redirects != redirects;
        *map = Map { redirects, ranges, nodes };
        drop(map);
        if changed {
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

/// Explains why no node returned the slots. An answer that an operator must act on comes first.
fn none_answered(failed: Vec<(&Server, Error)>) -> Error {
    for (node, error) in &failed {
        let Error::Refused { command, class, detail } = error else { continue };
        if detail.contains("cluster support disabled") {
            let detail = format!(
                "{node} is not part of a cluster: start redis.url with redis:// (or rediss://), or name a node of a cluster"
            );
            return Error::Refused { command: COMMAND, class: Class::Configuration, detail };
        }
        if *class == Class::Configuration {
            return Error::Refused { command, class: *class, detail: format!("{node}: {detail}") };
        }
    }
    let failures: Vec<_> = failed.iter().take(4).map(|(node, error)| format!("{node}: {error}")).collect();
    let more = failed.len().saturating_sub(failures.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Error::Unreachable(format!(
        "no node of the cluster reports where its slots are: {}{more}",
        failures.join("; ")
    ))
}

/// Reads the answer to CLUSTER SLOTS: for each range, its first and last slot, its master, and its replicas.
fn ranges(reply: &Value, asked: &Server, by_tls: bool) -> Result<Vec<Range>, Error> {
    let wrong = || Error::contract(COMMAND, reply);
    let Value::Array(ranges) = reply else { return Err(wrong()) };
    let range = |range: &Value| {
        let Value::Array(parts) = range else { return Err(wrong()) };
        let [first, last, owner, replicas @ ..] = &parts[..] else { return Err(wrong()) };
        let slot = |value: &Value| decode::number(value).and_then(|slot| u16::try_from(slot).ok());
        let (Some(first), Some(last)) = (slot(first), slot(last)) else { return Err(wrong()) };
        let Some(owner) = node(owner, asked, by_tls) else {
            let detail = format!(
                "it does not report the name of the node that has the slots {first} to {last}: set \
                 cluster-announce-hostname there, or another cluster-preferred-endpoint-type"
            );
            return Err(Error::Refused { command: COMMAND, class: Class::Configuration, detail });
        };
        let replicas = replicas.iter().filter_map(|replica| node(replica, asked, by_tls)).collect();
        Ok(Range { first, last, owner, replicas })
    };
    ranges.iter().map(range).collect()
}

/// Reads a node as CLUSTER SLOTS names it: its preferred name, its port, its id, and its other names. `None` if it has
/// no usable name.
fn node(node: &Value, asked: &Server, by_tls: bool) -> Option<Server> {
    let Value::Array(parts) = node else { return None };
    let port = u16::try_from(decode::number(parts.get(1)?)?).ok()?;
    let others = match parts.get(3) {
        Some(Value::Array(others)) => &others[..],
        _ => &[],
    };
    let other = |kind: &str| {
        let named = others.chunks_exact(2).find(|pair| decode::text(&pair[0]) == kind);
        named.map(|pair| decode::text(&pair[1])).filter(|name| !name.is_empty() && name != "?")
    };
    // A certificate is more often issued for a name than for an address.
    if let Some(name) = other("hostname").filter(|_| by_tls) {
        return Some(Server::new(name, port));
    }
    match decode::text(parts.first()?).as_str() {
        // The node does not know its own address, or does not report it: use the address that was just asked.
        "" => Some(Server::new(asked.host.clone(), port)),
        // The cluster prefers names, but this node has none.
        "?" => Some(Server::new(other("ip")?, port)),
        name => Some(Server::new(name, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(parts: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(parts.into_iter().collect())
    }

    /// Reads one range whose master has this name, as reported by `asked`.
    fn owner(name: Value, others: &[&str], by_tls: bool) -> Result<Server, Error> {
        let others = array(others.iter().map(|text| Value::from(*text)));
        let master = array([name, 7001.into(), "id".into(), others]);
        let reply = array([array([0.into(), 16383.into(), master])]);
        ranges(&reply, &Server::new("asked", 7000), by_tls).map(|ranges| ranges[0].owner.clone())
    }

    #[test]
    fn a_node_is_called_by_the_name_that_it_prefers() {
        let named = |name: Value, others: &[&str]| owner(name, others, false).unwrap().to_string();
        assert_eq!(named("10.0.0.1".into(), &["hostname", "one.example"]), "10.0.0.1:7001");
        assert_eq!(named("one.example".into(), &["ip", "10.0.0.1"]), "one.example:7001");
        assert_eq!(named("".into(), &[]), "asked:7001");
        assert_eq!(named(Value::Null, &["ip", "10.0.0.1"]), "asked:7001");
        assert_eq!(named("?".into(), &["ip", "10.0.0.1"]), "10.0.0.1:7001");
    }

    #[test]
    fn a_certificate_is_checked_against_the_name_if_there_is_one() {
        let by_tls = |others: &[&str]| owner("10.0.0.1".into(), others, true).unwrap().to_string();
        assert_eq!(by_tls(&["hostname", "one.example"]), "one.example:7001");
        assert_eq!(by_tls(&[]), "10.0.0.1:7001");
    }

    #[test]
    fn a_node_without_any_name_is_an_error_that_says_what_to_set() {
        let error = owner("?".into(), &[], false).unwrap_err();
        assert!(
            error.is_configuration() && error.to_string().contains("cluster-announce-hostname"),
            "{error}"
        );
    }

    fn cluster() -> Cluster {
        let server = ServerConfig::new_clustered(vec![("seed", 7000)]);
        Cluster::new(Config { server, ..Config::default() })
    }

    fn range(first: u16, last: u16, port: u16) -> Range {
        Range { first, last, owner: Server::new("host", port), replicas: vec![] }
    }

    #[test]
    fn a_slot_is_where_the_latest_word_says() {
        let (cluster, source) = (cluster(), Server::new("host", 7003));
        assert_eq!(cluster.owner(5), Server::new("seed", 7000), "some node, where nobody is known");
        cluster.store(&source, vec![range(0, 99, 7001), range(100, 16383, 7002)]);
        assert_eq!((cluster.owner(5).port, cluster.owner(100).port), (7001, 7002));
        let before = cluster.version();
        cluster.note_redirect(5, &Server::new("host", 7002));
        assert_eq!((cluster.owner(5).port, cluster.owner(6).port), (7002, 7001));
        assert!(cluster.version() > before);
        cluster.store(&source, vec![range(0, 99, 7001), range(100, 16383, 7002)]);
        assert_eq!(cluster.owner(5).port, 7002, "the one who told has not heard of it yet");
        cluster.store(&Server::new("host", 7002), vec![range(0, 99, 7001), range(100, 16383, 7002)]);
        assert_eq!(cluster.owner(5).port, 7001, "the one who was named says that it has not got it");
    }

    #[test]
    fn every_known_node_is_asked_and_the_doubted_one_last() {
        let cluster = cluster();
        cluster.store(&Server::new("host", 7003), vec![range(0, 16383, 7001)]);
        let doubted = Server::new("host", 7001);
        let order = cluster.in_order(Some(&doubted));
        assert_eq!(order.len(), 3);
        assert_eq!(order.last(), Some(&doubted));
        assert_eq!(cluster.masters(), [doubted]);
    }
}
