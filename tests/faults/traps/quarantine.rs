//! Jobs that cannot be processed delay only themselves: keys of the wrong type, which a person must repair.

use std::time::{Duration, Instant};

use serde_json::Value;
use streamfleet::job::{State, Tracking};
use streamfleet::{Handler, JobContext, JobError, RawPayload};

use harness::fleet::{Acts, submit, until_state};
use harness::scene::{Gate, LONG, SOON, STREAM, Scene, job};
use harness::tally::{Tally, start};
use harness::wait::until_async;

/// Jobs that were set aside are tried again after at most a minute and a half.
const AGAIN: Duration = Duration::from_secs(100);

fn obeys() -> Acts {
    Acts::new(|_, payload| match payload {
        b"fatal" => Err(JobError::fatal("no")),
        _ => Ok(Value::Null),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_8_a_job_that_cannot_be_buried_blocks_no_other() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    scene.server.cmd(&["SET", "sf:{default}:dead", "a string"]);
    let producer = streamfleet::Producer::new(scene.queue.clone());
    let bad = producer.submit_all((0..700).map(|_| job("fatal"))).await.unwrap();
    let good = producer.submit_all((0..1000).map(|_| job("ok"))).await.unwrap();
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    until_async("the good ones to be done", SOON, async || {
        good.iter().all(|job| tally.of(job) == ["succeeded"])
    })
    .await;
    until_async("all bad ones to be set aside", SOON, async || tally.quarantine().len() == 700).await;
    let first = &tally.quarantine()[0];
    assert!(first.contains("sf:{default}:dead") && first.contains("sf:{default}:job:"), "{first}");
    assert_eq!(scene.int(&["XLEN", STREAM]), 700);
    scene.server.cmd(&["DEL", "sf:{default}:dead"]);
    until_async("all bad ones to be buried", AGAIN, async || {
        scene.int(&["XLEN", "sf:{default}:dead"]) == 700
    })
    .await;
    scene.until_at_rest().await;
    fleet.stop().await;
    assert!(bad.iter().all(|job| tally.of(job) == ["dead"] && handler.runs(job) == 1));
    assert_eq!((tally.fenced(), tally.quarantine().len()), (0, 700));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_buried_is_not_run_again_by_another_process() {
    // An attempt that has no outcome keeps its job for ten seconds beyond its time.
    const OVERDUE: Duration = Duration::from_secs(13);
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    scene.server.cmd(&["SET", "sf:{default}:dead", "a string"]);
    let lease = Duration::from_secs(1);
    let fleets = [(); 2].map(|()| start(scene.config(lease), handler.clone(), &tally));
    let bad = scene.producer().await.submit(job("fatal").timeout(lease)).await.unwrap();
    until_async("it to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    let since = Instant::now();
    until_async("its lease to be renewed for long", SOON, async || {
        assert_eq!(handler.runs(&bad), 1);
        since.elapsed() > OVERDUE && scene.queue.snapshot().await.unwrap().running() == 1
    })
    .await;
    scene.server.cmd(&["DEL", "sf:{default}:dead"]);
    until_async("it to be buried", AGAIN, async || tally.of(&bad) == ["dead"]).await;
    for fleet in fleets {
        fleet.stop().await;
    }
    assert_eq!((handler.runs(&bad), tally.fenced(), tally.quarantine().len()), (1, 0, 1));
}

/// Fails for good if the payload is large, and otherwise waits until it may succeed.
#[derive(Clone)]
struct Held(tokio::sync::watch::Receiver<bool>);

impl Handler for Held {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, _: JobContext) -> Result<(), JobError> {
        if payload.0.len() > 1000 {
            return Err(JobError::fatal("no"));
        }
        self.0.clone().wait_for(|is_open| *is_open).await.unwrap();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_jobs_that_cannot_be_buried_keep_no_other_from_its_end_and_no_worker_from_stopping() {
    // The ninth makes the load too heavy to read more.
    const LARGE: usize = 12;
    let scene = Scene::new().await;
    let (open, tally) = (tokio::sync::watch::Sender::new(false), Tally::default());
    scene.server.cmd(&["SET", "sf:{default}:dead", "a string"]);
    let producer = streamfleet::Producer::new(scene.queue.clone());
    let good = producer.submit_all((0..20).map(|_| job("ok"))).await.unwrap();
    for _ in 0..LARGE {
        producer.submit(job(vec![b'x'; 8_000_000])).await.unwrap();
    }
    let mut config = scene.config(LONG);
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 64;
    }
    let fleet = start(config, Held(open.subscribe()), &tally);
    until_async("large ones to be set aside", SOON, async || tally.quarantine().len() >= 9).await;
    open.send_replace(true);
    until_async("the others to be done", SOON, async || {
        good.iter().all(|job| tally.of(job) == ["succeeded"])
    })
    .await;
    tokio::time::timeout(SOON, fleet.stop()).await.expect("the fleet stops in time");
    assert_eq!(scene.int(&["XLEN", STREAM]), LARGE as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_cannot_begin_take_no_slot() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    for id in ["a", "b"] {
        scene.server.cmd(&["SET", &format!("sf:{{default}}:job:{id}"), "a string"]);
        scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", id]);
    }
    let mut config = scene.config(LONG);
    config.worker.prefetch = 0;
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 2;
    }
    let fleet = start(config, handler.clone(), &tally);
    until_async("both to be set aside", SOON, async || tally.quarantine().len() == 2).await;
    let good = submit(&scene.queue, "ok").await;
    until_async("another job to be done", SOON, async || tally.of(&good) == ["succeeded"]).await;
    for id in ["a", "b"] {
        assert_eq!(handler.runs(&id.parse().unwrap()), 0);
        scene.server.cmd(&["DEL", &format!("sf:{{default}}:job:{id}")]);
    }
    for id in ["a", "b"] {
        until_state(&scene.queue, &id.parse().unwrap(), State::Done).await;
        assert_eq!(handler.runs(&id.parse().unwrap()), 1);
    }
    fleet.stop().await;
    assert_eq!(tally.quarantine().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_jobs_set_aside_stops_and_loses_nothing() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    scene.server.cmd(&["SET", "sf:{default}:job:a", "a string"]);
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "a"]);
    let lease = Duration::from_secs(1);
    let fleet = start(scene.config(lease), handler.clone(), &tally);
    until_async("it to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    tokio::time::timeout(Duration::from_secs(8), fleet.stop()).await.expect("the fleet stops in time");
    assert_eq!(scene.queue.snapshot().await.unwrap().running(), 1);
    // The worker that claims it cannot settle it either, until the key is repaired.
    let fleet = start(scene.config(lease), handler.clone(), &tally);
    until_async("it to be claimed", SOON, async || tally.quarantine().len() >= 2).await;
    let good = submit(&scene.queue, "ok").await;
    until_async("another job to be done", SOON, async || tally.of(&good) == ["succeeded"]).await;
    scene.server.cmd(&["DEL", "sf:{default}:job:a"]);
    until_state(&scene.queue, &"a".parse().unwrap(), State::Done).await;
    assert_eq!(handler.runs(&"a".parse().unwrap()), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_success_whose_record_cannot_be_read_blocks_no_other() {
    let scene = Scene::new().await;
    let (handler, tally) = (Gate::closed(), Tally::default());
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    let producer = streamfleet::Producer::new(scene.queue.clone());
    let late = producer.submit(job("wait").tracking(Tracking::All)).await.unwrap();
    handler.until_started(&late).await;
    // Somebody else settles its entry, and breaks its record.
    let record = format!("sf:{{default}}:job:{late}");
    scene.server.cmd(&["XACK", STREAM, "fleet", &late.to_string()]);
    scene.server.cmd(&["XDEL", STREAM, &late.to_string()]);
    scene.server.cmd(&["SET", &record, "a string"]);
    handler.open();
    until_async("it to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    let good = producer.submit(job("ok").tracking(Tracking::All)).await.unwrap();
    until_async("another job to be done", SOON, async || tally.of(&good) == ["succeeded"]).await;
    assert_eq!(tally.of(&late), Vec::<&str>::new());
    tokio::time::timeout(Duration::from_secs(8), fleet.stop()).await.expect("the fleet stops in time");
    assert_eq!(scene.int(&["EXISTS", &record]), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_cannot_be_settled_does_not_block_takeovers() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    scene.queue.join(Duration::from_secs(1)).await.unwrap();
    scene.server.cmd(&["SET", "sf:{default}:job:a", "a string"]);
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "a"]);
    for nth in 0..250 {
        scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", &format!("b{nth}")]);
    }
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", STREAM, ">"]);
    let fleet = start(scene.config(Duration::from_secs(1)), handler.clone(), &tally);
    until_async("the others to run", SOON, async || handler.all_runs() == 250).await;
    // They are settled in groups all the same, each of which adds to the delayed set once.
    let groups = scene.server.calls("zadd");
    assert!(groups <= 25, "{groups} scripts for 250 jobs");
    until_async("the other one to be reported", SOON, async || !tally.quarantine().is_empty()).await;
    assert!(tally.quarantine()[0].starts_with("a: "), "{:?}", tally.quarantine());
    scene.server.cmd(&["DEL", "sf:{default}:job:a"]);
    until_async("the last one to run", SOON, async || handler.all_runs() == 251).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}
