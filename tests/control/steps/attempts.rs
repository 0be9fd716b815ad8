//! Independent steps, their order, their attempts and their errors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value as Reply;
use serde_json::{Value, json};
use streamfleet::job::{Backoff, DeadReason, JobId, State, StepLimits, StepRecord, StepState};
use streamfleet::{Fleet, Handler, JobContext, JobError, RawPayload, Steps};
use tokio::sync::Barrier;

use harness::fleet::{Acts, Running, config, quick, submit, until_state};
use harness::proxy::{Direction, Mode, Proxy};
use harness::scene::{Gate, SOON, STREAM};
use harness::scripts::{sha, source};
use harness::steps::{Scene, Walks, plan};
use harness::wait::until_async;

/// The ledger of the job `j`.
const LEDGER: &str = "sf:{default}:steps:j";

#[tokio::test(flavor = "multi_thread")]
async fn one_failing_step_does_not_stop_the_others() {
    let scene = Scene::new().await;
    let handler = Walks::but("render");
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "exhausted");
    let mut states = Vec::new();
    for step in ["charge", "render", "mail"] {
        states.push(scene.state_of(&job, step).await);
    }
    assert_eq!(states, [StepState::Done, StepState::Exhausted, StepState::Done]);
    fleet.stop().await;
}

/// A handler that ends once enough of them run at the same time.
#[derive(Clone)]
struct Meets(Arc<Barrier>);

impl Handler for Meets {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        self.0.wait().await;
        Ok(())
    }
}

/// They were delivered by one read, and Redis is asked before each begins.
#[tokio::test(flavor = "multi_thread")]
async fn as_many_jobs_run_at_once_as_there_are_slots() {
    const SLOTS: usize = 24;
    let scene = Scene::new().await;
    let mut jobs = Vec::new();
    for _ in 0..SLOTS {
        jobs.push(scene.submit().await);
    }
    let meets = Meets(Arc::new(Barrier::new(SLOTS)));
    let mut config = config(&scene.server.url());
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = SLOTS;
    }
    let fleet = Scene::fleet_with(config, quick(1), Steps::builder().auto("meet", meets).build().unwrap());
    for job in &jobs {
        until_state(&scene.queue, job, State::Done).await;
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_attempt_heeds_a_ledger_that_exists_all_the_same() {
    let scene = Scene::new().await;
    let handler = Walks::well();
    let job = scene.submit().await;
    let ledger = format!("sf:{{default}}:steps:{job}");
    scene.server.cmd(&["HSET", &ledger, "charge:state", "done", "charge:attempts", "1", "v", "1"]);
    let fleet = scene.usual(&handler);
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [0, 1, 1]);
    fleet.stop().await;
}

