//! Jobs for the handlers' tests.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use crate::job::{EntryId, Envelope, Failure, JobSpec, Lane, Outcome};
use crate::{Handler, JobContext, JobError, RawPayload};

/// The longest that any test waits.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the context of a job of type `report` with these additional fields.
pub(super) fn context(fields: &[(&str, &str)]) -> JobContext {
    context_until(Instant::now() + PATIENCE, fields)
}

/// Returns the context of a plain job that times out after `timeout`.
pub(super) fn context_for(timeout: Duration) -> JobContext {
    context_until(Instant::now() + timeout, &[])
}

fn context_until(deadline: Instant, fields: &[(&str, &str)]) -> JobContext {
    let fields =
        [("type", "report")].iter().chain(fields).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let envelope = Envelope::new(fields.collect::<Vec<_>>().into_iter());
    let job = JobSpec::parse(&envelope, EntryId::new(1700, 3), Lane::Normal).unwrap();
    JobContext::undelivered(job, envelope, "mail".parse().unwrap(), deadline)
}

/// Runs one attempt and cuts it short as a worker does. `Interrupted` means that the handler was dropped.
pub(super) async fn run<H>(handler: &H, payload: &[u8], context: JobContext) -> Result<Value, Outcome>
where
    H: Handler<Payload = RawPayload, Output = Value>,
{
    let payload = RawPayload(Bytes::copy_from_slice(payload));
    let (watched, cancellation) = (context.clone(), context.cancellation().clone());
    let mut running = pin!(handler.run(payload, context));
    let ended = tokio::select! {
        biased;
        ended = &mut running => return ended.map_err(JobError::into_outcome),
        () = time_is_up(&watched) => {
            cancellation.cancel();
            tokio::time::timeout(handler.grace(), running).await
        }
        () = cancellation.cancelled() => tokio::time::timeout(handler.grace(), running).await,
    };
    ended.map_err(|_dropped| Outcome::Interrupted)?.map_err(JobError::into_outcome)
}

/// Waits until an attempt's time is up, whose clock may be paused.
async fn time_is_up(context: &JobContext) {
    while !context.time_left().is_zero() {
        tokio::task::coop::unconstrained(tokio::time::sleep_until(context.deadline().into())).await;
    }
}

/// Returns the failure that an attempt ended with.
pub(super) fn failure(ended: Result<Value, Outcome>) -> Failure {
    match ended {
        Err(Outcome::Failed(failure)) => failure,
        other => panic!("not a failure: {other:?}"),
    }
}

/// Waits until `look` returns something.
pub(super) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Fails the test if `work` takes longer than [`PATIENCE`].
pub(super) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it is done in time")
}
