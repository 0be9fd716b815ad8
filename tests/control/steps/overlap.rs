//! Two jobs with one id that are alive at the same time: they share one ledger, and run no step at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redis::Value;
use streamfleet::job::Backoff;
use streamfleet::{Handler, JobContext, JobError, RawPayload, Steps};

use harness::fleet::{Running, quick, until_empty};
use harness::scene::{SOON, STREAM};
use harness::scripts::Scripts;
use harness::scripts::source;
use harness::steps::Scene;
use harness::wait::until_async;

const KEYS: [&str; 2] = ["sf:{q}:jobs", "sf:{q}:steps:j"];

/// How long each run lasts.
const RUN: Duration = Duration::from_millis(600);

/// A handler whose runs all last as long. It counts them.
#[derive(Clone)]
struct Lasts {
    runs: Arc<AtomicU32>,
    fails: bool,
}

impl Handler for Lasts {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(RUN).await;
        if self.fails { Err(JobError::retry("no")) } else { Ok(()) }
    }
}

/// Runs two jobs with the same id. The second comes when the first run of the first one is half done.
async fn both_end(scene: &Scene, fleet: Running, handler: &Lasts) {
    let head = ["XADD", STREAM, "*", "type", "gift", "id", "j"];
    scene.server.cmd(&head);
    until_async("the first job to run", SOON, async || handler.runs.load(Ordering::Relaxed) > 0).await;
    let started = Instant::now();
    until_async("half of its run to pass", SOON, async || started.elapsed() >= RUN / 2).await;
    scene.server.cmd(&head);
    until_empty(&scene.queue).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_runs_once_for_two_jobs_of_one_id() {
    for once in [false, true] {
        let scene = Scene::new().await;
        let handler = Lasts { runs: Arc::default(), fails: false };
        let steps = Steps::builder();
        let steps =
            if once { steps.once("step", handler.clone()) } else { steps.auto("step", handler.clone()) };
        let fleet = scene.fleet(quick(3), steps.build().unwrap());
        both_end(&scene, fleet, &handler).await;
        assert_eq!(handler.runs.load(Ordering::Relaxed), 1, "once: {once}");
        assert_eq!(scene.queue.snapshot().await.unwrap().dead, 0, "once: {once}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_a_step_bounds_its_runs_for_two_jobs_of_one_id() {
    let scene = Scene::new().await;
    let handler = Lasts { runs: Arc::default(), fails: true };
    // So that the two jobs take turns.
    let policy = quick(4).backoff(Backoff::Fixed(2 * RUN));
    let fleet = scene.fleet(policy, Steps::builder().auto("step", handler.clone()).build().unwrap());
    both_end(&scene, fleet, &handler).await;
    assert_eq!(scene.queue.snapshot().await.unwrap().dead, 2);
    assert_eq!(handler.runs.load(Ordering::Relaxed), 4);
}

/// What a generation of the job asks for, in an attempt with this entry.
fn begin<'a>(entry: &'a str, generation: &'a str, run: &'a str, kind: &'a str) -> [&'a str; 7] {
    [entry, generation, run, "charge", kind, "charge once", "0"]
}

fn run_of(entry: &str) -> String {
    format!("{entry}/1")
}

fn attempts(scripts: &Scripts) -> String {
    redis::from_redis_value(scripts.server.cmd(&["HGET", KEYS[1], "charge:attempts"])).unwrap()
}

#[test]
fn a_step_that_another_generation_runs_waits_until_its_entry_is_settled() {
    for kind in ["auto", "once"] {
        let scripts = Scripts::start();
        let entries = [scripts.delivered(), scripts.delivered()];
        let [first, second] = entries.each_ref().map(|entry| run_of(entry));
        let begin_first = begin(&entries[0], &entries[0], &first, kind);
        let begin_second = begin(&entries[1], &entries[1], &second, kind);
        scripts.one_twice(source("step_begin"), &KEYS, &begin_first, [1, 1]);
        scripts.one_twice(source("step_begin"), &KEYS, &begin_second, [4, 4]);
        // The ledger stays for both.
        assert_eq!(scripts.int(&["HINCRBY", KEYS[1], "lives", "0"]), 2, "{kind}");
        scripts.server.cmd(&["XACK", KEYS[0], "fleet", &entries[0]]);
        let want = if kind == "auto" { [1, 1] } else { [3, 2] };
        scripts.one_twice(source("step_begin"), &KEYS, &begin_second, want);
    }
}

#[test]
fn a_step_that_another_generation_runs_in_another_lane_waits() {
    for suffix in [":high", ":low"] {
        let scripts = Scripts::start();
        let lane = format!("{}{suffix}", KEYS[0]);
        let first = "1-1".to_owned();
        scripts.server.cmd(&["XADD", &lane, &first, "type", "gift", "id", "j"]);
        scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", &lane, ">"]);
        let second = scripts.delivered();
        let runs = [&first, &second].map(|entry| run_of(entry));
        let keys = [lane.as_str(), KEYS[1]];
        scripts.one_twice(source("step_begin"), &keys, &begin(&first, &first, &runs[0], "auto"), [1, 1]);
        scripts.one_twice(source("step_begin"), &KEYS, &begin(&second, &second, &runs[1], "auto"), [4, 4]);
        scripts.server.cmd(&["XACK", &lane, "fleet", &first]);
        scripts.one_twice(source("step_begin"), &KEYS, &begin(&second, &second, &runs[1], "auto"), [1, 1]);
    }
}

#[test]
fn the_attempts_of_a_job_that_was_alive_at_the_same_time_count() {
    let scripts = Scripts::start();
    let entries = [scripts.delivered(), scripts.delivered(), scripts.delivered()];
    let runs = entries.each_ref().map(|entry| run_of(entry));
    let begins = |nth: usize| begin(&entries[nth], &entries[nth], &runs[nth], "auto");
    let failed = |nth: usize, attempts: &'static str| {
        let end = ["0-0", "", "charge", &runs[nth], "pending", attempts, "", "error", "no", "", "", "", ""];
        assert_eq!(scripts.call_one(source("step_end"), &KEYS, &end).0, 1);
    };
    scripts.one_twice(source("step_begin"), &KEYS, &begins(0), [1, 1]);
    failed(0, "1");
    scripts.one_twice(source("step_begin"), &KEYS, &begins(1), [1, 1]);
    assert_eq!(attempts(&scripts), "1");
    failed(1, "2");
    // The second generation has ended. The first one was alive then, and the third one was not.
    scripts.server.cmd(&["HDEL", KEYS[1], &format!("@{}", entries[1])]);
    let begin_again = begin(&entries[0], &entries[0], "again", "auto");
    for (values, want) in [(begin_again, "2"), (begins(2), "0")] {
        let before = scripts.server.cmd(&["DUMP", KEYS[1]]);
        let Value::BulkString(before) = before else { panic!("no ledger: {before:?}") };
        scripts.one_twice(source("step_begin"), &KEYS, &values, [1, 1]);
        assert_eq!(attempts(&scripts), want);
        scripts.server.cmd(&[&b"RESTORE"[..], KEYS[1].as_bytes(), b"0", &before, b"REPLACE"]);
    }
}