/// While its first entry shows that it runs, it needs no record. Later entries have other ids than the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_between_its_steps_has_a_record() {
    let scene = Scene::new().await;
    let handler = Walks::new(|step, _| match step {
        "render" => Err(JobError::snooze(Duration::from_secs(600))),
        _ => Ok(Value::Null),
    });
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    let status = until_state(&scene.queue, &job, State::Scheduled).await;
    assert_eq!(status.job_type.as_str(), "gift");
    let told = ["HMGET", &format!("sf:{{default}}:job:{job}"), "state", "life"];
    let told: Vec<String> = redis::from_redis_value(scene.server.cmd(&told)).unwrap();
    assert_eq!(told, ["scheduled".to_owned(), job.to_string()]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_runs_only_what_has_not_succeeded() {
    let scene = Scene::new().await;
    let handler = Walks::new(|step, context| match (step, context.attempt()) {
        ("render", 1 | 2) => Err(JobError::retry("not yet")),
        _ => Ok(Value::Null),
    });
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 3, 1]);
    assert_eq!(scene.step(&job, "render").await.attempts, 3);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_done_only_when_all_its_steps_are() {
    let scene = Scene::new().await;
    let handler = Walks::well();
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    let status = until_state(&scene.queue, &job, State::Done).await;
    let seen = scene.seen(&job).await;
    assert!(seen.ledger.steps().all(|(_, record)| record.state == StepState::Done));
    assert_eq!(seen.ledger.version, 4, "each end but the last also starts the next step");
    let result: Value = serde_json::from_str(&status.result.unwrap()).unwrap();
    assert_eq!(result, json!({"charge": "charge", "mail": "mail", "render": "render"}));
    let ends =
        |key: String| -> i64 { redis::from_redis_value(scene.server.cmd(&["PEXPIRETIME", &key])).unwrap() };
    let (ledger, record) =
        (ends(format!("sf:{{default}}:steps:{job}")), ends(format!("sf:{{default}}:job:{job}")));
    assert!(ledger > 0 && (ledger - record).abs() < 100, "{ledger} {record}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_starts_after_its_dependencies_and_can_read_their_results() {
    let scene = Scene::new().await;
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&order);
    let handler = Walks::new(move |step, context| {
        noted.lock().unwrap().push(step.to_owned());
        let receipt: Option<String> = context.step_result("b-charge")?;
        Ok(json!(receipt.map_or_else(|| format!("receipt of {step}"), |receipt| format!("mailed {receipt}"))))
    });
    let steps = Steps::builder().auto("a-mail", handler.clone()).once("b-charge", handler.clone());
    let fleet = scene.fleet(quick(1), steps.after("a-mail", ["b-charge"]).build().unwrap());
    let job = scene.submit().await;
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(*order.lock().unwrap(), ["b-charge", "a-mail"]);
    let mailed = scene.step(&job, "a-mail").await.result.unwrap();
    assert_eq!(&mailed[..], br#""mailed receipt of b-charge""#);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_has_its_own_limits_and_the_jobs_limits_do_not_bury_it() {
    let scene = Scene::new().await;
    let handler = Walks::new(|_, _| Err(JobError::retry("no")));
    let soon = Backoff::Fixed(Duration::from_millis(5));
    let limits = |count: u32| StepLimits::default().max_attempts(count).backoff(soon.clone());
    let steps = Steps::builder().auto("two", handler.clone()).auto("six", handler.clone());
    let steps = steps.limits("two", limits(2)).limits("six", limits(6)).build().unwrap();
    let fleet = scene.fleet(quick(1), steps);
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, DeadReason::Exhausted.as_str());
    assert_eq!(["two", "six"].map(|step| handler.runs(step)), [2, 6]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_errors_of_a_step_are_bounded_and_truncation_is_marked() {
    let scene = Scene::new().await;
    let handler = Walks::new(|_, context| {
        Err(JobError::retry(format!("attempt {} {}", context.attempt(), "é".repeat(4_000))))
    });
    let fleet = scene.fleet(quick(8), Steps::builder().auto("render", handler.clone()).build().unwrap());
    let job = scene.submit().await;
    scene.reason(&job).await;
    let errors = scene.step(&job, "render").await.errors;
    let beginnings: Vec<&str> = errors.iter().map(|error| &error.text[..9]).collect();
    assert_eq!(beginnings, ["attempt 4", "attempt 5", "attempt 6", "attempt 7", "attempt 8"]);
    assert!(errors.iter().all(|error| error.text.len() <= StepRecord::MAX_ERROR_BYTES));
    assert!(errors.iter().all(|error| error.text.ends_with('…') && error.kind == "error"));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fatal_error_exhausts_its_step_and_no_other() {
    let scene = Scene::new().await;
    let handler = Walks::new(|step, _| match step {
        "render" => Err(JobError::fatal("no such template")),
        _ => Ok(Value::Null),
    });
    let fleet = scene.fleet(quick(3), plan(&handler));
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "exhausted");
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 1, 1]);
    fleet.stop().await;
}

/// Starts a fleet with one slot whose type `gift` has these steps, and whose type `test` has this handler.
fn single(url: &str, steps: Steps, others: &Gate) -> Running {
    let mut single = config(url);
    for queue in single.worker.queues.values_mut() {
        queue.concurrency = 1;
    }
    let fleet = Fleet::builder(single).steps("gift", quick(1), steps).unwrap();
    Running::of(fleet.handler_with("test", quick(1), others.clone()).unwrap().build())
}

