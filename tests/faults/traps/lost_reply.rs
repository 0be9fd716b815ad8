//! Replies that get lost after Redis has executed the command.

use std::time::{Duration, Instant};

use serde_json::Value;
use streamfleet::job::{Lane, State};
use streamfleet::{JobError, Producer, RedisError, Submission, SubmitError};

use harness::fleet::{Acts, Running, quick, submit, until_state};
use harness::proxy::{Commands, Direction, Mode};
use harness::scene::{Gate, LONG, SOON, STREAM, Scene, job};
use harness::wait::until_async;

/// A handler that does what the payload says, or succeeds.
fn obeys() -> Acts {
    Acts::new(|context, payload| match payload {
        b"fails once" if context.attempt() == 1 => Err(JobError::retry("not yet")),
        b"fails" => Err(JobError::retry("never")),
        b"is fatal" => Err(JobError::fatal("no")),
        _ => Ok(Value::from("well")),
    })
}

/// Drops the reply to the next request with `needle`, if it says that something was done.
fn lose(needle: &str) -> Mode {
    Mode::DropReplyTo { needle: needle.into(), holding: b":1\r\n".to_vec(), times: 1 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_whose_reply_was_lost_gets_unknown_and_the_job_runs_once() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    producer.submit(job("first")).await.unwrap();
    scene.proxy.set(Mode::drop_reply_to("precious", 1));
    let answer = producer.submit(job("precious")).await;
    assert!(matches!(answer, Err(SubmitError::Broker(RedisError::Unknown { .. }))), "{answer:?}");
    assert_eq!(scene.int(&["XLEN", STREAM]), 2);
    // It may be refused while the client reconnects; thanks to its id it stays one job.
    let third = async || producer.submit(job("third").id("third".parse().unwrap())).await.is_ok();
    until_async("the connection to be back", SOON, third).await;
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs(), 3);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_submission_with_a_lost_reply_is_resent_and_is_one_job() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    producer.submit(job("first").delay(Duration::from_millis(1))).await.unwrap();
    scene.proxy.set(Mode::drop_reply_to("precious", 1));
    producer.submit(job("precious").delay(Duration::from_millis(1))).await.unwrap();
    assert_eq!(scene.int(&["ZCARD", "sf:{default}:delayed"]), 2);
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs(), 2);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_with_a_lost_reply_is_unknown_though_redis_refuses_it_afterward() {
    tokio::join!(
        is_unknown_though_refused_afterward(
            |payload| job(payload).id(payload.parse().unwrap()),
            ["XLEN", "sf:{default}:jobs"],
        ),
        is_unknown_though_refused_afterward(
            |payload| job(payload).delay(LONG),
            ["ZCARD", "sf:{default}:delayed"],
        ),
    );
}

