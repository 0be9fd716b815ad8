//! What a fleet counts is what its handlers did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use streamfleet::event::{Event, Events, RedisEvent};
use streamfleet::{Fleet, JobError};

use super::refused::patient;
use super::{COUNTS, SAMPLES, counted, sum};
use harness::fleet::{Acts, Running, config, queue, quick, submit, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A handler that does what the payload says.
fn obeys() -> Acts {
    Acts::new(|context, payload| match payload {
        b"\"fatal\"" => Err(JobError::fatal("no")),
        b"\"twice\"" if context.attempt() < 3 => Err(JobError::retry("not yet")),
        _ => Ok(serde_json::Value::Null),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_samples_and_types_agree_with_what_ran() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start_with(patient(&server.url()), quick(3), obeys());
    // The first sample counts nothing, whatever was counted before it.
    until_async("the first sample", SOON, async || !queue.samples(DAY).await.unwrap().is_empty()).await;
    for (payload, jobs) in [("\"well\"", 20), ("\"twice\"", 3), ("\"fatal\"", 4)] {
        for _ in 0..jobs {
            submit(&queue, payload).await;
        }
    }
    until_empty(&queue).await;
    // A process reports at the latest when it stops.
    fleet.stop().await;
    let samples = queue.samples(DAY).await.unwrap();
    let all = [
        sum(&samples, |sample| sample.done) + counted(&server, "done"),
        sum(&samples, |sample| sample.failed) + counted(&server, "failed"),
        sum(&samples, |sample| sample.retried) + counted(&server, "retried"),
        sum(&samples, |sample| sample.died) + counted(&server, "died"),
        sum(&samples, |sample| sample.cancelled) + counted(&server, "cancelled"),
    ];
    assert_eq!(all, [23, 10, 6, 4, 0]);
    for window in [Duration::from_secs(3600), DAY] {
        let stats = queue.type_stats(window).await.unwrap();
        let [figures] = &stats.types[..] else { panic!("{stats:?}") };
        assert_eq!(figures.job_type.as_ref().map(ToString::to_string).as_deref(), Some("test"));
        assert_eq!([figures.done, figures.failed, figures.dead], [23, 10, 4]);
        assert_eq!([figures.wait.count(), figures.run.count()], [33, 33]);
        assert!(figures.run.percentile(0.5) <= figures.run.percentile(1.0));
        assert!(stats.from <= stats.now && stats.now.since(stats.from) >= window);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_were_cancelled_and_entries_that_are_no_jobs_are_counted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start_with(patient(&server.url()), quick(3), obeys());
    until_async("the first sample", SOON, async || !queue.samples(DAY).await.unwrap().is_empty()).await;
    let later = ["XADD", "sf:{default}:jobs", "*", "type", "test", "id", "later", "delay_ms", "3600000"];
    server.cmd(&later);
    until_async("it to be delayed", SOON, async || queue.snapshot().await.unwrap().delayed == 1).await;
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "kind", "none"]);
    queue.cancel(&"later".parse().unwrap(), "ann", DAY).await.unwrap();
    until_async("both to have ended", SOON, async || {
        let snapshot = queue.snapshot().await.unwrap();
        let endings = redis::from_redis_value::<u64>(server.cmd(&["LLEN", "sf:{default}:endings"])).unwrap();
        snapshot.dead == 1 && snapshot.delayed == 0 && endings == 0
    })
    .await;
    fleet.stop().await;
    let samples = queue.samples(DAY).await.unwrap();
    let cancelled = sum(&samples, |sample| sample.cancelled) + counted(&server, "cancelled");
    let died = sum(&samples, |sample| sample.died) + counted(&server, "died");
    assert_eq!((cancelled, died), (1, 1));
    let stats = queue.type_stats(DAY).await.unwrap();
    let others = stats.types.last().unwrap();
    assert_eq!((others.job_type.as_ref(), others.dead), (None, 1), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_process_reports_nothing_and_its_leader_takes_a_sample() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let sent = Arc::new(AtomicU64::new(0));
    let reports = Arc::clone(&sent);
    let events = Events::new(vec![Arc::new(move |event: &Event<'_>| {
        if matches!(event, Event::Redis(RedisEvent::RoundTrip { command: "tally", .. })) {
            reports.fetch_add(1, Ordering::SeqCst);
        }
    })]);
    let builder = Fleet::builder(config(&server.url())).events(events);
    let fleet = Running::of(builder.handler_with("test", quick(1), Acts::well()).unwrap().build());
    until_async("the first sample", SOON, async || !queue.samples(DAY).await.unwrap().is_empty()).await;
    fleet.stop().await;
    assert_eq!(sent.load(Ordering::SeqCst), 0);
    let kept = [COUNTS, SAMPLES].map(|key| server.cmd(&["EXISTS", key]));
    assert_eq!(kept, [redis::Value::Int(0), redis::Value::Int(1)]);
    let sample = queue.samples(DAY).await.unwrap().remove(0);
    assert_eq!((sample.span, sample.arrived, sample.oldest_waiting), (Duration::ZERO, 0, None));
}
