//! The scripts that begin and end attempts, called about several jobs at once: each job has an answer of its own, and none
//! keeps another from being handled.

use redis::Value;

use super::scripts::followed;
use harness::scripts::Scripts;
use harness::scripts::attempts::{
    Attempt, BEGIN_KEYS, BURY_KEYS, CANCELLED_KEYS, COMPLETE_KEYS, DEFER_KEYS, RELEASE_KEYS, Values,
};
use harness::scripts::keys::{DEAD, DELAYED, FIELDS, RECORD, STREAM};
use harness::scripts::source;

struct Script {
    name: &'static str,
    /// Its keys in a call about one job. Those of the job itself begin with its record.
    keys: &'static [&'static str],
    values: fn(&Attempt<'_>) -> Values,
    /// What it leaves in the records of its jobs.
    state: &'static str,
}

static SCRIPTS: [Script; 6] = [
    Script { name: "begin", keys: &BEGIN_KEYS, values: |job| job.begin_values(), state: "running" },
    Script { name: "complete", keys: &COMPLETE_KEYS, values: |job| job.complete_values(), state: "done" },
    DEFER,
    Script { name: "release", keys: &RELEASE_KEYS, values: |job| job.release_values(), state: "waiting" },
    Script { name: "bury", keys: &BURY_KEYS, values: |job| job.bury_values(), state: "dead" },
    Script {
        name: "cancelled",
        keys: &CANCELLED_KEYS,
        values: |job| job.cancelled_values(),
        state: "cancelled",
    },
];

const DEFER: Script =
    Script { name: "defer", keys: &DEFER_KEYS, values: |job| job.defer_values("60000"), state: "retrying" };

/// A job that is pending for `me`.
#[derive(Clone)]
struct Job {
    id: &'static str,
    record: String,
    /// It is the token of its generation too.
    entry: String,
}

/// Returns jobs with these ids, and the server that has them.
fn held(ids: &[&'static str]) -> (Scripts, Vec<Job>) {
    let scripts = Scripts::start();
    let hold = |id| {
        let (record, entry) = (format!("sf:{{q}}:job:{id}"), scripts.delivered());
        scripts.server.cmd(&["HSET", &record, "life", &entry, "state", "scheduled"]);
        Job { id, record, entry }
    };
    let jobs = ids.iter().copied().map(hold).collect();
    (scripts, jobs)
}

impl Job {
    fn state(&self, scripts: &Scripts) -> String {
        redis::from_redis_value(scripts.server.cmd(&["HGET", &self.record, "state"])).unwrap()
    }

    fn is_pending(&self, scripts: &Scripts) -> bool {
        let pending = ["XPENDING", STREAM, "fleet", &self.entry, &self.entry, "1"];
        scripts.server.cmd(&pending) != Value::Array(Vec::new())
    }
}

impl Script {
    /// Calls it about these jobs. Returns their answers.
    fn call(&self, scripts: &Scripts, jobs: &[Job]) -> Vec<Value> {
        let shared = self.keys.iter().position(|key| *key == RECORD).unwrap();
        let (shared, own) = self.keys.split_at(shared);
        let (mut keys, mut values): (Vec<&str>, Vec<Values>) = (shared.to_vec(), Vec::new());
        for job in jobs {
            keys.extend(own.iter().map(|key| if *key == RECORD { job.record.as_str() } else { *key }));
            let attempt = Attempt { generation: &job.entry, id: job.id, ..Attempt::first(&job.entry) };
            values.push((self.values)(&attempt));
        }
        let values: Vec<&[Vec<u8>]> = values.iter().map(Vec::as_slice).collect();
        scripts.call_each(source(self.name), &keys, &values)
    }

    fn ends_attempts(&self) -> bool {
        self.name != "begin"
    }

    /// Fails unless it has handled these jobs.
    fn check<'a>(&self, scripts: &Scripts, jobs: impl IntoIterator<Item = &'a Job>) {
        for job in jobs {
            let found = (job.state(scripts), job.is_pending(scripts));
            assert_eq!(found, (self.state.to_owned(), !self.ends_attempts()), "{} {}", self.name, job.id);
        }
    }
}

#[test]
fn a_call_about_several_jobs_handles_each() {
    for script in &SCRIPTS {
        let (scripts, jobs) = held(&["a", "b", "c"]);
        assert_eq!(script.call(&scripts, &jobs), [1; 3].map(Value::Int), "{}", script.name);
        script.check(&scripts, &jobs);
    }
}