/// Submits two jobs, of which the reply to the second is lost. `count` counts both.
async fn is_unknown_though_refused_afterward(submission: fn(&str) -> Submission, count: [&str; 2]) {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    producer.submit(submission("first")).await.unwrap();
    let hold = Mode::Hold { needle: b"precious".to_vec(), nth: 1, way: Direction::Replies };
    scene.proxy.set(hold);
    let submitting = tokio::spawn(async move { producer.submit(submission("precious")).await });
    until_async("the reply to be held", SOON, async || scene.proxy.hits() == 1).await;
    scene.proxy.set(Mode::Rst);
    // It refuses scripts, but not the handshake of a new connection.
    let to = Commands::Only(["EVALSHA", "EVAL"].map(str::to_owned).to_vec());
    let error = "LOADING Redis is loading the dataset in memory".to_owned();
    scene.proxy.set(Mode::Inject { error, to });
    let answer = submitting.await.unwrap();
    let is_unknown = matches!(answer, Err(SubmitError::Broker(RedisError::Unknown { .. })));
    assert!(is_unknown, "{count:?}: {answer:?}");
    assert_eq!(scene.int(&count), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_whose_reply_was_lost_is_settled_once() {
    let scene = Scene::new().await;
    let handler = obeys();
    let fleet = scene.fleet(LONG, handler.clone());
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    scene.proxy.set(lose("XACK"));
    let job = submit(&scene.queue, "ok").await;
    until_async("the reply to be lost", SOON, async || scene.proxy.hits() == 1).await;
    let next = submit(&scene.queue, "ok").await;
    until_async("the next job to run", SOON, async || handler.runs(&next) == 1).await;
    scene.until_at_rest().await;
    assert_eq!(handler.runs(&job), 1);
    fleet.stop().await;
}

/// Runs a job whose settlement's reply is lost. It must run this often, and then have this state and this many attempts.
async fn settles_once(payload: &str, needle: &str, runs: u32, state: State, noted: usize) {
    let scene = Scene::new().await;
    let handler = obeys();
    let fleet = scene.fleet(LONG, handler.clone());
    let first = submit(&scene.queue, payload).await;
    until_state(&scene.queue, &first, state).await;
    let letters = scene.int(&["XLEN", "sf:{default}:dead"]);
    scene.proxy.set(lose(needle));
    let job = submit(&scene.queue, payload).await;
    let status = until_state(&scene.queue, &job, state).await;
    // Redis may show the state before the proxy has the reply.
    until_async("the reply to be lost", SOON, async || scene.proxy.hits() == 1).await;
    assert_eq!(handler.runs(&job), runs);
    assert_eq!(status.attempts.len(), noted, "{status:?}");
    let last = submit(&scene.queue, payload).await;
    until_state(&scene.queue, &last, state).await;
    assert_eq!(scene.int(&["XLEN", "sf:{default}:dead"]), 3 * letters);
    assert_eq!(handler.runs(&job), runs);
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_reply_was_lost_is_deferred_once() {
    settles_once("fails once", "retrying", 2, State::Done, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burial_whose_reply_was_lost_is_one_dead_letter() {
    settles_once("is fatal", "fatal", 1, State::Dead, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_job_whose_reply_was_lost_is_one_dead_letter() {
    settles_once("fails", "exhausted", 3, State::Dead, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_success_whose_reply_was_lost_is_noted_once() {
    settles_once("fails once", "\"well\"", 2, State::Done, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_reply_was_lost_is_found_again_and_runs_once() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    let holding = b"precious".to_vec();
    scene.proxy.set(Mode::DropReplyTo { needle: b"XREADGROUP".to_vec(), holding, times: 1 });
    let jobs = [submit(&scene.queue, "precious").await, submit(&scene.queue, "other").await];
    let lost = Instant::now();
    scene.until_at_rest().await;
    // Long before the end of its lease would have brought it back.
    assert!(lost.elapsed() < SOON, "{:?}", lost.elapsed());
    assert_eq!(scene.proxy.hits(), 1);
    assert_eq!(jobs.each_ref().map(|job| handler.runs(job)), [1, 1]);
    fleet.stop().await;
}

/// Loses this many reads that deliver a job of the normal lane, of which the first comes right after a read of the high lane.
/// Everything must run soon all the same.
async fn loses_a_later_lane(times: usize) {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let high = producer.submit_all((0..5).map(|_| job("urgent").lane(Lane::High))).await.unwrap();
    let lost = submit(&scene.queue, "precious").await;
    let holding = b"precious".to_vec();
    scene.proxy.set(Mode::DropReplyTo { needle: b"XREADGROUP".to_vec(), holding, times });
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    until_async("the job whose delivery was lost to run", SOON, async || handler.runs(&lost) > 0).await;
    scene.until_at_rest().await;
    assert_eq!(scene.proxy.hits(), times);
    assert!(high.iter().chain([&lost]).all(|job| handler.runs(job) == 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_was_lost_after_another_lane_was_read_is_found_again() {
    loses_a_later_lane(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_delivery_is_searched_until_the_search_is_answered() {
    loses_a_later_lane(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_deleted_even_if_the_connection_breaks_first() {
    let scene = Scene::new().await;
    let fleet = scene.fleet(LONG, obeys());
    let receipts = || match scene.server.cmd(&["KEYS", "sf:{default}:receipts:*"]) {
        redis::Value::Array(keys) => keys.len(),
        other => panic!("KEYS answered {other:?}"),
    };
    // The command itself, not a script that contains its name.
    let needle = b"$4\r\nHDEL\r\n".to_vec();
    scene.proxy.set(Mode::Hold { needle, nth: 1, way: Direction::Requests });
    let job = submit(&scene.queue, "fails once").await;
    until_async("a receipt is about to be deleted", SOON, async || scene.proxy.met() > 0).await;
    assert_eq!(receipts(), 1);
    scene.proxy.set(Mode::Rst);
    scene.proxy.set(Mode::Pass);
    until_state(&scene.queue, &job, State::Done).await;
    until_async("the receipts to be deleted while the worker runs", SOON, async || receipts() == 0).await;
    fleet.stop().await;
}

/// A worker that searches its pending entries does not read the large fields of those that it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_searched_at_once_while_large_jobs_run_behind_a_slow_network() {
    const LARGE: usize = 12;
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let gate = Gate::closed();
    let mut config = scene.config(LONG);
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = LARGE + 4;
    }
    let fleet = Running::start_with(config, quick(3), gate.clone());
    for nth in 0..LARGE {
        let large = format!("wait{}", "x".repeat(200_000));
        let id = producer.submit(job(large).id(format!("large-{nth}").parse().unwrap())).await.unwrap();
        gate.until_started(&id).await;
    }
    scene.proxy.set(Mode::Rst);
    let by = Duration::from_millis(450);
    scene.proxy.set(Mode::Delay { by, direction: Direction::Replies });
    let small = submit(&scene.queue, "null").await;
    gate.until_started(&small).await;
    scene.proxy.set(Mode::Pass);
    gate.open();
    scene.until_at_rest().await;
    fleet.stop().await;
}
