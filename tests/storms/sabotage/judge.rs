//! The judge of a scene: it checks that exactly what was planned ran, ended and was reported, and that nothing is left
//! behind.

use std::collections::{BTreeMap, BTreeSet};

use harness::ledger::{How, Record};
use harness::redis_server::RedisServer;

pub(super) const LOST: &str = "nothing is lost";
pub(super) const ONE_PLACE: &str = "each generation ends in one place";
pub(super) const TWICE: &str = "nothing runs twice without a cause";
pub(super) const ONCE: &str = "a once step starts once";
pub(super) const COUNTED: &str = "each attempt has the right number";
pub(super) const EARLY: &str = "nothing starts before its time";
pub(super) const FOLLOWS: &str = "a follow-up runs once";
pub(super) const TICKS: &str = "each tick is one job";
pub(super) const REPORTED: &str = "each success is reported once";
pub(super) const WHOLE: &str = "a payload arrives byte for byte";
pub(super) const ANSWERS: &str = "answers are correct";
pub(super) const LEFT: &str = "nothing is left behind";
pub(super) const GOES_ON: &str = "work continues in time";

/// How a job must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// With this reason in its dead letter.
    Dead(&'static str),
}

/// What must happen to a job.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) name: String,
    /// The number of each attempt, and how its run ended; `None` if its worker could not report it.
    pub(super) runs: Vec<(u32, Option<How>)>,
    pub(super) end: End,
    /// How many of its successes may be reported, at most.
    pub(super) reported: usize,
    /// The earliest start, by the monotonic clock, in nanoseconds.
    pub(super) not_before: u64,
}

/// A broken rule, and what broke it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Offence {
    pub(super) rule: String,
    pub(super) what: String,
}

/// What is known when a scene is over and no worker is left.
#[derive(Default)]
pub(super) struct Seen {
    /// By the job's name: the attempt, when it started, and how it ended.
    runs: BTreeMap<String, Vec<(u32, u64, Option<How>)>>,
    /// By the job's name: the reasons of its dead letters.
    letters: BTreeMap<String, Vec<String>>,
    /// By the job's name: how many successes were reported.
    reported: BTreeMap<String, usize>,
    records: BTreeMap<String, String>,
    left: Vec<String>,
}

impl Seen {
    /// Reads the ledger and the server. `names` names the jobs that have no id except that of their entry.
    pub(super) fn new(records: Vec<Record>, server: &RedisServer, names: &BTreeMap<String, String>) -> Self {
        let mut seen = Self::default();
        let mut ends = BTreeMap::new();
        for record in &records {
            if let Record::End { run, how, .. } = record {
                ends.insert((run.job.clone(), run.fence, run.pid), *how);
            }
        }
        for record in records {
            if let Record::Start { run, t } = record {
                let end = ends.get(&(run.job.clone(), run.fence, run.pid)).copied();
                seen.runs.entry(run.job).or_default().push((run.attempt, t, end));
            }
        }
        let name = |id: &str| names.get(id).map_or(id, String::as_str).to_owned();
        seen.look_at(server, name);
        seen
    }

    fn look_at(&mut self, server: &RedisServer, name: impl Fn(&str) -> String) {
        for fields in entries(server, "sf:{default}:dead") {
            let job = fields.get("id").or_else(|| fields.get("dead_job")).cloned().unwrap_or_default();
            self.letters.entry(name(&job)).or_default().push(fields["dead_reason"].clone());
        }
        for fields in entries(server, "sf:{default}:events") {
            let is_success = fields.get("outcome").is_some_and(|outcome| outcome == "succeeded");
            if let (true, Some(id)) = (is_success, fields.get("id").cloned()) {
                *self.reported.entry(name(&id)).or_default() += 1;
            }
        }
        for key in ask::<Vec<String>>(server, &["KEYS", "*"]) {
            let own = key.strip_prefix("sf:{default}:").unwrap_or_default();
            if let Some(id) = own.strip_prefix("job:") {
                // The key may be of another type.
                let state = server.try_cmd(&["HGET", &key, "state"]).ok();
                let state = state.and_then(|state| redis::from_redis_value::<String>(state).ok());
                self.records.insert(id.to_owned(), state.unwrap_or_default());
            }
            if let Some(why) = self.left(server, &key, (own, &name)) {
                self.left.push(format!("{key}: {why}"));
            }
        }
    }

