//! What is left in Redis when an audit is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::payload::is_whole;
use super::person::mark_of;
use harness::fleet::queue;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// How long an operation may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// What a job's record contains.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub state: String,
    /// How each listed attempt ended; at most the last 20 are listed.
    pub rows: Vec<String>,
    /// How many attempts it ever listed.
    pub noted: usize,
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its own id in the dead stream.
    pub entry: String,
    pub mark: String,
    pub id: String,
    pub reason: String,
    pub error: String,
    /// Where its large fields are; empty if it has none.
    pub offloaded: String,
    /// Whether its payload is that of its job.
    pub is_whole: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub letters: Vec<Letter>,
    /// By the job's id.
    pub records: BTreeMap<String, Record>,
    /// What should not exist.
    pub left: Vec<String>,
}

const RECORD: &str = "sf:{default}:job:";
const LANES: [&str; 3] = ["sf:{default}:jobs", "sf:{default}:jobs:high", "sf:{default}:jobs:low"];
const FLEET: [&str; 12] = [
    "control",
    "leader",
    "events",
    "dead",
    "dead:groups",
    "dead:letters",
    "dead:offloaded",
    "audit",
    "cron",
    "cron:ticks",
    "wake",
    "gates",
];

/// How many keys are inspected together.
const PAGE: usize = 500;

/// Collects everything that is left, once no worker runs.
pub fn facts(server: &RedisServer) -> Facts {
    let mut facts = Facts { letters: letters(server), ..Facts::default() };
    for lane in LANES {
        let entries: u64 = ask(server, &["XLEN", lane]);
        let pending: Vec<redis::Value> = ask(server, &["XPENDING", lane, "fleet"]);
        let pending: u64 = redis::from_redis_value(pending[0].clone()).unwrap();
        if (entries, pending) != (0, 0) {
            let shown: redis::Value = ask(server, &["XRANGE", lane, "-", "+", "COUNT", "5"]);
            facts.left.push(format!("{lane}: {entries} entries, {pending} of them pending: {shown:?}"));
        }
    }
    let known = Known {
        dead: facts.letters.iter().map(|letter| letter.id.clone()).collect(),
        offloaded: facts.letters.iter().map(|letter| letter.offloaded.clone()).collect(),
        consumers: consumers(server),
    };
    let keys: Vec<String> = ask(server, &["KEYS", "*"]);
    for page in keys.chunks(PAGE) {
        let ttls = each(server, page, |pipe, key| pipe.cmd("PTTL").arg(key));
        for (key, ttl) in page.iter().zip(ttls) {
            let ttl: i64 = redis::from_redis_value(ttl).unwrap();
            let about = left(key, ttl, &known);
            facts.left.extend(about.map(|why| format!("{key}: {why}")));
        }
        let jobs: Vec<String> = page.iter().filter(|key| key.starts_with(RECORD)).cloned().collect();
        let records = each(server, &jobs, |pipe, key| pipe.cmd("HGETALL").arg(key));
        for (key, fields) in jobs.iter().zip(records) {
            let id = key[RECORD.len()..].to_owned();
            let fields: BTreeMap<String, String> = redis::from_redis_value(fields).unwrap();
            let is_dead = known.dead.contains(&id);
            let about = unfinished(&fields, is_dead);
            facts.left.extend(about.map(|why| format!("{key}: {why}: {fields:?}")));
            facts.records.insert(id, record(&fields));
        }
    }
    facts
}

/// What a key that is left may refer to.
struct Known {
    /// The ids of dead jobs.
    dead: BTreeSet<String>,
    /// Where letters keep their large fields.
    offloaded: BTreeSet<String>,
    /// The consumers of all groups. The reaper removes dead ones, but not immediately.
    consumers: BTreeSet<String>,
}

/// Returns why a key should not exist. The contents of records are checked elsewhere.
fn left(key: &str, ttl: i64, known: &Known) -> Option<String> {
    let own = key.strip_prefix("sf:{default}:")?;
    if LANES.contains(&key) || FLEET.contains(&own) {
        return None;
    }
    let (kind, id) = own.split_once(':').unwrap_or((own, ""));
    let is_dead = known.dead.contains(id);
    match kind {
        // Whatever asks for a place finds out that the jobs of killed workers have ended.
        "held" => None,
        "delayed" | "cancels" | "room" | "rooms" => Some("is not empty".to_owned()),
        "job" => (ttl == -1 && !is_dead).then(|| "has no expiry".to_owned()),
        "steps" => (ttl == -1 && !is_dead).then(|| "has no expiry".to_owned()),
        "offloaded" => (ttl == -1 && !known.offloaded.contains(id)).then(|| "belongs to nothing".to_owned()),
        // Those of a killed worker are deleted with its consumer.
        "receipts" => (!known.consumers.contains(id)).then(|| "belong to nothing".to_owned()),
        "unique" => Some("is held".to_owned()),
        _ => (ttl == -1).then(|| "has no expiry".to_owned()),
    }
}

/// Returns why a record does not belong to a job that has ended. Two generations of an id share their record.
fn unfinished(fields: &BTreeMap<String, String>, is_dead: bool) -> Option<String> {
    let state = fields.get("state").map_or("", String::as_str);
    if let Some(late) = fields.keys().find(|name| name.starts_with("late")) {
        return Some(format!("has the mark {late}"));
    }
    let has_ended = matches!(state, "done" | "cancelled");
    (!has_ended && !is_dead).then(|| "has not ended".to_owned())
}

fn consumers(server: &RedisServer) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for lane in LANES {
        let members: Vec<BTreeMap<String, redis::Value>> =
            ask(server, &["XINFO", "CONSUMERS", lane, "fleet"]);
        let found = members.into_iter().filter_map(|mut member| member.remove("name"));
        names.extend(found.map(|name| redis::from_redis_value::<String>(name).unwrap()));
    }
    names
}

fn record(fields: &BTreeMap<String, String>) -> Record {
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
            let read = async || queue.dead_letters().page(next, 500).await.ok();
            let page = until_async("a page of letters", SOON, read).await;
            let Some(last) = page.last() else { return letters };
            next = Some(streamfleet::job::EntryId::new(last.entry.ms, last.entry.seq + 1));
            letters.extend(page.iter().map(|letter| Letter {
                entry: letter.entry.to_string(),
                mark: mark_of(letter),
                id: letter.job().to_string(),
                reason: letter.text("dead_reason"),
                error: letter.text("dead_error"),
                is_whole: is_whole(letter.text("payload").trim_matches('"')),
                offloaded: letter.text("offloaded").split(' ').next().unwrap_or_default().to_owned(),
            }));
        }
    })
}

/// Sends one command for each key, in one pipeline.
fn each(
    server: &RedisServer,
    keys: &[String],
    command: impl for<'a> Fn(&'a mut redis::Pipeline, &str) -> &'a mut redis::Pipeline,
) -> Vec<redis::Value> {
    let mut pipe = redis::pipe();
    for key in keys {
        command(&mut pipe, key);
    }
    if keys.is_empty() { Vec::new() } else { server.try_pipe(&pipe).unwrap() }
}

fn ask<T: redis::FromRedisValue>(server: &RedisServer, command: &[&str]) -> T {
    redis::from_redis_value(server.cmd(command)).unwrap()
}
