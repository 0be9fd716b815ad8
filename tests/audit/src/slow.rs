//! What blocked Redis the longest, by its own account.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Serialize;

use harness::redis_server::RedisServer;
use harness::scripts;

/// The time from which Redis logs a command as slow, in microseconds.
pub(crate) const NOTED_US: &str = "1000";

/// The slowest script and the slowest other command, in microseconds, and the longest of each latency event, in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Slowest {
    pub script: Option<(u64, String)>,
    pub command: Option<(u64, String)>,
    pub events: BTreeMap<String, u64>,
    /// The most memory that Redis used, in bytes.
    pub memory: u64,
}

impl Slowest {
    /// Asks the server, which forgets all of this when it exits.
    pub fn look(&mut self, server: &RedisServer) {
        type Entry = (u64, u64, u64, Vec<String>);
        let entries = server.try_cmd(&["SLOWLOG", "GET", "1000"]);
        for entry in entries
            .ok()
            .and_then(|found| redis::from_redis_value::<Vec<redis::Value>>(found).ok())
            .into_iter()
            .flatten()
        {
            let redis::Value::Array(parts) = entry else { continue };
            let first: Vec<redis::Value> = parts.into_iter().take(4).collect();
            if let Ok((_id, _when, took, words)) =
                redis::from_redis_value::<Entry>(redis::Value::Array(first))
            {
                self.note(took, &words);
            }
        }
        self.measure(server);
        let latest = server.try_cmd(&["LATENCY", "LATEST"]);
        let latest =
            latest.ok().and_then(|found| redis::from_redis_value::<Vec<(String, u64, u64, u64)>>(found).ok());
        for (event, _when, _last, most) in latest.into_iter().flatten() {
            let longest = self.events.entry(event).or_default();
            *longest = most.max(*longest);
        }
    }

    fn measure(&mut self, server: &RedisServer) {
        let info = server.try_cmd(&["INFO", "memory"]).ok();
        let info = info.and_then(|info| redis::from_redis_value::<String>(info).ok()).unwrap_or_default();
        let peak = info.lines().find_map(|line| line.strip_prefix("used_memory_peak:")?.trim().parse().ok());
        self.memory = self.memory.max(peak.unwrap_or(0));
    }

    fn note(&mut self, took: u64, words: &[String]) {
        let Some(command) = words.first() else { return };
        let is_script = command.starts_with("EVAL");
        let slowest = if is_script { &mut self.script } else { &mut self.command };
        if slowest.as_ref().is_none_or(|(most, _)| *most < took) {
            let name = words.get(1).and_then(|sha| SCRIPTS.get(sha.as_str())).filter(|_| is_script);
            *slowest = Some((took, name.map_or_else(|| command.clone(), |name| (*name).to_owned())));
        }
    }
}

/// The names of the scripts, by their hashes.
static SCRIPTS: LazyLock<HashMap<String, &str>> = LazyLock::new(|| {
    scripts::names().map(|name| (scripts::sha1(&scripts::as_sent(scripts::source(name))), name)).collect()
});
