//! Takes the next job of a chain to another queue: submits it there under an id that is accepted once. If this process dies
//! before Redis has taken the end of the hand-over, another one repeats it, and finds the job.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;

use crate::broker::Broker;
use crate::broker::mutex::lock;
use crate::job::{Backoff, Encoding, HandOver, JobId, Policy, QueueName, Tracking};
use crate::worker::{Handler, JobContext, JobError, RawPayload};
use crate::{Producer, Submission, SubmitError};

/// How long the id of a job is remembered after it was handed over. A hand-over runs again within seconds, unless its server is
/// away in between.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where the connection to Redis is, once there is one.
pub(super) type Connected = Arc<Mutex<Option<Broker>>>;

/// The handler of these jobs.
pub(super) struct Carrier {
    pub(super) broker: Connected,
}

/// The result of a hand-over.
#[derive(Serialize)]
pub(super) struct HandedOver {
    queue: QueueName,
    id: String,
}

/// Until the other queue takes the job, it stays: neither failures nor lost workers end a hand-over.
pub(super) fn policy() -> Policy {
    let backoff =
        Backoff::Exponential { base: Duration::from_secs(1), factor: 2.0, max: Duration::from_secs(60) };
    let patient = Policy::default().max_attempts(u32::MAX).max_losses(u32::MAX).backoff(backoff);
    patient.timeout(Duration::from_secs(30)).tracking(Tracking::All)
}

impl Handler for Carrier {
    type Payload = RawPayload;
    type Output = HandedOver;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<HandedOver, JobError> {
        let order = HandOver::read(&payload.0).map_err(JobError::fatal)?;
        let id = HandOver::accepted_as(context.queue(), context.id()).map_err(JobError::fatal)?;
        let queue = order.queue.clone();
        let broker =
            lock(&self.broker).clone().ok_or_else(|| JobError::retry("there is no connection yet"))?;
        let job = submission(order, &id, &context).map_err(JobError::fatal)?;
        match Producer::new(broker.queue(queue.clone())).submit(job).await {
            Ok(id) => Ok(HandedOver { queue, id: id.to_string() }),
            Err(error) if may_pass(&error) => {
                Err(JobError::retry(format!("the queue {queue} does not take the job now: {error}")))
            }
            Err(error) => Err(JobError::fatal(format!("the queue {queue} can never take the job: {error}"))),
        }
    }
}

fn submission(order: HandOver, id: &JobId, context: &JobContext) -> Result<Submission, SubmitError> {
    let payload = order.payload.get().to_owned();
    let mut job = Submission::new(&order.job_type)?
        .payload(payload, Encoding::Json)?
        .lane(context.job().own_lane)
        .id(id.clone())
        .idempotent_for(REMEMBERED)
        .submitted_by(&order.parent, context.queue());
    if !order.then.is_empty() {
        job = job.then(&order.then)?;
    }
    if let Some(job_type) = &order.on_failure {
        job = job.on_failure(job_type)?;
    }
    if let Some(trace) = context.traceparent() {
        job = job.traceparent(trace).tracestate(context.tracestate().unwrap_or_default());
    }
    Ok(job)
}

/// Returns true if waiting, or a person who repairs the server, can help.
fn may_pass(error: &SubmitError) -> bool {
    matches!(error, SubmitError::Broker(_) | SubmitError::Full { .. } | SubmitError::Unconfirmed { .. })
}
