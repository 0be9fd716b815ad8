//! `testing::run`: one handler on a made-up job.

use std::time::Duration;

use serde_json::{Value, json};
use streamfleet::job::{
    Backoff, DeadReason, Encoding, EntryId, FailureKind, Lane, Outcome, Policy, Retry, Settlement,
};
use streamfleet::testing::{self, Ended, TestJob};
use streamfleet::{Handler, JobContext, JobError};

/// Does what its payload says.
struct Obeys;

impl Handler for Obeys {
    type Payload = String;
    type Output = Value;

    async fn run(&self, what: String, context: JobContext) -> Result<Value, JobError> {
        let hour = Duration::from_secs(3600);
        match what.as_str() {
            "facts" => Ok(facts(&context)),
            "nothing" => Ok(Value::Null),
            "tell" => {
                context.progress(40, "two of five");
                context.log("opened the file");
                Ok(Value::Null)
            }
            "fatal" => Err(JobError::fatal("no")),
            "after" => Err(JobError::retry_after(hour, "later")),
            "snooze" => Err(JobError::snooze(hour)),
            "drop" => Err(JobError::drop_job("withdrawn")),
            "panic" => panic!("as told"),
            "wait" => std::future::pending().await,
            "tidy" => {
                context.cancellation().cancelled().await;
                Ok(json!("tidied"))
            }
            other => Err(JobError::retry(other)),
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(200)
    }
}

fn facts(context: &JobContext) -> Value {
    json!({
        "id": context.id().to_string(),
        "type": context.job_type().as_str(),
        "queue": context.queue().as_str(),
        "lane": context.lane().as_str(),
        "attempt": context.attempt(),
        "redelivered": context.is_redelivered(),
        "fence": context.fence().to_string(),
        "tenant": context.header("tenant"),
        "traceparent": context.traceparent(),
        "msgpack": context.encoding() == Encoding::Msgpack,
        "seconds_left": context.time_left().as_secs_f64().ceil(),
    })
}

fn job(what: &str) -> TestJob {
    TestJob::new("test").json(&what)
}

async fn run(what: &str) -> Ended {
    testing::run(&Obeys, job(what)).await
}

#[tokio::test]
async fn a_handler_sees_every_property_of_the_made_up_job() {
    let job = TestJob::new("test")
        .msgpack(&"facts")
        .id("order-7")
        .queue("mail".parse().unwrap())
        .lane(Lane::High)
        .attempt(3)
        .lost(1)
        .fence(EntryId::new(5, 6))
        .header("tenant", "acme")
        .traceparent("00-ab-cd-01")
        .timeout(Duration::from_secs(60));
    let ended = testing::run(&Obeys, job).await;
    let want = json!({
        "id": "order-7", "type": "test", "queue": "mail", "lane": "high", "attempt": 3, "redelivered": true,
        "fence": "5-6", "tenant": "acme", "traceparent": "00-ab-cd-01", "msgpack": true, "seconds_left": 60.0,
    });
    assert_eq!(ended.result::<Value>(), Some(want));
    assert!(ended.is_done());
    assert_eq!((ended.error(), ended.settlement(&Policy::default())), (None, Settlement::Ack));
}

#[tokio::test]
async fn every_way_to_fail_is_settled_as_a_fleet_would_settle_it() {
    let hour = Duration::from_secs(3600);
    let policy = Policy::default().backoff(Backoff::Fixed(Duration::from_secs(7)));
    let retried = run("boom").await;
    assert_eq!(retried.error(), Some("boom"));
    let Settlement::Defer(to) = retried.settlement(&policy) else { panic!("{retried:?}") };
    assert_eq!((to.delay, to.attempt), (Duration::from_secs(7), 1), "the policy's pause, without jitter");
    let last = testing::run(&Obeys, job("boom").attempt(4)).await.settlement(&policy);
    assert!(matches!(last, Settlement::Bury(burial) if burial.reason == DeadReason::Exhausted));
    let fatal = run("fatal").await.settlement(&policy);
    assert!(matches!(fatal, Settlement::Bury(burial) if burial.reason == DeadReason::Fatal));
    let Settlement::Defer(to) = run("after").await.settlement(&policy) else { panic!("deferred") };
    assert_eq!((to.delay, to.attempt), (hour, 1));
    let snoozed = run("snooze").await;
    assert_eq!(*snoozed.outcome(), Outcome::Snoozed(hour));
    let Settlement::Defer(to) = snoozed.settlement(&policy) else { panic!("deferred") };
    assert_eq!((to.delay, to.attempt), (hour, 0), "no attempt is spent");
    let dropped = run("drop").await;
    assert_eq!(
        (dropped.error(), dropped.outcome()),
        (Some("withdrawn"), &Outcome::Dropped("withdrawn".into()))
    );
    assert_eq!(dropped.settlement(&policy), Settlement::Cancel("withdrawn".into()));
    let nothing = run("nothing").await;
    assert_eq!((nothing.outcome(), nothing.result::<()>()), (&Outcome::Done(None), Some(())));
}

#[tokio::test]
async fn the_progress_and_log_of_a_handler_are_recorded() {
    let ended = run("tell").await;
    assert_eq!(
        (ended.progress(), ended.log()),
        (Some((40, "two of five")), &["opened the file".to_owned()][..])
    );
    let silent = run("nothing").await;
    assert_eq!((silent.progress(), silent.log().len()), (None, 0));
}

#[tokio::test]
async fn a_panic_is_caught_and_retried() {
    let ended = run("panic").await;
    assert_eq!(ended.error(), Some("the handler panicked: as told"));
    assert!(matches!(ended.outcome(), Outcome::Failed(failure) if failure.kind == FailureKind::Panic));
}

#[tokio::test]
async fn an_attempt_ends_at_its_timeout() {
    let ended = testing::run(&Obeys, job("wait").timeout(Duration::from_millis(50))).await;
    let Outcome::Failed(failure) = ended.outcome() else { panic!("{ended:?}") };
    assert_eq!((failure.kind, failure.retry), (FailureKind::Timeout, Retry::Policy));
    assert!(ended.elapsed() >= Duration::from_millis(50), "{ended:?}");
    let own = testing::run(&Obeys, job("wait").field("timeout_ms", "10")).await;
    assert!(own.error().is_some_and(|error| error.ends_with("timeout of 10ms")), "{own:?}");
}

#[tokio::test]
async fn a_cancelled_attempt_is_given_back_unless_it_succeeds_in_its_grace() {
    for pause in [Duration::ZERO, Duration::from_millis(20)] {
        let waiting = testing::run(&Obeys, job("wait").cancel_after(pause)).await;
        assert_eq!(*waiting.outcome(), Outcome::Interrupted, "{pause:?}");
        assert_eq!(waiting.settlement(&Policy::default()), Settlement::Release);
        let tidied = testing::run(&Obeys, job("tidy").cancel_after(pause)).await;
        assert_eq!(tidied.result::<String>().as_deref(), Some("tidied"), "{pause:?}");
    }
}

#[tokio::test]
async fn malformed_jobs_and_payloads_are_buried_as_in_production() {
    let wrong = testing::run(&Obeys, TestJob::new("test").json(&7)).await;
    assert!(wrong.error().is_some_and(|error| error.contains("not the expected JSON")), "{wrong:?}");
    let settlement = wrong.settlement(&Policy::default());
    assert!(matches!(settlement, Settlement::Bury(burial) if burial.reason == DeadReason::Fatal));
    let malformed = testing::run(&Obeys, job("facts").field("delay_ms", "soon")).await;
    assert!(matches!(malformed.outcome(), Outcome::Malformed(why) if why.contains("delay_ms")));
    let settlement = malformed.settlement(&Policy::default());
    assert!(matches!(settlement, Settlement::Bury(burial) if burial.reason == DeadReason::Malformed));
}