/// Adds the job `j` of the type `gift`. Returns it and its entry.
fn add(scene: &Scene) -> (JobId, String) {
    let add = ["XADD", STREAM, "*", "type", "gift", "id", "j", "payload", "wait"];
    ("j".parse().unwrap(), redis::from_redis_value(scene.server.cmd(&add)).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_end_redis_refuses_keeps_no_slot_once_its_lease_is_lost() {
    let scene = Scene::new().await;
    let (handler, others) = (Gate::closed(), Gate::closed());
    let steps = Steps::builder().auto("render", handler.clone()).build().unwrap();
    let fleet = single(&scene.server.url(), steps, &others);
    let (job, entry) = add(&scene);
    handler.until_started(&job).await;
    scene.server.cmd(&["DEL", LEDGER]);
    scene.server.cmd(&["SET", LEDGER, "a string"]);
    handler.open();
    handler.until_ended(&job).await;
    scene.server.cmd(&["XCLAIM", STREAM, "fleet", "ghost", "0", &entry, "JUSTID"]);
    let plain = submit(&scene.queue, "null").await;
    others.until_ended(&plain).await;
    fleet.stop().await;
}

/// Redis lets a worker read the ledger, and refuses to count a run of the step.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_ledger_cannot_be_written_keeps_no_slot() {
    let scene = Scene::new().await;
    let (handler, others) = (Walks::well(), Gate::closed());
    let started = ["HSET", LEDGER, "charge:state", "started", "charge:run", "1", "charge:attempts", "x"];
    scene.server.cmd(&started);
    let (job, _) = add(&scene);
    let fleet = single(&scene.server.url(), plan(&handler), &others);
    let plain = submit(&scene.queue, "null").await;
    others.until_ended(&plain).await;
    // It continues once somebody has repaired the ledger.
    scene.server.cmd(&["HSET", LEDGER, "charge:attempts", "0"]);
    assert_eq!(scene.reason(&job).await, "needs_decision");
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [0, 1, 0]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_continues_though_its_ledger_does_not_say_how_often_it_changed() {
    let scene = Scene::new().await;
    let handler = Walks::well();
    scene.server.cmd(&["HSET", LEDGER, "v", "x", "lives", "x"]);
    let (job, _) = add(&scene);
    let fleet = scene.usual(&handler);
    until_state(&scene.queue, &job, State::Done).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_next_step_redis_refuses_to_begin_keeps_no_slot() {
    let scene = Scene::new().await;
    let (handler, others) = (Walks::but("charge"), Gate::closed());
    let proxy = Proxy::start(scene.server.addr());
    let needle = sha(&scene.server, source("step_begin")).into_bytes();
    proxy.set(Mode::Hold { needle, nth: 2, way: Direction::Requests });
    let fleet = single(&scene.server.url_through(proxy.addr()), plan(&handler), &others);
    let (job, _) = add(&scene);
    until_async("the next step to begin", SOON, async || proxy.met() == 2).await;
    let ledger = scene.server.cmd(&["DUMP", LEDGER]);
    let Reply::BulkString(ledger) = ledger else { panic!("no ledger: {ledger:?}") };
    scene.server.cmd(&["SET", LEDGER, "a string"]);
    proxy.set(Mode::Pass);
    let plain = submit(&scene.queue, "null").await;
    others.until_ended(&plain).await;
    scene.server.cmd(&[&b"RESTORE"[..], LEDGER.as_bytes(), b"0", &ledger, b"REPLACE"]);
    assert_eq!(scene.reason(&job).await, "needs_decision");
    assert_eq!(["charge", "render"].map(|step| handler.runs(step)), [1, 1]);
    fleet.stop().await;
}

/// Neither an end that nobody knows nor a known one keeps the slot for as long as its step may take.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_end_redis_refuses_soon_frees_its_slot() {
    tokio::join!(soon_frees_its_slot(false), soon_frees_its_slot(true));
}

async fn soon_frees_its_slot(is_known: bool) {
    let scene = Scene::new().await;
    let (server, others) = (Mutex::new(scene.server.client()), Gate::closed());
    let handler = Acts::new(move |_, _| {
        let mut server = server.lock().unwrap();
        redis::pipe().del(LEDGER).set(LEDGER, "a string").exec(&mut server).unwrap();
        if is_known { Ok(Value::Null) } else { Err(JobError::unknown("no answer")) }
    });
    let steps = Steps::builder().once("charge", handler).build().unwrap();
    let fleet = single(&scene.server.url(), steps, &others);
    add(&scene);
    let is_broken = async || scene.server.cmd(&["TYPE", LEDGER]) == Reply::SimpleString("string".to_owned());
    until_async("the ledger to be broken", SOON, is_broken).await;
    let plain = submit(&scene.queue, "null").await;
    others.until_ended(&plain).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smaller_limit_of_job_and_step_bounds_auto_steps() {
    let scene = Scene::new().await;
    let handler = Walks::but("render");
    let own = StepLimits::default().max_attempts(2);
    let steps = Steps::builder().auto("render", handler.clone()).limits("render", own).build().unwrap();
    let bounded = scene.fleet(quick(3), steps);
    let submit = |id: &str, most: &str| {
        scene.server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", id, "max_attempts", most]);
    };
    for (id, most, want) in [("smaller", "1", 1), ("greater", "9", 2)] {
        let before = handler.runs("render");
        submit(id, most);
        assert_eq!(scene.reason(&id.parse().unwrap()).await, "exhausted");
        assert_eq!(handler.runs("render") - before, want, "{id}");
    }
    bounded.stop().await;
    let steps = Steps::builder().auto("render", handler.clone()).build().unwrap();
    let unbounded = scene.fleet(quick(3), steps);
    let before = handler.runs("render");
    submit("instead-of-its-types", "5");
    assert_eq!(scene.reason(&"instead-of-its-types".parse().unwrap()).await, "exhausted");
    assert_eq!(handler.runs("render") - before, 5);
    until_state(&scene.queue, &"smaller".parse().unwrap(), State::Dead).await;
    unbounded.stop().await;
}
