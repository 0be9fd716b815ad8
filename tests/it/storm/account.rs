//! What is left in Redis when a storm is over.

use std::collections::BTreeMap;

use super::person::mark_of;
use crate::harness::fleet::queue;
use crate::harness::redis_server::RedisServer;

/// What a job's record says.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) state: String,
    /// How each attempt ended that it names: at most the last 20.
    pub(super) rows: Vec<String>,
    /// How many it ever named.
    pub(super) noted: usize,
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) mark: String,
    pub(super) id: String,
    pub(super) reason: String,
    pub(super) error: String,
    /// Where its large fields are; empty where it has none.
    pub(super) offloaded: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) letters: Vec<Letter>,
    /// By the job's id.
    pub(super) records: BTreeMap<String, Record>,
    /// What should not be there.
    pub(super) left: Vec<String>,
}

const LANES: [&str; 3] = ["sf:{default}:jobs", "sf:{default}:jobs:high", "sf:{default}:jobs:low"];
const FLEET: [&str; 7] = ["control", "leader", "events", "dead", "cron", "cron:ticks", "wake"];

/// Looks at everything. No worker lives any more.
pub(super) fn facts(server: &RedisServer) -> Facts {
    let mut facts = Facts { letters: letters(server), ..Facts::default() };
    for lane in LANES {
        let entries = int(server, &["XLEN", lane]);
        let pending: Vec<redis::Value> = ask(server, &["XPENDING", lane, "fleet"]);
        let pending: u64 = redis::from_redis_value(pending[0].clone()).unwrap();
        if (entries, pending) != (0, 0) {
            let shown: redis::Value = ask(server, &["XRANGE", lane, "-", "+", "COUNT", "5"]);
            facts.left.push(format!("{lane}: {entries} entries, {pending} of them pending: {shown:?}"));
        }
    }
    for key in ask::<Vec<String>>(server, &["KEYS", "*"]) {
        if let Some(id) = key.strip_prefix("sf:{default}:job:") {
            let record = record(server, &key);
            facts.records.insert(id.to_owned(), record);
        }
        if let Some(why) = left(server, &key, &facts.letters) {
            facts.left.push(format!("{key}: {why}"));
        }
    }
    facts
}

/// Why a key should not be there.
fn left(server: &RedisServer, key: &str, letters: &[Letter]) -> Option<String> {
    let own = key.strip_prefix("sf:{default}:")?;
    if LANES.contains(&key) || FLEET.contains(&own) {
        return None;
    }
    let ttl: i64 = ask(server, &["PTTL", key]);
    let (kind, id) = own.split_once(':').unwrap_or((own, ""));
    let is_dead = letters.iter().any(|letter| letter.id == id);
    match kind {
        "delayed" | "cancels" => Some("is not empty".to_owned()),
        "job" => {
            let fields: BTreeMap<String, String> = ask(server, &["HGETALL", key]);
            let state = fields.get("state").map_or("", String::as_str);
            let has_ended = matches!(state, "done" | "cancelled") && ttl > 0;
            if let Some(late) = fields.keys().find(|name| name.starts_with("late")) {
                return Some(format!("has the mark {late}: {fields:?}"));
            }
            let is_kept = state == "dead" && ttl == -1 && is_dead;
            // Two lives of an id share their record.
            (!has_ended && !is_kept && !is_dead).then(|| format!("has no end ({ttl} ms): {fields:?}"))
        }
        "steps" => (ttl == -1 && !is_dead).then(|| "has no end".to_owned()),
        "offloaded" => {
            let of_letter = letters.iter().any(|letter| letter.offloaded == id);
            (ttl == -1 && !of_letter).then(|| "is of nobody".to_owned())
        }
        // They go with their consumer, where it was killed.
        "receipts" => (!has_joined(server, id)).then(|| "are of nobody".to_owned()),
        "unique" => Some(format!("is held by {}", ask::<String>(server, &["GET", key]))),
        _ => (ttl == -1).then(|| "has no end".to_owned()),
    }
}

/// Whether it is a member of a group: the reaper looks for those that are dead, but not at once.
fn has_joined(server: &RedisServer, consumer: &str) -> bool {
    LANES.iter().any(|lane| {
        let members =
            ask::<Vec<BTreeMap<String, redis::Value>>>(server, &["XINFO", "CONSUMERS", lane, "fleet"]);
        let mut names = members.iter().filter_map(|member| member.get("name"));
        names.any(|name| redis::from_redis_value::<String>(name.clone()).unwrap() == consumer)
    })
}

fn record(server: &RedisServer, key: &str) -> Record {
    let fields: BTreeMap<String, String> = ask(server, &["HGETALL", key]);
    let rows = fields.iter().filter(|(name, _)| name.starts_with("a:"));
    let number = |name: &str| fields.get(name).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    Record {
        state: fields.get("state").cloned().unwrap_or_default(),
        rows: rows.filter_map(|(_, row)| row.split(' ').nth(2).map(str::to_owned)).collect(),
        noted: usize::try_from(number("noted")).unwrap(),
    }
}

fn letters(server: &RedisServer) -> Vec<Letter> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (queue, mut letters, mut next) = (queue(server).await, Vec::new(), None);
        loop {
            let page = queue.dead_letters(next, 500).await.unwrap();
            let Some(last) = page.last() else { return letters };
            next = Some(streamfleet::job::EntryId::new(last.entry.ms, last.entry.seq + 1));
            letters.extend(page.iter().map(|letter| Letter {
                mark: mark_of(letter),
                id: letter.job().to_string(),
                reason: letter.text("dead_reason"),
                error: letter.text("dead_error"),
                offloaded: letter.text("offloaded").split(' ').next().unwrap_or_default().to_owned(),
            }));
        }
    })
}

fn int(server: &RedisServer, command: &[&str]) -> u64 {
    ask(server, command)
}

fn ask<T: redis::FromRedisValue>(server: &RedisServer, command: &[&str]) -> T {
    redis::from_redis_value(server.cmd(command)).unwrap()
}
