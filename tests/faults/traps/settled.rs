//! Every outcome is reported once and correctly, even if Redis refuses half of a settlement, an answer is lost, or another
//! client has settled the entry.

use std::time::Duration;

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::Tracking;

use harness::fleet::{Acts, submit};
use harness::proxy::Mode;
use harness::scene::{Gate, LONG, SOON, STREAM, Scene, job};
use harness::tally::{Tally, start};
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_may_not_be_deleted_are_not_acknowledged() {
    let scene = Scene::new().await;
    let mut clerk = vec!["ACL", "SETUSER", "clerk", "on", ">clerk", "~*", "&*", "+@all", "-xdel"];
    // Where it exists, it could delete them too.
    if scene.server.knows("XACKDEL") {
        clerk.push("-xackdel");
    }
    scene.server.cmd(&clerk);
    let mut config = scene.config(LONG);
    config.redis.url = format!("redis://clerk:clerk@{}/0", scene.server.addr()).into();
    let (handler, tally) = (Acts::well(), Tally::default());
    let fleet = start(config, handler.clone(), &tally);
    for _ in 0..300 {
        submit(&scene.queue, "{}").await;
    }
    until_async("all to run", SOON, async || handler.all_runs() == 300).await;
    until_async("all to be still pending", SOON, async || {
        let snapshot = scene.queue.snapshot().await.unwrap();
        (snapshot.waiting(), snapshot.running()) == (0, 300)
    })
    .await;
    assert_eq!(tally.all(), 0);
    scene.server.cmd(&["ACL", "SETUSER", "clerk", "+xdel"]);
    scene.until_at_rest().await;
    until_async("all to be reported", SOON, async || tally.all() == 300).await;
    // A new group would deliver any entry that was left behind.
    scene.server.cmd(&["XGROUP", "DESTROY", STREAM, "fleet"]);
    let last = submit(&scene.queue, "{}").await;
    until_async("a later job to run", SOON, async || handler.runs(&last) == 1).await;
    scene.until_at_rest().await;
    assert_eq!((handler.all_runs(), scene.int(&["XLEN", STREAM]), tally.fenced()), (301, 0, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_whose_entries_may_not_be_deleted_are_settled_later_and_once() {
    let scene = Scene::new().await;
    scene.server.cmd(&["ACL", "SETUSER", "clerk", "on", ">clerk", "~*", "&*", "+@all", "-xdel"]);
    let mut config = scene.config(LONG);
    config.redis.url = format!("redis://clerk:clerk@{}/0", scene.server.addr()).into();
    let (handler, tally) = (obeys(), Tally::default());
    let fleet = start(config, handler.clone(), &tally);
    let producer = streamfleet::Producer::new(scene.queue.clone());
    let ends = [
        ("ok", vec!["succeeded"]),
        ("fails once", vec!["retried", "succeeded"]),
        ("is fatal", vec!["dead"]),
        ("drops", vec!["cancelled"]),
    ];
    let mut jobs = Vec::new();
    for (payload, want) in ends {
        jobs.push((producer.submit(job(payload).tracking(Tracking::All)).await.unwrap(), want));
    }
    until_async("all to be set aside", SOON, async || tally.quarantine().len() >= jobs.len()).await;
    let kept = |key: &str, count: &str| scene.int(&[count, key]);
    assert_eq!((kept("sf:{default}:delayed", "ZCARD"), kept("sf:{default}:dead", "XLEN")), (0, 0));
    let snapshot = scene.queue.snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.running(), tally.all()), (0, jobs.len() as u64, 0));
    scene.server.cmd(&["ACL", "SETUSER", "clerk", "+xdel"]);
    for (job, want) in &jobs {
        until_async("its end", LONG, async || tally.of(job).len() >= want.len()).await;
        assert_eq!((tally.of(job), handler.runs(job) as usize), (want.clone(), want.len()));
    }
    scene.until_at_rest().await;
    assert_eq!(
        (scene.int(&["XLEN", STREAM]), scene.int(&["XLEN", "sf:{default}:dead"]), tally.fenced()),
        (0, 1, 0)
    );
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn successes_whose_answer_was_lost_are_reported_once_each() {
    let scene = Scene::new().await;
    let (handler, tally) = (Gate::closed(), Tally::default());
    let mut config = scene.config(LONG);
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 600;
    }
    let fleet = start(config, handler.clone(), &tally);
    let mut jobs = Vec::new();
    for _ in 0..500 {
        jobs.push(submit(&scene.queue, "wait").await);
    }
    for job in &jobs {
        handler.until_started(job).await;
    }
    scene.proxy.set(Mode::drop_reply_to("XACK", 3));
    handler.open();
    scene.until_at_rest().await;
    until_async("all to be reported", SOON, async || tally.all() >= 500).await;
    assert!(scene.proxy.hits() > 0);
    fleet.stop().await;
    assert!(jobs.iter().all(|job| tally.of(job) == ["succeeded"]), "{}", tally.all());
    assert_eq!((tally.all(), tally.fenced()), (500, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_successes_with_deleted_entries_are_reported_once_each() {
    let scene = Scene::new().await;
    let (handler, tally) = (Gate::closed(), Tally::default());
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    let mut jobs = Vec::new();
    for _ in 0..8 {
        jobs.push(submit(&scene.queue, "wait").await);
    }
    for job in &jobs {
        handler.until_started(job).await;
    }
    scene.server.cmd(&["XDEL", STREAM, &jobs[1].to_string()]);
    scene.server.cmd(&["XACK", STREAM, "fleet", &jobs[6].to_string()]);
    scene.server.cmd(&["XDEL", STREAM, &jobs[6].to_string()]);
    handler.open();
    scene.until_at_rest().await;
    until_async("all to be reported", SOON, async || tally.all() + tally.fenced() >= 8).await;
    fleet.stop().await;
    // Nothing shows who settled an entry that is neither stored nor pending, unless it was settled together with others.
    let (unknown, known): (Vec<_>, Vec<_>) = jobs.iter().partition(|job| **job == jobs[6]);
    assert!(known.iter().all(|job| tally.of(job) == ["succeeded"]));
    assert_eq!((tally.of(unknown[0]).len() + tally.fenced(), tally.all() + tally.fenced()), (1, 8));
}

/// A handler that does what the payload says.
fn obeys() -> Acts {
    Acts::new(|context, payload| match payload {
        b"fails once" if context.attempt() == 1 => Err(JobError::retry("not yet")),
        b"is fatal" => Err(JobError::fatal("no")),
        b"drops" => Err(JobError::drop_job("a duplicate")),
        _ => Ok(Value::from("well")),
    })
}

/// Runs a job whose settlement's answer is lost, the one to a request with `needle`. Exactly `want` must be reported.
async fn is_reported_once(payload: &str, needle: &str, want: &[&str]) {
    let scene = Scene::new().await;
    let tally = Tally::default();
    let fleet = start(scene.config(LONG), obeys(), &tally);
    let producer = streamfleet::Producer::new(scene.queue.clone());
    let tracked = || job(payload).tracking(Tracking::All);
    // Now Redis knows the scripts, so requests contain no source.
    let first = producer.submit(tracked()).await.unwrap();
    until_async("the first to end", SOON, async || tally.of(&first).len() == want.len()).await;
    let holding = b":1\r\n".to_vec();
    scene.proxy.set(Mode::DropReplyTo { needle: needle.into(), holding, times: 1 });
    let second = producer.submit(tracked()).await.unwrap();
    until_async("the second to end", SOON, async || tally.of(&second).len() >= want.len()).await;
    assert_eq!(scene.proxy.hits(), 1);
    fleet.stop().await;
    assert_eq!((tally.of(&first), tally.of(&second)), (want.to_vec(), want.to_vec()));
    assert_eq!(tally.fenced(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_success_whose_answer_was_lost_is_reported_once() {
    is_reported_once("ok", "\"well\"", &["succeeded"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_answer_was_lost_is_reported_once() {
    is_reported_once("fails once", "retrying", &["retried", "succeeded"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burial_whose_answer_was_lost_is_reported_once() {
    is_reported_once("is fatal", "fatal", &["dead"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_whose_answer_was_lost_is_reported_once() {
    is_reported_once("drops", "a duplicate", &["cancelled"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_whose_answer_was_lost_is_reported_once() {
    let scene = Scene::new().await;
    let (handler, tally) = (Gate::closed(), Tally::default());
    let mut config = scene.config(LONG);
    config.worker.drain_timeout = Duration::from_millis(10);
    let mut reports = Vec::new();
    // By the second time Redis knows the script, and the request begins with the job.
    for lost in [0, 1] {
        let fleet = start(config.clone(), handler.clone(), &tally);
        let job = submit(&scene.queue, "wait").await;
        handler.until_started(&job).await;
        let (needle, holding) = (job.to_string().into_bytes(), b":1\r\n".to_vec());
        scene.proxy.set(Mode::DropReplyTo { needle, holding, times: lost });
        fleet.stop().await;
        reports.push((tally.of(&job), scene.proxy.hits()));
        scene.server.cmd(&["DEL", STREAM]);
    }
    assert_eq!(reports, [(vec!["interrupted"], 0), (vec!["interrupted"], 1)]);
    assert_eq!(tally.fenced(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_attempt_whose_answer_was_lost_is_reported_once() {
    let scene = Scene::new().await;
    let (handler, tally) = (Acts::well(), Tally::default());
    scene.queue.join(Duration::from_secs(1)).await.unwrap();
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "precious"]);
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", STREAM, ">"]);
    let (needle, holding) = (b"stopped responding".to_vec(), b":1\r\n".to_vec());
    scene.proxy.set(Mode::DropReplyTo { needle, holding, times: 1 });
    let fleet = start(scene.config(Duration::from_secs(1)), handler.clone(), &tally);
    let precious = "precious".parse().unwrap();
    until_async("it to be done", SOON, async || tally.of(&precious).contains(&"succeeded")).await;
    fleet.stop().await;
    assert_eq!(tally.of(&precious), ["retried", "succeeded"]);
    let status = scene.queue.status(&precious).await.unwrap().unwrap();
    let lost = &status.attempts[0];
    assert_eq!((lost.outcome.as_str(), lost.worker.as_str()), ("lost", "ghost"));
    assert!(lost.duration() >= Duration::from_secs(1), "{lost:?}");
    assert_eq!((tally.fenced(), scene.proxy.hits(), handler.runs(&precious)), (0, 1, 1));
}
