//! A queue's state in two round trips, for its leader. See `gauge.lua`.

use std::collections::BTreeMap;
use std::time::Duration;

use fred::interfaces::StreamsInterface;
use fred::types::Value;
use futures_util::future::try_join_all;

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::script::scripts;
use crate::broker::inspect::depths::timestamp;
use crate::broker::{Backlog, Consumer, Part, Queue, Unread, millis};
use crate::job::{EntryId, Lane, Pacing, Timestamp};

scripts! { GAUGE "gauge" }

/// A queue's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gauge {
    /// The time of the server's clock.
    pub(crate) now: Timestamp,
    /// The lanes, in the order of [`Lane::ALL`](crate::job::Lane::ALL).
    pub(crate) lanes: [GaugedLane; 3],
    pub(crate) delayed: u64,
    /// Delayed jobs that are due within [`Backlog::SOON`].
    pub(crate) due_soon: u64,
    /// How long the first delayed job is overdue.
    pub(crate) overdue: Duration,
    pub(crate) dead: u64,
    /// How long ago the oldest dead letter was written; zero if there is none.
    pub(crate) oldest_dead: Duration,
    pub(crate) live: u64,
    pub(crate) stale: u64,
    pub(crate) memory: Option<ServerMemory>,
    /// Keys that cannot be read. Their figures are 0 here, and mean nothing.
    pub(crate) unread: Vec<Unread>,
}

/// The part of the queue behind each key of the script.
const PARTS: [Part; 5] =
    [Part::Delayed, Part::Dead, Part::Lane(Lane::High), Part::Lane(Lane::Normal), Part::Lane(Lane::Low)];

/// One lane of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GaugedLane {
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    /// Entries ever added.
    pub(crate) added: u64,
    /// The oldest entry that no worker has taken.
    pub(crate) oldest_waiting: Option<EntryId>,
    /// The longest silence of a pending entry.
    pub(crate) silence: Duration,
}

/// The memory figures of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerMemory {
    pub(crate) used: u64,
    /// 0 if there is no limit.
    pub(crate) max: u64,
    pub(crate) is_eviction_safe: bool,
}

impl Gauge {
    /// Jobs that no worker has taken, over all lanes.
    pub(crate) fn waiting(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.waiting).sum()
    }

    /// Jobs that a worker holds, over all lanes.
    pub(crate) fn running(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.running).sum()
    }

    /// How long the oldest waiting job has been in its stream.
    pub(crate) fn oldest_waiting(&self) -> Option<Duration> {
        let oldest = self.lanes.iter().filter_map(|lane| lane.oldest_waiting).min()?;
        Some(age(self.now, oldest))
    }

    /// The longest silence of a pending entry, over all lanes.
    pub(crate) fn silence(&self) -> Duration {
        self.lanes.iter().map(|lane| lane.silence).max().unwrap_or_default()
    }
}

impl Queue {
    /// Returns the queue's state. A silence longer than the lease counts as long.
    pub(crate) async fn gauge(&self, lease: Duration) -> Result<Gauge, Error> {
        let mut keys = vec![self.keys.delayed.clone(), self.keys.dead.clone()];
        keys.extend(self.keys.streams().clone());
        let args = [lease, Backlog::SOON].map(millis).to_vec();
        let answer = self.run(&GAUGE, keys.clone(), args).await?;
        let Some((mut gauge, places)) = read(answer.status, &answer.rest) else {
            return Err(Error::contract("gauge", answer));
        };
        gauge.unread =
            answer.rest.first().map(|unread| Unread::read(unread, &PARTS, &keys)).unwrap_or_default();
        let [high, normal, low] = self.keys.streams();
        let (dead, high, normal, low, added, members) = tokio::try_join!(
            self.first_entry(&self.keys.dead, &places.dead),
            self.first_entry(high, &places.lanes[0]),
            self.first_entry(normal, &places.lanes[1]),
            self.first_entry(low, &places.lanes[2]),
            try_join_all(Lane::ALL.map(|lane| self.added(lane, places.added[lane as usize]))),
            self.members(&gauge.unread),
        )?;
        gauge.oldest_dead = dead.map(|letter| age(gauge.now, letter)).unwrap_or_default();
        for ((lane, oldest), added) in gauge.lanes.iter_mut().zip([high, normal, low]).zip(added) {
            (lane.oldest_waiting, lane.added) = (oldest, added);
        }
        (gauge.live, gauge.stale) = members;
        Ok(gauge)
    }

