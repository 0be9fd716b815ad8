//! Steps of the kind `once`: they never run twice automatically, whatever happens.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Encoding, State, StepLimits, StepState};
use streamfleet::{Fleet, JobError, Producer, Steps, Submission};

use super::halfway::Halfway;
use harness::fleet::{Acts, Running, config, quick, submit, until_empty, until_state};
use harness::scene::{Gate, LONG, job};
use harness::steps::{Scene, Walks, plan};
use harness::wait::{until, until_async};

const SOON: Duration = Duration::from_secs(20);

/// Returns a worker that has taken over from one that was killed in the middle of this step.
async fn killed_in(step: &str) -> Halfway {
    let mut killed = Halfway::of(step, "").await;
    killed.worker.kill9();
    killed.let_end();
    killed.worker = killed.another();
    killed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_once_step_whose_worker_was_killed_after_it_began_never_reruns() {
    let killed = killed_in("charge").await;
    let (scene, job) = (&killed.scene, &killed.job);
    assert_eq!(scene.reason(job).await, "needs_decision");
    let charge = scene.step(job, "charge").await;
    assert_eq!((charge.state, charge.attempts), (StepState::Unknown, 1));
    assert!(charge.errors[0].text.starts_with("no word from "), "{:?}", charge.errors);
    assert_eq!(["audit", "charge", "mail", "render"].map(|step| killed.starts(step)), [1, 1, 0, 1]);
    // Not even when its dead letter is replayed.
    let letter = scene.queue.status(job).await.unwrap().unwrap().dead.unwrap();
    assert!(scene.queue.dead_letters().replay(letter, job).await.unwrap().is_done());
    until("the job to be buried again", SOON, || {
        let letters = scene.server.cmd(&["XLEN", "sf:{default}:dead"]);
        letters == redis::Value::Int(1)
    });
    assert_eq!(killed.starts("charge"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_once_step_whose_worker_was_killed_before_it_began_runs_once() {
    let killed = killed_in("audit").await;
    until_state(&killed.scene.queue, &killed.job, State::Done).await;
    assert_eq!(["audit", "charge", "mail", "render"].map(|step| killed.starts(step)), [2, 1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_once_step_is_recorded_as_failed_and_never_retried() {
    let scene = Scene::new().await;
    let handler = Walks::new(|step, context| match (step, context.attempt()) {
        ("charge", _) => Err(JobError::retry("card declined")),
        ("render", 1 | 2) => Err(JobError::retry("not yet")),
        _ => Ok(Value::Null),
    });
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    // It is buried only when everything that can run automatically has finished.
    assert_eq!(scene.reason(&job).await, "needs_decision");
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 3, 0]);
    assert_eq!(scene.state_of(&job, "charge").await, StepState::Failed);
    let error = scene.queue.status(&job).await.unwrap().unwrap().error.unwrap();
    assert_eq!(error, "the step charge is failed: card declined");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_needing_a_decision_is_buried_after_its_auto_steps_end() {
    let scene = Scene::new().await;
    let handler = Walks::new(|_, _| Err(JobError::retry("no")));
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "needs_decision");
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 3, 0]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_once_step_that_panicked_or_timed_out_is_unknown() {
    let scene = Scene::new().await;
    let (panics, hangs) = (Walks::new(|_, _| panic!("as told")), Walks::hanging());
    let short = StepLimits::default().timeout(Duration::from_millis(50));
    let steps = Steps::builder().once("panics", panics.clone()).once("hangs", hangs.clone());
    let fleet = scene.fleet(quick(3), steps.limits("hangs", short).build().unwrap());
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "needs_decision");
    for (step, kind, handler) in [("panics", "panic", panics), ("hangs", "timeout", hangs)] {
        let record = scene.step(&job, step).await;
        assert_eq!((record.state, &*record.errors[0].kind), (StepState::Unknown, kind), "{step}");
        assert_eq!(handler.runs(step), 1);
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_once_step_that_reports_it_did_nothing_runs_later() {
    let scene = Scene::new().await;
    let called = std::sync::atomic::AtomicBool::new(false);
    let handler = Walks::new(move |step, _| {
        let first = step == "charge" && !called.swap(true, std::sync::atomic::Ordering::SeqCst);
        if first { Err(JobError::snooze(Duration::from_millis(20))) } else { Ok(Value::Null) }
    });
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!((handler.runs("charge"), scene.step(&job, "charge").await.attempts), (2, 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_makes_a_once_step_unknown_and_an_auto_step_run_again() {
    let scene = Scene::new().await;
    for step in ["charge", "render"] {
        let handler = Walks::hanging();
        let mut stopping = config(&scene.server.url());
        stopping.worker.drain_timeout = Duration::ZERO;
        let kind = if step == "charge" {
            Steps::builder().once(step, handler.clone())
        } else {
            Steps::builder().auto(step, handler.clone())
        };
        let fleet = Scene::fleet_with(stopping, quick(3), kind.build().unwrap());
        let job = scene.submit().await;
        // The ledger says so before the worker knows that it may call the handler.
        until_async("the step to run", SOON, async || handler.runs(step) == 1).await;
        fleet.stop().await;
        let record = scene.step(&job, step).await;
        let want = if step == "charge" { (StepState::Unknown, 1) } else { (StepState::Pending, 0) };
        assert_eq!((record.state, record.attempts), want);
        let quiet = Walks::well();
        let steps = if step == "charge" {
            Steps::builder().once(step, quiet.clone())
        } else {
            Steps::builder().auto(step, quiet.clone())
        };
        let fleet = scene.fleet(quick(3), steps.build().unwrap());
        if step == "charge" {
            assert_eq!(scene.reason(&job).await, "needs_decision");
            assert_eq!(quiet.runs("charge"), 0);
        } else {
            until_state(&scene.queue, &job, State::Done).await;
            assert_eq!(quiet.runs("render"), 1);
        }
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_list_of_steps_is_refused_before_the_fleet_starts() {
    let handler = Walks::well();
    let refusal = |steps: streamfleet::StepsBuilder| steps.build().map(drop).unwrap_err().to_string();
    assert_eq!(refusal(Steps::builder()), "a job with steps needs at least one step");
    assert_eq!(
        refusal(Steps::builder().auto("a", handler.clone()).once("a", handler.clone())),
        "the step a appears twice"
    );
    let circle = Steps::builder().auto("a", handler.clone()).auto("b", handler.clone());
    let circle = circle.after("a", ["b"]).after("b", ["a"]);
    assert_eq!(refusal(circle), "these steps wait for each other: a, b");
    assert!(refusal(Steps::builder().auto("A", handler.clone())).contains("a step's name must match"));
    assert!(
        refusal(Steps::builder().auto("a", handler).after("a", ["b"])).contains("b, which is not a step")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_job_of_the_same_fleet_has_no_ledger_and_no_record() {
    let scene = Scene::new().await;
    let handler = Walks::well();
    let fleet = Fleet::builder(config(&scene.server.url()));
    let fleet = fleet.steps("gift", quick(1), plan(&handler)).unwrap();
    let plain = Acts::well();
    let fleet = fleet.handler_with("test", quick(1), plain.clone()).unwrap().build();
    let running = Running::of(fleet);
    let job = submit(&scene.queue, "{}").await;
    until_async("the job to run", SOON, async || plain.runs(&job) == 1).await;
    until_empty(&scene.queue).await;
    assert_eq!(scene.server.cmd(&["KEYS", "sf:{default}:steps:*"]), redis::Value::Array(vec![]));
    assert_eq!(scene.server.cmd(&["KEYS", "sf:{default}:job:*"]), redis::Value::Array(vec![]));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_cancelled_during_a_step_starts_no_other_step() {
    let scene = Scene::new().await;
    let handler = Walks::hanging();
    let fleet = scene.fleet(quick(3), plan(&handler));
    let job = scene.submit().await;
    until_async("the step to run", SOON, async || handler.runs("charge") == 1).await;
    scene.queue.cancel(&job, "ann", Duration::from_secs(60)).await.unwrap();
    until_state(&scene.queue, &job, State::Cancelled).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 0, 0]);
    assert_eq!(scene.state_of(&job, "charge").await, StepState::Unknown);
    let ttl: i64 =
        redis::from_redis_value(scene.server.cmd(&["PTTL", &format!("sf:{{default}}:steps:{job}")])).unwrap();
    assert!(ttl > 0, "{ttl}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_once_step_keeps_its_lease_while_many_large_jobs_are_promoted() {
    const LARGE: usize = 8 * 1024 * 1024 - 200;
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let large = vec![b'x'; LARGE];
    for _ in 0..60 {
        producer.submit(job(large.clone()).delay(LONG)).await.unwrap();
    }
    let gate = Gate::closed();
    let mut config = config(&scene.server.url());
    // One script that moved all of them would take longer.
    config.worker.lease = Duration::from_millis(1_500);
    for queue in config.worker.queues.values_mut() {
        // The step takes the only slot, so nothing reads what is promoted.
        queue.concurrency = 1;
    }
    let steps = Steps::builder().once("charge", gate.clone()).build().unwrap();
    let fleet = Scene::fleet_with(config, quick(3), steps);
    let gift = Submission::new("gift").unwrap().payload("wait", Encoding::Raw).unwrap();
    let gift = producer.submit(gift).await.unwrap();
    gate.until_started(&gift).await;
    let all_due = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
        redis.call('ZADD', KEYS[1], 0, id) end return redis.call('LPUSH', KEYS[2], 1)";
    scene.server.cmd(&["EVAL", all_due, "2", "sf:{default}:delayed", "sf:{default}:wake"]);
    until_async("all to be promoted", SOON, async || {
        let snapshot = scene.queue.snapshot().await;
        snapshot.is_ok_and(|snapshot| snapshot.delayed == 0)
    })
    .await;
    gate.open();
    until_state(&scene.queue, &gift, State::Done).await;
    assert_eq!((gate.of(&gift).starts, scene.state_of(&gift, "charge").await), (1, StepState::Done));
    fleet.stop().await;
}