/// No record exists when the call begins. The second generation writes its own over that of the first.
#[test]
fn two_generations_of_one_id_that_succeed_in_one_call_leave_the_record_of_the_second() {
    let (scripts, jobs) = held(&["a", "a"]);
    scripts.server.cmd(&["DEL", &jobs[0].record]);
    let values = |job: &Job, result: &str| {
        let attempt = Attempt { generation: &job.entry, id: job.id, ..Attempt::first(&job.entry) };
        let mut values = attempt.complete_values();
        values[4] = result.as_bytes().to_vec();
        values
    };
    let keys = COMPLETE_KEYS.map(|key| if key == RECORD { jobs[0].record.as_str() } else { key });
    let keys = [&keys[..], &keys[4..]].concat();
    let [first, second] = [values(&jobs[0], "7"), values(&jobs[1], "")];
    let answers = scripts.call_each(source("complete"), &keys, &[&first[..], &second[..]]);
    assert_eq!(answers, [1, 1].map(Value::Int));
    let told = scripts.server.cmd(&["HMGET", &jobs[0].record, "state", "life", "result", "noted"]);
    let told: Vec<Option<String>> = redis::from_redis_value(told).unwrap();
    let told: Vec<_> = told.iter().map(Option::as_deref).collect();
    assert_eq!(told, [Some("done"), Some(jobs[1].entry.as_str()), None, Some("2")]);
    assert!(jobs.iter().all(|job| !job.is_pending(&scripts)));
}

/// No record exists when the call begins. While two generations of one id are alive, the first one owns it.
#[test]
fn two_generations_of_one_id_that_fail_in_one_call_leave_the_record_of_the_first() {
    let (scripts, jobs) = held(&["a", "a"]);
    scripts.server.cmd(&["DEL", &jobs[0].record]);
    assert_eq!(DEFER.call(&scripts, &jobs), [1, 1].map(Value::Int));
    let generation: String =
        redis::from_redis_value(scripts.server.cmd(&["HGET", &jobs[0].record, "life"])).unwrap();
    assert_eq!(generation, jobs[0].entry);
    assert_eq!(scripts.int(&["HLEN", FIELDS]), 2, "both are retried");
}

#[test]
fn a_job_that_cannot_be_handled_keeps_no_other_from_it() {
    for script in &SCRIPTS {
        let (scripts, jobs) = held(&["a", "broken", "b", "settled", "c"]);
        let [a, broken, b, settled, c] = &jobs[..] else { panic!("{}", jobs.len()) };
        scripts.server.cmd(&["SET", &broken.record, "x"]);
        scripts.server.cmd(&["XACK", STREAM, "fleet", &settled.entry]);
        let mut answers = script.call(&scripts, &jobs);
        let why: String = redis::from_redis_value(answers.remove(1)).unwrap();
        assert!(why.contains("WRONGTYPE"), "{}: {why}", script.name);
        assert_eq!(answers, [1, 1, 0, 1].map(Value::Int), "{}", script.name);
        assert!(broken.is_pending(&scripts), "{}", script.name);
        assert_eq!(settled.state(&scripts), "scheduled", "{}", script.name);
        script.check(&scripts, [a, b, c]);
    }
}

#[test]
fn a_call_about_several_jobs_that_is_sent_twice_gets_the_same_answers() {
    for script in &SCRIPTS {
        let (scripts, jobs) = held(&["a", "b", "c"]);
        let first = script.call(&scripts, &jobs);
        let between = scripts.digest();
        assert_eq!(script.call(&scripts, &jobs), first, "{}", script.name);
        assert_eq!(first, [1; 3].map(Value::Int), "{}", script.name);
        // An attempt that begins again does so at another time.
        if script.ends_attempts() {
            assert_eq!(scripts.digest(), between, "{}", script.name);
        }
        script.check(&scripts, &jobs);
    }
}

#[test]
fn an_entry_named_twice_in_one_call_is_handled_once() {
    for script in &SCRIPTS {
        let (scripts, mut jobs) = held(&["a", "b"]);
        jobs.push(jobs[0].clone());
        assert_eq!(script.call(&scripts, &jobs), [1, 1, 0].map(Value::Int), "{}", script.name);
        let places = [["XLEN", STREAM], ["ZCARD", DELAYED], ["XLEN", DEAD]];
        let left: i64 = places.iter().map(|command| scripts.int(command)).sum();
        let are_over = matches!(script.state, "done" | "cancelled");
        assert_eq!(left, if are_over { 0 } else { 2 }, "{}", script.name);
    }
}