    /// Returns how many entries a lane ever had, if the script has not found out. The stream's own answer includes its
    /// first and last entries, however large, so no script asks for it.
    async fn added(&self, lane: Lane, known: Option<u64>) -> Result<u64, Error> {
        if let Some(known) = known {
            return Ok(known);
        }
        let client = self.link.client();
        let reply = client.xinfo_stream(self.keys.stream(lane).clone(), false, None);
        let reply: Value = match self.link.ask("xinfo", reply).await {
            Err(Error::Refused { detail, .. }) if detail.ends_with("no such key") => return Ok(0),
            reply => reply?,
        };
        let Value::Array(facts) = &reply else { return Err(Error::contract("xinfo", reply)) };
        let mut facts = facts.chunks_exact(2);
        let added = facts.find(|fact| decode::data(&fact[0]) == b"entries-added");
        Ok(added.and_then(|fact| decode::number(&fact[1])).unwrap_or(0))
    }

    /// Returns how many members of the group are alive, and how many are not. A member is alive if it has recently read
    /// or renewed in any lane. The consumers of claimers come and go, and are not workers.
    async fn members(&self, unread: &[Unread]) -> Result<(u64, u64), Error> {
        let lanes = Lane::ALL.into_iter().filter(|lane| !Unread::is_among(Part::Lane(*lane), unread));
        let found: Vec<Vec<Consumer>> = try_join_all(lanes.map(|lane| self.consumers(lane))).await?;
        let mut idle: BTreeMap<String, Duration> = BTreeMap::new();
        for consumer in found.into_iter().flatten().filter(|consumer| !consumer.name.ends_with(".claims")) {
            let least = idle.entry(consumer.name).or_insert(consumer.idle);
            *least = (*least).min(consumer.idle);
        }
        let members = Pacing::of(idle.len() as u64);
        let live = idle.values().filter(|idle| members.counts_as_live(**idle)).count();
        Ok((live as u64, (idle.len() - live) as u64))
    }
}

/// Where to start reading for the oldest dead letter, and for the oldest waiting entry of each lane; empty if there is
/// none.
struct Places {
    dead: String,
    lanes: [String; 3],
    /// How many entries each lane ever had, if known.
    added: [Option<u64>; 3],
}

fn read(now: i64, rest: &[Value]) -> Option<(Gauge, Places)> {
    let [_unread, delayed, due_soon, overdue, dead, oldest_dead, used, max, policy, lanes @ ..] = rest else {
        return None;
    };
    let now = timestamp(now.cast_unsigned());
    let [high, normal, low] = [0, 1, 2].map(|at| lane(lanes.get(5 * at..5 * at + 5)?));
    let memory = decode::number(used).map(|used| ServerMemory {
        used,
        max: decode::number(max).unwrap_or(0),
        is_eviction_safe: decode::text(policy) == "noeviction",
    });
    let places = Places {
        dead: decode::text(oldest_dead),
        lanes: [0, 1, 2].map(|at| lanes.get(5 * at + 3).map(decode::text).unwrap_or_default()),
        added: [0, 1, 2].map(|at| lanes.get(5 * at + 2).and_then(decode::number)),
    };
    let gauge = Gauge {
        now,
        lanes: [high?, normal?, low?],
        delayed: decode::number(delayed)?,
        due_soon: decode::number(due_soon)?,
        overdue: Duration::from_millis(decode::number(overdue)?),
        dead: decode::number(dead)?,
        oldest_dead: Duration::ZERO,
        live: 0,
        stale: 0,
        memory,
        unread: Vec::new(),
    };
    Some((gauge, places))
}

fn lane(values: &[Value]) -> Option<GaugedLane> {
    let [entries, pending, _added, _waits, silence] = values else { return None };
    let running = decode::number(pending)?;
    Some(GaugedLane {
        waiting: decode::number(entries)?.saturating_sub(running),
        running,
        added: 0,
        oldest_waiting: None,
        silence: Duration::from_millis(decode::number(silence)?),
    })
}

fn age(now: Timestamp, entry: EntryId) -> Duration {
    now.since(Timestamp::from_ms(entry.ms).unwrap_or(Timestamp::MAX))
}