    /// Returns why a key should not exist.
    fn left(
        &self,
        server: &RedisServer,
        key: &str,
        (own, name): (&str, impl Fn(&str) -> String),
    ) -> Option<String> {
        let (kind, id) = own.split_once(':').unwrap_or((own, ""));
        let has_end = ask::<i64>(server, &["PTTL", key]) >= 0;
        match kind {
            "jobs" => {
                let entries: u64 = ask(server, &["XLEN", key]);
                let pending: Vec<redis::Value> = ask(server, &["XPENDING", key, "fleet"]);
                let pending: u64 = redis::from_redis_value(pending[0].clone()).unwrap();
                (entries + pending > 0).then(|| format!("{entries} entries, {pending} pending"))
            }
            "delayed" | "cancels" | "unique" => Some("exists".to_owned()),
            "job" | "steps" => {
                (!has_end && !self.letters.contains_key(&name(id))).then(|| "never expires".to_owned())
            }
            // Receipts of a killed worker are deleted with its consumer.
            "" | "control" | "leader" | "events" | "dead" | "audit" | "cron" | "wake" | "receipts" => None,
            _ => (!has_end).then(|| "never expires".to_owned()),
        }
    }

    /// Returns the broken rules, and what broke each.
    pub(super) fn judge(&self, expected: &[Expected]) -> Vec<Offence> {
        let mut found: Vec<(&str, String)> =
            expected.iter().flat_map(|expected| self.judge_one(expected)).collect();
        let known: BTreeSet<&str> = expected.iter().map(|expected| expected.name.as_str()).collect();
        for (name, runs) in self.runs.iter().filter(|(name, _)| !known.contains(name.as_str())) {
            if !name.starts_with("cron.") {
                found.push((TWICE, format!("{name} ran {} times but was not expected", runs.len())));
            } else if runs.len() > 1 {
                found.push((TICKS, format!("{name} ran {} times", runs.len())));
            }
        }
        for (id, reasons) in self.letters.iter().filter(|(id, _)| !known.contains(id.as_str())) {
            found.push((ONE_PLACE, format!("{id} is dead: {reasons:?}")));
        }
        found.extend(self.left.iter().map(|left| (LEFT, left.clone())));
        let offence = |(rule, what): (&str, String)| Offence { rule: rule.to_owned(), what };
        found.into_iter().map(offence).collect()
    }

    fn judge_one(&self, expected: &Expected) -> Vec<(&'static str, String)> {
        let Expected { name, runs: wanted, end, reported, not_before } = expected;
        let none = Vec::new();
        let runs = self.runs.get(name).unwrap_or(&none);
        let letters = self.letters.get(name).map_or(&[][..], Vec::as_slice);
        let shown = format!("{name}: expected {wanted:?} and {end:?}; ran {runs:?}, letters {letters:?}");
        let mut found = Vec::new();
        let mut check = |rule, is_broken: bool| {
            if is_broken {
                found.push((rule, shown.clone()));
            }
        };
        let more = match name {
            name if name.contains('~') => FOLLOWS,
            name if name.ends_with("/charge") => ONCE,
            _ => TWICE,
        };
        check(more, runs.len() > wanted.len());
        let done = |how: Option<How>| how == Some(How::Ok);
        let (ok, due) = (
            runs.iter().filter(|(.., how)| done(*how)).count(),
            wanted.iter().filter(|(_, how)| done(*how)).count(),
        );
        let is_lost = match end {
            // A job with steps has no runs of its own.
            End::Done if wanted.is_empty() => self.records.get(name).is_none_or(|state| state != "done"),
            End::Done => ok < due,
            End::Dead(_) => letters.is_empty(),
        };
        check(LOST, is_lost || runs.is_empty() && !wanted.is_empty());
        let places: &[&str] = if let End::Dead(reason) = end { &[reason] } else { &[] };
        check(ONE_PLACE, letters.len() > places.len() || letters.iter().any(|own| places != [own.as_str()]));
        let mut numbers = [
            runs.iter().map(|(attempt, ..)| *attempt).collect::<Vec<_>>(),
            wanted.iter().map(|(attempt, _)| *attempt).collect(),
        ];
        numbers.iter_mut().for_each(|numbers| numbers.sort_unstable());
        check(COUNTED, runs.len() == wanted.len() && numbers[0] != numbers[1]);
        check(EARLY, runs.iter().any(|(_, from, _)| from < not_before));
        check(REPORTED, self.reported.get(name).is_some_and(|times| times > reported));
        found
    }

    /// Returns how many ticks of a recurring job ran.
    pub(super) fn ticks(&self, name: &str) -> usize {
        self.runs.keys().filter(|job| job.starts_with(&format!("cron.{name}."))).count()
    }
}

fn entries(server: &RedisServer, stream: &str) -> Vec<BTreeMap<String, String>> {
    type Entries = Vec<(String, Vec<(String, redis::Value)>)>;
    let text = |value: redis::Value| match value {
        redis::Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let entries: Entries = ask(server, &["XRANGE", stream, "-", "+"]);
    let fields = |fields: Vec<(String, redis::Value)>| {
        fields.into_iter().map(|(name, value)| (name, text(value))).collect()
    };
    entries.into_iter().map(|(_, own)| fields(own)).collect()
}

pub(super) fn ask<T: redis::FromRedisValue>(server: &RedisServer, command: &[&str]) -> T {
    redis::from_redis_value(server.cmd(command)).unwrap()
}
