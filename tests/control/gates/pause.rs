//! Pausing and resuming a fleet that runs.

use std::time::{Duration, Instant};

use streamfleet::job::{GateName, JobId, State};
use streamfleet::{Producer, Queue};
use streamfleet_engine::admin::Cancellation;

use harness::fleet::{Acts, submit, until_state};
use harness::scene::{Gate, LONG, SOON, Scene, job};
use harness::wait::until_async;

fn test_type() -> GateName {
    "type:test".parse().unwrap()
}

async fn in_rooms(queue: &Queue) -> u64 {
    queue.snapshot().await.unwrap().in_rooms
}

/// Submits jobs for a second, and longer by what this machine delays everything. Returns the last one.
async fn submit_until_heeded(scene: &Scene) -> JobId {
    const PAUSE: Duration = Duration::from_millis(50);
    let (begun, mut delayed) = (Instant::now(), Duration::ZERO);
    loop {
        let heeded = begun.elapsed() >= Duration::from_secs(1) + 4 * delayed;
        let job = submit(&scene.queue, "quick").await;
        if heeded {
            return job;
        }
        let slept = Instant::now();
        tokio::time::sleep(PAUSE).await;
        delayed = delayed.max(slept.elapsed().saturating_sub(PAUSE));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_any_length_can_be_read() {
    let scene = Scene::new().await;
    scene.queue.gates().close(&GateName::queue(), "ann", "", Some(Duration::MAX)).await.unwrap();
    let rules = scene.queue.gates().rules().await.unwrap();
    assert!(rules.closed().is_some_and(|closed| closed.until.is_some()), "{rules:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_starts_nothing_after_a_second() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let running = submit(&scene.queue, "wait").await;
    handler.until_started(&running).await;
    let gates = scene.queue.gates();
    gates.close(&GateName::queue(), "ann", "the bank is down", None).await.unwrap();
    let waits = submit_until_heeded(&scene).await;
    let started = until_async("the job to start", SOON, async || handler.of(&waits).starts > 0);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), started).await.is_err(),
        "the pause is not heeded"
    );
    handler.open();
    handler.until_ended(&running).await;
    let snapshot = scene.queue.snapshot().await.unwrap();
    assert!(snapshot.closed_since.is_some() && snapshot.waiting() >= 1);
    assert_eq!(handler.of(&waits).starts, 0);
    assert!(gates.open(&GateName::queue()).await.unwrap());
    handler.until_ended(&waits).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_heeded_although_nobody_can_read_the_requests_to_cancel() {
    let scene = Scene::new().await;
    scene.server.cmd(&["SET", "sf:{default}:cancels", "x"]);
    let fleet = scene.sound_fleet(LONG, Acts::well());
    submit(&scene.queue, "1").await;
    let length = || scene.int(&["XLEN", "sf:{default}:jobs"]);
    until_async("the job to be done", SOON, async || length() == 0).await;
    scene.queue.gates().close(&GateName::queue(), "ann", "", None).await.unwrap();
    submit_until_heeded(&scene).await;
    assert!(length() > 0);
    let left = length();
    for nth in 1..=20 {
        submit(&scene.queue, "quick").await;
        assert_eq!(length(), left + nth, "nothing starts any more");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_for_a_time_ends_by_itself() {
    let scene = Scene::new().await;
    let (begun, time) = (Instant::now(), Duration::from_millis(1200));
    scene.queue.gates().close(&GateName::queue(), "ann", "", Some(time)).await.unwrap();
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let job = submit(&scene.queue, "quick").await;
    until_async("the job to run", SOON, async || handler.runs(&job) == 1).await;
    assert!(begun.elapsed() >= time, "{:?}", begun.elapsed());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_paused_type_wait_in_its_waiting_list_and_run_later() {
    let scene = Scene::new().await;
    scene.queue.gates().close(&test_type(), "ann", "", None).await.unwrap();
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let mut jobs = Vec::new();
    for _ in 0..120 {
        jobs.push(submit(&scene.queue, "quick").await);
    }
    until_async("all to wait in the waiting list", SOON, async || in_rooms(&scene.queue).await == 120).await;
    assert_eq!(handler.jobs(), 0);
    let status = scene.queue.status(&jobs[7]).await.unwrap().unwrap();
    assert_eq!((status.state, status.waitlist.as_deref()), (State::Waiting, Some("type:test")));
    scene.queue.gates().open(&test_type()).await.unwrap();
    until_async("all to run", SOON, async || handler.jobs() == 120).await;
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs(), 120);
    assert!(scene.queue.gates().waitlists(10).await.unwrap().is_empty());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_type_starts_nothing_within_a_second() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    scene.queue.gates().close(&test_type(), "ann", "", None).await.unwrap();
    let paused = Instant::now();
    until_async("a job to wait in the waiting list", SOON, async || {
        assert!(paused.elapsed() < Duration::from_millis(1500), "the pause is not heeded");
        submit(&scene.queue, "quick").await;
        in_rooms(&scene.queue).await > 0
    })
    .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_lets_the_first_jobs_out_without_a_leader() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let each: GateName = "key:h.tenant".parse().unwrap();
    for gate in [test_type(), each] {
        scene.queue.gates().close(&gate, "ann", "", None).await.unwrap();
        let fleet = scene.sound_fleet(LONG, Acts::well());
        for _ in 0..60 {
            producer.submit(job("quick").header("tenant", "1").unwrap()).await.unwrap();
        }
        until_async("all to wait in the waiting list", SOON, async || in_rooms(&scene.queue).await == 60)
            .await;
        fleet.stop().await;
        assert!(scene.queue.gates().open(&gate).await.unwrap());
        let snapshot = scene.queue.snapshot().await.unwrap();
        assert_eq!((snapshot.in_rooms, snapshot.waiting()), (10, 60), "{gate}");
        let fleet = scene.sound_fleet(LONG, Acts::well());
        scene.until_at_rest().await;
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_a_waiting_list_is_cancelled_like_any_other() {
    let scene = Scene::new().await;
    scene.queue.gates().close(&test_type(), "ann", "", None).await.unwrap();
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let plain = submit(&scene.queue, "quick").await;
    let producer = Producer::new(scene.queue.clone());
    let named = producer.submit(job("quick").id("named".parse().unwrap())).await.unwrap();
    until_async("both to wait in the waiting list", SOON, async || in_rooms(&scene.queue).await == 2).await;
    for job in [&plain, &named] {
        let cancelled = scene.queue.cancel(job, "ann", LONG).await.unwrap();
        assert_eq!(cancelled, Cancellation::Done, "{job}");
        until_state(&scene.queue, job, State::Cancelled).await;
    }
    assert_eq!((in_rooms(&scene.queue).await, scene.int(&["EXISTS", "sf:{default}:room:type:test"])), (0, 0));
    scene.queue.gates().open(&test_type()).await.unwrap();
    scene.until_at_rest().await;
    assert_eq!(handler.jobs(), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_tenant_holds_up_no_other() {
    let scene = Scene::new().await;
    let gate: GateName = "key:h.tenant=1".parse().unwrap();
    scene.queue.gates().close(&gate, "ann", "", None).await.unwrap();
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let producer = Producer::new(scene.queue.clone());
    let mut jobs = Vec::new();
    for tenant in ["1", "2", "1", "3"] {
        jobs.push(producer.submit(job("quick").header("tenant", tenant).unwrap()).await.unwrap());
    }
    until_async("the others to run", SOON, async || handler.jobs() == 2).await;
    until_async("two to wait", SOON, async || in_rooms(&scene.queue).await == 2).await;
    assert_eq!([handler.runs(&jobs[0]), handler.runs(&jobs[2])], [0, 0]);
    scene.queue.gates().open(&gate).await.unwrap();
    until_async("all to run", SOON, async || handler.jobs() == 4).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_list_of_another_type_does_not_fill_the_workers() {
    const JOBS: usize = 300;
    let scene = Scene::new().await;
    let waitlist = "sf:{default}:room:type:test";
    scene.queue.gates().close(&test_type(), "ann", "", None).await.unwrap();
    scene.server.cmd(&["SET", waitlist, "x"]);
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    for _ in 0..JOBS {
        submit(&scene.queue, "quick").await;
    }
    until_async("some to be put off", SOON, async || scene.queue.snapshot().await.unwrap().delayed > 0).await;
    scene.server.cmd(&["DEL", waitlist]);
    scene.queue.gates().open(&test_type()).await.unwrap();
    until_async("all to run", 3 * SOON, async || handler.jobs() == JOBS).await;
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs() as usize, JOBS);
    fleet.stop().await;
}
