//! Hooks: their notifications, and that nothing they do changes the outcome of a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use streamfleet::hooks::{BeforeHandle, Hook, HookError, Publish, QueueLength, RetryHandle};
use streamfleet::job::State;
use streamfleet::{Fleet, JobError, Producer, Submission};
use tokio::sync::Semaphore;

use super::dispatch::{Faults, Heard, Held, SOON, attentive, builder};
use harness::fleet::{Acts, Running, queue, quick, submit, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn hooks_are_called_for_every_attempt_under_their_documented_names() {
    let server = RedisServer::start();
    let (queue, heard) = (queue(&server).await, Heard::default());
    let handler = Acts::new(|context, payload| match (payload, context.attempt()) {
        (b"1", 1) => Err(JobError::retry("not yet")),
        (b"2", _) => Err(JobError::fatal("never")),
        (b"3", _) if !context.is_redelivered() => Err(JobError::snooze(Duration::from_millis(1))),
        _ => Ok(Value::Null),
    });
    let builder = builder(&server.url(), Publish::None).hook(heard.clone());
    let fleet = Running::of(builder.handler_with("test", quick(3), handler).unwrap().build());
    let mut want: Vec<String> = Vec::new();
    let retried =
        ["before 1 test default", "retry 1 not yet in 10ms", "before 2 test default", "after 2 succeeded"];
    let dead = ["before 1 test default", "failed 1 fatal never"];
    for (payload, notes) in
        [("0", &["before 1 test default", "after 1 succeeded"][..]), ("1", &retried), ("2", &dead)]
    {
        want.extend(notes.iter().map(ToString::to_string));
        submit(&queue, payload).await;
        until_async(&format!("all notifications about {payload}"), SOON, async || {
            heard.of_jobs().len() >= want.len()
        })
        .await;
        assert_eq!(heard.of_jobs(), want);
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_process_delivers_all_pending_notifications() {
    let server = RedisServer::start();
    let (queue, heard, handler) = (queue(&server).await, Heard::default(), Acts::well());
    let builder = builder(&server.url(), Publish::None).hook(heard.clone());
    let fleet = Running::of(builder.handler_with("test", quick(3), handler.clone()).unwrap().build());
    for _ in 0..200 {
        submit(&queue, "{}").await;
    }
    until_async("the last handler to begin", SOON, async || handler.all_runs() == 200).await;
    fleet.stop().await;
    assert_eq!(heard.of_jobs().iter().filter(|note| *note == "after 1 succeeded").count(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_length_is_reported_while_no_job_starts_or_ends() {
    let server = RedisServer::start();
    let (queue, heard, gate) = (queue(&server).await, Heard::default(), Arc::new(Semaphore::new(0)));
    let mut config = attentive(&server.url(), Publish::None);
    config.worker.queues.values_mut().for_each(|queue| queue.concurrency = 1);
    let builder = Fleet::builder(config).hook(heard.clone()).middleware(Held(Arc::clone(&gate)));
    let fleet = Running::of(builder.handler_with("test", quick(3), Acts::well()).unwrap().build());
    for _ in 0..3 {
        submit(&queue, "{}").await;
    }
    let stuck = |length: &QueueLength| (length.waiting, length.running) == (2, 1);
    until_async("the stuck queue to be reported three times", SOON, async || {
        !heard.of_jobs().is_empty() && heard.lengths().iter().filter(|length| stuck(length)).count() >= 3
    })
    .await;
    assert_eq!(heard.of_jobs(), ["before 1 test default"]);
    let ages: Vec<_> =
        heard.lengths().iter().filter(|length| stuck(length)).map(|length| length.oldest_waiting).collect();
    assert!(ages.windows(2).all(|pair| pair[0] < pair[1]), "{ages:?}");
    gate.add_permits(3);
    until_async("the empty queue to be reported", SOON, async || {
        heard.lengths().last().is_some_and(|length| length.waiting + length.running == 0)
    })
    .await;
    fleet.stop().await;
}

/// How a hook misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Errs,
    Panics,
    Waits,
    Blocks,
}

struct Bad(Way, Arc<AtomicUsize>);

impl Bad {
    async fn act(&self) -> Result<(), HookError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        match self.0 {
            Way::Errs => Err("no".into()),
            Way::Panics => panic!("no"),
            Way::Waits => std::future::pending().await,
            Way::Blocks => loop {
                std::thread::park();
            },
        }
    }
}

impl Hook for Bad {
    async fn before_handle(&self, _: &BeforeHandle) -> Result<(), HookError> {
        self.act().await
    }

    async fn retry_handle(&self, _: &RetryHandle) -> Result<(), HookError> {
        self.act().await
    }
}

/// Runs a fleet with a hook that misbehaves in this way: all jobs end soon, as they would without it, another hook is
/// notified of all of them, and the fault is counted.
async fn changes_nothing(way: Way, fault: &str) {
    // Four calls for each are fewer than may wait for the other hook.
    const JOBS: usize = 200;
    let server = RedisServer::start();
    let (queue, heard, faults) = (queue(&server).await, Heard::default(), Faults::default());
    let handler = Acts::new(|context, _| match context.attempt() {
        1 => Err(JobError::retry("not yet")),
        _ => Ok(Value::Null),
    });
    let calls = Arc::new(AtomicUsize::new(0));
    let builder =
        builder(&server.url(), Publish::None).hook(Bad(way, Arc::clone(&calls))).hook(heard.clone());
    let builder = builder.events(faults.events());
    let fleet = Running::of(builder.handler_with("test", quick(3), handler.clone()).unwrap().build());
    let mut last = None;
    for _ in 0..JOBS {
        last = Some(submit(&queue, "{}").await);
    }
    let began = Instant::now();
    until_empty(&queue).await;
    let took = began.elapsed();
    until_state(&queue, &last.unwrap(), State::Done).await;
    assert_eq!((handler.jobs(), handler.all_runs()), (JOBS, 2 * JOBS as u32));
    assert!(took < Duration::from_secs(10), "{way:?}: {took:?}");
    until_async(&format!("{fault} to be counted"), SOON, async || faults.count(fault) > 0).await;
    until_async("the other hook to be notified of all", SOON, async || heard.of_jobs().len() == 4 * JOBS)
        .await;
    let stopping = Instant::now();
    fleet.stop().await;
    assert!(stopping.elapsed() < SOON, "{way:?}");
    assert!(calls.load(Ordering::Relaxed) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_hook_changes_nothing_and_is_counted() {
    changes_nothing(Way::Errs, "error").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_hook_changes_nothing_and_is_counted() {
    changes_nothing(Way::Panics, "panic").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_never_returns_changes_nothing_and_times_out() {
    changes_nothing(Way::Waits, "timeout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_blocks_its_thread_forever_changes_nothing() {
    changes_nothing(Way::Blocks, "timeout").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_that_a_slow_hook_misses_are_counted() {
    let server = RedisServer::start();
    let (queue, faults, calls) = (queue(&server).await, Faults::default(), Arc::new(AtomicUsize::new(0)));
    let builder = builder(&server.url(), Publish::None).hook(Bad(Way::Waits, Arc::clone(&calls)));
    let builder = builder.events(faults.events());
    let fleet = Running::of(builder.handler_with("test", quick(3), Acts::well()).unwrap().build());
    let jobs = (0..2000).map(|_| Submission::new("test").unwrap());
    let producer = Producer::new(queue.clone());
    producer.submit_all(jobs).await.unwrap();
    until_empty(&queue).await;
    until_async("dropped notifications to be counted", SOON, async || faults.dropped("hook") > 2000).await;
    fleet.stop().await;
}
