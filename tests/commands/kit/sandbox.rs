//! `testing::Sandbox`: a fleet on a private server.

use std::time::Duration;

use redis::ConnectionLike;
use serde_json::Value;
use streamfleet::job::{Backoff, Policy, State};
use streamfleet::testing::{Error, Sandbox};
use streamfleet::{Builder, Fleet, FleetConfig, JobError, Submission};

use harness::fleet::Acts;
use harness::wait::until_async;

const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(20);

/// Returns a fleet whose retries wait an hour.
fn fleet(handler: Acts) -> Builder {
    let hourly = Policy::default().max_attempts(2).backoff(Backoff::Fixed(HOUR)).jitter(0.0);
    Fleet::builder(FleetConfig::default()).handler_with("test", hourly, handler).unwrap()
}

fn job() -> Submission {
    Submission::new("test").unwrap()
}

fn connection(url: &str) -> redis::RedisResult<redis::Connection> {
    redis::Client::open(url)?.get_connection_with_timeout(SOON)
}

#[tokio::test]
async fn a_job_due_in_an_hour_runs_when_time_is_advanced_by_an_hour() {
    let handler = Acts::well();
    let sandbox = Sandbox::start(fleet(handler.clone())).await.unwrap();
    let first = sandbox.submit(job().delay(HOUR)).await.unwrap();
    let second = sandbox.submit(job().delay(2 * HOUR)).await.unwrap();
    assert_eq!(sandbox.advance(HOUR - Duration::from_secs(60)).await.unwrap(), 2);
    sandbox.until_idle().await.unwrap();
    assert_eq!(sandbox.snapshot().await.unwrap().delayed, 2);
    assert_eq!(sandbox.advance(Duration::from_secs(60)).await.unwrap(), 2);
    sandbox.until_state(&first, State::Done).await.unwrap();
    let status = sandbox.status(&second).await.unwrap().unwrap();
    assert_eq!((status.state, handler.all_runs()), (State::Scheduled, 1));
    sandbox.advance(HOUR).await.unwrap();
    sandbox.until_state(&second, State::Done).await.unwrap();
    assert_eq!(sandbox.advance(HOUR).await.unwrap(), 0, "nothing is left to move");
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn retries_take_no_time_and_dead_letters_can_be_read() {
    let handler = Acts::new(|_, _| Err(JobError::retry("no")));
    let sandbox = Sandbox::start(fleet(handler.clone())).await.unwrap();
    let id = sandbox.submit(job()).await.unwrap();
    sandbox.until_state(&id, State::Retrying).await.unwrap();
    sandbox.advance(HOUR).await.unwrap();
    sandbox.until_state(&id, State::Dead).await.unwrap();
    let letters = sandbox.dead_letters().await.unwrap();
    assert_eq!((letters.len(), letters[0].text("dead_reason")), (1, "exhausted".to_owned()));
    assert_eq!(handler.runs(&id), 2);
    sandbox.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn advancing_time_also_covers_a_delay_in_a_plain_xadd() {
    let handler = Acts::well();
    let sandbox = Sandbox::start(fleet(handler.clone())).await.unwrap();
    let mut redis = connection(&sandbox.url()).unwrap();
    let mut add = redis::cmd("XADD");
    add.arg(&["sf:{default}:jobs", "*", "type", "test", "delay_ms", "3600000"]);
    redis.req_command(&add).unwrap();
    sandbox
        .until("the job is in the delayed set", SOON, async || sandbox.snapshot().await.unwrap().delayed == 1)
        .await
        .unwrap();
    sandbox.advance(HOUR).await.unwrap();
    sandbox.until("it has run", SOON, async || handler.all_runs() == 1).await.unwrap();
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn every_job_leaves_a_record_and_sandboxes_are_isolated() {
    let (one, other) = (Acts::new(|_, _| Ok(Value::from(7))), Acts::well());
    let first = Sandbox::start(fleet(one.clone())).await.unwrap();
    let second = Sandbox::start(fleet(other.clone())).await.unwrap();
    let id = first.submit(job()).await.unwrap();
    let status = first.until_state(&id, State::Done).await.unwrap();
    assert_eq!(status.result.as_deref(), Some("7"));
    assert_eq!(second.status(&id).await.unwrap(), None);
    assert_eq!((one.all_runs(), other.all_runs()), (1, 0));
}

#[tokio::test]
async fn an_unmet_condition_is_reported_with_the_contents_of_the_queue() {
    let handler = Acts::new(|_, payload| match payload {
        b"" => Err(JobError::fatal("no payload")),
        _ => Err(JobError::snooze(HOUR)),
    });
    let sandbox = Sandbox::start(fleet(handler)).await.unwrap();
    let dead = sandbox.submit(job()).await.unwrap();
    let later = sandbox.submit(job().json(&1).unwrap()).await.unwrap();
    sandbox.until_state(&dead, State::Dead).await.unwrap();
    sandbox.until_state(&later, State::Scheduled).await.unwrap();
    let unmet = sandbox.until("two mails are sent", Duration::from_millis(100), async || false).await;
    let Err(error @ Error::Unmet(_)) = unmet else { panic!("{unmet:?}") };
    let shown = error.to_string().replace(&dead.to_string(), "[dead]").replace(&later.to_string(), "[later]");
    let (start, due) = shown.split_once("due in 3").unwrap();
    let (seconds, rest) = due.split_once(" s\n").unwrap();
    assert!(seconds.parse::<f64>().is_ok_and(|seconds| seconds <= 600.0), "{shown}");
    insta::assert_snapshot!(format!("{start}due in [soon]\n{rest}"), @r"
    timed out after 100ms waiting until two mails are sent
    queue default: 0 waiting, 0 running, 1 delayed, 1 dead
      delayed [later] test: due in [soon]
      dead [dead] test: fatal: no payload
    ");
    assert_eq!(format!("{error:?}"), error.to_string(), "a test that returns the error prints it readably");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_sandbox_leaves_no_server_behind() {
    let sandbox = Sandbox::start(fleet(Acts::well())).await.unwrap();
    let url = sandbox.url();
    assert!(connection(&url).is_ok());
    drop(sandbox);
    until_async("the server to be gone", SOON, async || connection(&url).is_err()).await;
}
