//! How rules turn the exit of a program into an outcome: the real binary, from its configuration to Redis.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::job::{JobId, State};

use harness::fleet::{queue, submit, until_state};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// The payload is the exit code and the last line on standard error.
const CONFIG: &str = r#"
[worker]
lease = "2s"
[types.test]
max_attempts = 2
backoff = { fixed = "1h" }
jitter = 0
[types.test.handler.exec]
command = ["sh", "-c", "read code words; echo $words >&2; exit $code"]
rules = [
  { exit = 3, then = "fatal" },
  { exit = 4, then = "retry" },
  { exit = 5, then = { retry_after = "2h" } },
  { exit = 6, then = { snooze = "3h" } },
  { matches = "(?i)duplicate order", then = "drop" },
  { exit = 7, then = "done" },
]
[telemetry]
listen = "off"
"#;

async fn send(queue: &Queue, payload: &str) -> JobId {
    submit(queue, payload).await
}

/// Returns in how many minutes a job in the delayed set is due, rounded.
async fn due_in_minutes(queue: &Queue, job: &JobId) -> u64 {
    let found = until_async("the job to be delayed", Duration::from_secs(20), async || {
        let upcoming = queue.delayed().page(0, 10).await.unwrap();
        upcoming.into_iter().find(|upcoming| upcoming.id == job.to_string())
    });
    let due = found.await.due;
    (due.since(queue.snapshot().await.unwrap().now).as_secs() + 30) / 60
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_rules_map_exit_codes_and_stderr_to_outcomes() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let _worker = Launch::new(&["-c", "{config}", "--redis", &server.url(), "worker"]).config(CONFIG).start();
    let fatal = send(&queue, "3 no such customer").await;
    let retried = send(&queue, "4").await;
    let retried_later = send(&queue, "5").await;
    let snoozed = send(&queue, "6").await;
    let dropped = send(&queue, "1 Duplicate order 7").await;
    send(&queue, "7 nothing to do").await;

    let status = until_state(&queue, &fatal, State::Dead).await;
    let letter = queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    let found = (letter.text("dead_reason"), letter.text("dead_error"));
    assert_eq!(found, ("fatal".to_owned(), "no such customer\nexit status: 3".to_owned()));

    until_state(&queue, &retried, State::Retrying).await;
    assert_eq!(due_in_minutes(&queue, &retried).await, 60, "as the policy says");
    until_state(&queue, &retried_later, State::Retrying).await;
    assert_eq!(due_in_minutes(&queue, &retried_later).await, 120, "not sooner than the rule says");
    assert_eq!(due_in_minutes(&queue, &snoozed).await, 180);
    let status = queue.status(&snoozed).await.unwrap().unwrap();
    assert_eq!((status.state, status.attempts.len()), (State::Scheduled, 0), "no attempt is spent");

    let status = until_state(&queue, &dropped, State::Cancelled).await;
    assert_eq!(status.error.as_deref(), Some("Duplicate order 7\nexit status: 1"));
    until_async("all else to be done", Duration::from_secs(20), async || {
        let snapshot = queue.snapshot().await.unwrap();
        (snapshot.waiting() + snapshot.running(), snapshot.delayed, snapshot.dead) == (0, 3, 1)
    })
    .await;
}
