//! The stream of events: the same notifications that hooks get, capped, without payloads, and never an obstacle to a job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use streamfleet::hooks::Publish;
use streamfleet::job::State;
use streamfleet::{Fleet, FleetConfig, JobError, Producer, Queue, Submission};
use streamfleet_engine::admin::PastEvent;
use tokio::sync::Semaphore;

use super::dispatch::{Faults, Held, SOON, attentive, builder};
use harness::fleet::{Acts, Running, queue, quick, submit, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const EVENTS: &str = "sf:{default}:events";

fn obeys() -> Acts {
    Acts::new(|context, payload| {
        let text = String::from_utf8_lossy(payload);
        match (text.contains("dies"), text.contains("fails"), context.attempt()) {
            (true, ..) => Err(JobError::fatal(format!("no {}", "e".repeat(500)))),
            (_, true, 1) => Err(JobError::retry("not yet")),
            _ => Ok(Value::Null),
        }
    })
}

fn start(config: FleetConfig, faults: &Faults) -> Running {
    let builder = Fleet::builder(config).events(faults.events());
    Running::of(builder.handler_with("test", quick(3), obeys()).unwrap().build())
}

/// Returns the events with these names, in order.
async fn named(queue: &Queue, names: &[&str]) -> Vec<PastEvent> {
    let events = queue.events().page(None, 1000).await.unwrap();
    events.into_iter().filter(|event| names.contains(&&*event.text("event").unwrap())).collect()
}

const OF_JOBS: [&str; 4] = ["before_handle", "after_handle", "retry_handle", "failed_handle"];

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_has_the_same_facts_and_names_as_hooks_and_no_payload() {
    let server = RedisServer::start();
    let (queue, faults) = (queue(&server).await, Faults::default());
    let fleet = start(attentive(&server.url(), Publish::All), &faults);
    let fails = submit(&queue, "fails canary-payload").await;
    until_async("its four events", SOON, async || named(&queue, &OF_JOBS).await.len() == 4).await;
    let dies = submit(&queue, "dies canary-payload").await;
    until_async("all events", SOON, async || named(&queue, &OF_JOBS).await.len() == 6).await;
    let events = named(&queue, &OF_JOBS).await;
    let text = |at: usize, name: &str| events[at].text(name).unwrap_or_default();
    let published: Vec<_> =
        (0..6).map(|at| [text(at, "event"), text(at, "attempt"), text(at, "outcome")]).collect();
    let want = [
        ["before_handle", "1", ""],
        ["retry_handle", "1", "retried"],
        ["before_handle", "2", ""],
        ["after_handle", "2", "succeeded"],
        ["before_handle", "1", ""],
        ["failed_handle", "1", "dead"],
    ];
    assert_eq!(published, want);
    for (at, job) in [&fails, &fails, &fails, &fails, &dies, &dies].into_iter().enumerate() {
        assert_eq!((text(at, "id"), text(at, "type")), (job.to_string(), "test".to_owned()));
        assert!(!text(at, "worker").is_empty());
    }
    assert_eq!((text(1, "error"), text(1, "delay_ms")), ("not yet".to_owned(), "10".to_owned()));
    assert!(text(5, "error").starts_with("no eee") && text(5, "error").len() <= 200, "{}", text(5, "error"));
    let letter = queue.dead_letters().page(None, 1).await.unwrap().remove(0);
    assert_eq!(
        (text(5, "reason"), text(5, "fingerprint")),
        ("fatal".to_owned(), letter.text("dead_fingerprint"))
    );
    let everything = format!("{:?}", queue.events().page(None, 1000).await.unwrap());
    assert!(!everything.contains("canary"), "{everything}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_failures_are_published_by_default_and_nothing_if_disabled() {
    let server = RedisServer::start();
    let (queue, faults) = (queue(&server).await, Faults::default());
    for (publish, want) in [
        (Publish::None, &[][..]),
        (FleetConfig::default().events.publish, &["retry_handle", "failed_handle"]),
    ] {
        let fleet = start(attentive(&server.url(), publish), &faults);
        submit(&queue, "succeeds").await;
        let fails = submit(&queue, "fails").await;
        until_state(&queue, &fails, State::Done).await;
        let dies = submit(&queue, "dies").await;
        until_state(&queue, &dies, State::Dead).await;
        // Notifications from before the stop are published before the process ends.
        fleet.stop().await;
        let events = queue.events().page(None, 1000).await.unwrap();
        assert_eq!(events.iter().map(|event| event.text("event").unwrap()).collect::<Vec<_>>(), want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_process_publishes_the_queue_length_by_a_timer() {
    let server = RedisServer::start();
    let (queue, faults) = (queue(&server).await, Faults::default());
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "delay_ms", "3600000"]);
    let fleets = [(); 3].map(|()| start(attentive(&server.url(), Publish::All), &faults));
    let lengths = until_async("the length to be published five times", SOON, async || {
        let lengths = named(&queue, &["queue_length"]).await;
        (lengths.len() >= 5).then_some(lengths)
    })
    .await;
    let last = lengths.last().unwrap();
    let counts = ["waiting", "running", "delayed", "dead"].map(|name| last.text(name).unwrap());
    assert_eq!(counts, ["0", "0", "1", "0"]);
    // Three processes would publish it three times in a second.
    let span = last.entry.ms - lengths[0].entry.ms;
    assert!(span > 2_000, "{span} ms");
    for fleet in fleets {
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_capped() {
    let server = RedisServer::start();
    let (queue, faults) = (queue(&server).await, Faults::default());
    let mut config = attentive(&server.url(), Publish::All);
    config.events.max_length = 50;
    let fleet = start(config, &faults);
    let jobs = (0..600).map(|_| Submission::new("test").unwrap());
    Producer::new(queue.clone()).submit_all(jobs).await.unwrap();
    until_empty(&queue).await;
    fleet.stop().await;
    let kept = queue.events().page(None, 1000).await.unwrap().len();
    assert!((50..200).contains(&kept), "{kept}");
}

/// Runs a fleet that publishes everything to a prepared server: all jobs end soon, as they would otherwise, and events that Redis
/// refused are counted.
async fn drops_and_counts(prepare: impl Fn(&RedisServer), error: &str) {
    let server = RedisServer::start();
    let (queue, faults) = (queue(&server).await, Faults::default());
    prepare(&server);
    let handler = obeys();
    let builder = builder(&server.url(), Publish::All).events(faults.events());
    let fleet = Running::of(builder.handler_with("test", quick(3), handler.clone()).unwrap().build());
    let jobs: Vec<_> = futures_util::future::join_all((0..100).map(|_| submit(&queue, "fails"))).await;
    let began = Instant::now();
    until_empty(&queue).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(jobs.iter().all(|job| handler.runs(job) == 2));
    until_async("what was dropped to be counted", SOON, async || faults.dropped("stream") > 0).await;
    assert!(faults.count(error) > 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_events_key_of_the_wrong_type_changes_nothing_and_is_counted() {
    drops_and_counts(|server| drop(server.cmd(&["SET", EVENTS, "x"])), "redis configuration").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_without_the_right_to_the_stream_changes_nothing() {
    let rules = [
        "ACL",
        "SETUSER",
        "default",
        "resetkeys",
        "~sf:{default}:[a-df-h]*",
        "~sf:{default}:j*",
        "~sf:{default}:[k-z]*",
        "~sf:worker:*",
    ];
    drops_and_counts(|server| drop(server.cmd(&rules)), "redis configuration").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn surplus_events_are_dropped_and_counted_while_all_jobs_run() {
    const JOBS: usize = 10_000;
    let server = RedisServer::start();
    // Redis refuses the first events, so that the others wait for the next try. They are more than may wait, and many times those of a
    // try.
    server.cmd(&["SET", EVENTS, "x"]);
    let (queue, faults, gate) = (queue(&server).await, Faults::default(), Arc::new(Semaphore::new(0)));
    let jobs = (0..JOBS).map(|_| Submission::new("test").unwrap());
    Producer::new(queue.clone()).submit_all(jobs).await.unwrap();
    let mut config = attentive(&server.url(), Publish::All);
    config.worker.queues.values_mut().for_each(|queue| queue.concurrency = JOBS);
    // Renewing ten thousand leases in time is not what this is about.
    config.worker.lease = Duration::from_secs(60);
    let builder = Fleet::builder(config).events(faults.events()).middleware(Held(Arc::clone(&gate)));
    let handler = Acts::well();
    let fleet = Running::of(builder.handler_with("test", quick(3), handler.clone()).unwrap().build());
    until_async("all to be held", SOON, async || queue.snapshot().await.unwrap().running() == JOBS as u64)
        .await;
    gate.add_permits(JOBS);
    until_empty(&queue).await;
    assert_eq!(handler.all_runs() as usize, JOBS);
    let dropped = async || faults.dropped("stream") >= JOBS as u64;
    until_async("what was dropped to be counted", SOON, dropped).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_loses_events_but_no_job() {
    let server = RedisServer::start();
    let (queue, faults, gate) = (queue(&server).await, Faults::default(), Arc::new(Semaphore::new(0)));
    let (builder, handler) = (builder(&server.url(), Publish::All).events(faults.events()), Acts::well());
    let builder = builder.middleware(Held(Arc::clone(&gate)));
    let fleet = Running::of(builder.handler_with("test", quick(3), handler.clone()).unwrap().build());
    let jobs = (0..300).map(|_| Submission::new("test").unwrap());
    Producer::new(queue.clone()).submit_all(jobs).await.unwrap();
    until_async("some handlers to begin", SOON, async || queue.snapshot().await.unwrap().running() > 0).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    gate.add_permits(300);
    until_empty(&queue).await;
    assert_eq!((handler.jobs(), handler.all_runs()), (300, 300));
    until_async("what was dropped to be counted", SOON, async || faults.dropped("stream") > 0).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_resumes_without_the_events_that_redis_refused() {
    let server = RedisServer::start();
    let (queue, faults) = (queue(&server).await, Faults::default());
    server.cmd(&["SET", EVENTS, "x"]);
    let fleet = start(attentive(&server.url(), Publish::All), &faults);
    let refused = submit(&queue, "succeeds").await;
    until_async("events to be dropped", SOON, async || faults.dropped("stream") > 0).await;
    server.cmd(&["DEL", EVENTS]);
    let events = until_async("another job's events", SOON, async || {
        submit(&queue, "succeeds").await;
        let events = named(&queue, &OF_JOBS).await;
        (!events.is_empty()).then_some(events)
    })
    .await;
    assert!(events.iter().all(|event| event.text("id") != Some(refused.to_string())));
    fleet.stop().await;
}