#[test]
fn a_full_server_handles_several_jobs() {
    for script in &SCRIPTS {
        let (scripts, jobs) = held(&["a", "b", "c"]);
        scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(script.call(&scripts, &jobs), [1; 3].map(Value::Int), "{}", script.name);
        script.check(&scripts, &jobs);
    }
}

#[test]
fn two_generations_of_one_id_are_parked_by_one_call() {
    let (scripts, jobs) = held(&["j", "j"]);
    assert_eq!(DEFER.call(&scripts, &jobs), [1; 2].map(Value::Int));
    let parked: Vec<String> =
        redis::from_redis_value(scripts.server.cmd(&["ZRANGE", DELAYED, "0", "-1"])).unwrap();
    assert_eq!(parked, ["j".to_owned(), format!("j {}", jobs[1].entry)]);
}

#[test]
fn copies_of_one_generation_are_parked_apart_by_one_call() {
    let (scripts, jobs) = held(&["j", "j", "j"]);
    let values: Vec<Values> =
        jobs.iter().map(|job| Attempt::first(&job.entry).defer_values("60000")).collect();
    let values: Vec<&[Vec<u8>]> = values.iter().map(Vec::as_slice).collect();
    let (shared, own) = DEFER_KEYS.split_at(DEFER_KEYS.iter().position(|key| *key == RECORD).unwrap());
    let answers = scripts.call_each(source("defer"), &[shared, own, own, own].concat(), &values);
    assert_eq!(answers, [1; 3].map(Value::Int));
    let count: usize = redis::from_redis_value(scripts.server.cmd(&["HLEN", FIELDS])).unwrap();
    assert_eq!(count, 3);
}

#[test]
fn a_campaign_counts_an_end_only_once_nothing_can_fail() {
    const CAMPAIGN: &str = "sf:{q}:campaign:c";
    let packed = |texts: &[&str]| {
        let mut packed = vec![0x90 | u8::try_from(texts.len()).unwrap()];
        for text in texts {
            packed.push(0xa0 | u8::try_from(text.len()).unwrap());
            packed.extend(text.bytes());
        }
        packed
    };
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", CAMPAIGN, "state", "running", "l:5-0", "1"]);
    let entry = scripts.delivered();
    let mut values = Attempt::first(&entry).bury_values();
    // One text is no entry, so the job that follows cannot be appended.
    values[13] = packed(&["dead c 5-0 died", "5-0", "each", "1", "x"]);
    let answers = scripts.call_each(source("bury"), &BURY_KEYS, &[&values]);
    assert!(format!("{answers:?}").contains("do not form an entry"), "{answers:?}");
    assert_eq!(scripts.int(&["HEXISTS", CAMPAIGN, "died"]), 0);
    values[13] = packed(&["dead c 5-0 died", "5-0"]);
    for _ in 0..2 {
        assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &values).0, 1);
    }
    assert_eq!(scripts.int(&["HGET", CAMPAIGN, "died"]), 1);
    // Another generation that names the campaign, which has not replayed it.
    let entry = scripts.delivered();
    let mut values = Attempt::first(&entry).bury_values();
    values[13] = packed(&["dead c 5-0 died", "5-0"]);
    assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &values).0, 1);
    assert_eq!(scripts.int(&["HGET", CAMPAIGN, "died"]), 1);
}

#[test]
fn a_job_ends_once_though_its_own_lane_has_the_wrong_type() {
    let scripts = Scripts::start();
    let low = "sf:{q}:jobs:low";
    scripts.server.cmd(&["DEL", low]);
    scripts.server.cmd(&["SET", low, "x"]);
    let entry = scripts.delivered();
    let mut values = Attempt::first(&entry).bury_values();
    // A gate let it pass into the lane that it is in.
    values[13] = followed("dead low", "each");
    for _ in 0..2 {
        assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &values).0, 1);
    }
    let left = [DEAD, STREAM].map(|stream| scripts.int(&["XLEN", stream]));
    assert_eq!(left, [1, 1], "its letter, and the job that follows it where it was");
}
