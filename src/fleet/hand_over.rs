//! Takes the next job of a chain to another queue: submits it there under an id that is accepted once. If this process dies
//! before Redis has taken the end of the hand-over, another one repeats it, and finds the job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::broker::Broker;
use crate::broker::mutex::lock;
use crate::job::{Backoff, Encoding, HandOver, JobId, Policy, QueueName, Tracking};
use crate::worker::{Handler, JobContext, JobError, RawPayload};
use crate::{Producer, Submission, SubmitError};

/// How long the id of a job is remembered after it was handed over. A hand-over runs again within seconds, unless its server is
/// away in between.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// A queue whose server did not answer is left alone for this long …
const PAUSE: Duration = Duration::from_secs(2);

/// … and while one hand-over tries it, at most for as long as that may run.
const TRIAL: Duration = Duration::from_secs(30);

/// The most queues that are remembered as away.
const MAX_AWAY: usize = 1000;

/// Where the connection to Redis is, once there is one.
pub(super) type Connected = Arc<Mutex<Option<Broker>>>;

/// The handler of these jobs.
pub(super) struct Carrier {
    broker: Connected,
    away: Away,
}

impl Carrier {
    /// Returns a handler that submits over this connection.
    pub(super) fn new(broker: Connected) -> Self {
        Self { broker, away: Away::default() }
    }
}

/// The queues whose servers did not answer a moment ago, each with the time until which it is left alone. Only one hand-over at
/// a time tries such a queue: otherwise all slots would soon wait for a server that is away.
#[derive(Default)]
struct Away(Mutex<HashMap<QueueName, Instant>>);

impl Away {
    /// Returns for how long a queue has to be left alone; `None` if the caller may try it.
    fn wait(&self, queue: &QueueName, now: Instant) -> Option<Duration> {
        let mut queues = lock(&self.0);
        let until = queues.get_mut(queue)?;
        let left = until.saturating_duration_since(now);
        if left.is_zero() {
            *until = now + TRIAL;
            return None;
        }
        Some(left)
    }

    /// Notes whether the server of a queue has answered.
    fn note(&self, queue: &QueueName, answers: bool, now: Instant) {
        let mut queues = lock(&self.0);
        if answers {
            queues.remove(queue);
        } else if queues.len() < MAX_AWAY || queues.contains_key(queue) {
            queues.insert(queue.clone(), now + PAUSE);
        }
    }
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
    patient.timeout(TRIAL).tracking(Tracking::All)
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
        if let Some(left) = self.away.wait(&queue, Instant::now()) {
            let why = format!("the queue {queue} does not take jobs now: its server did not answer");
            return Err(JobError::retry_after(left, why));
        }
        let answer = Producer::new(broker.queue(queue.clone())).submit(job).await;
        self.away.note(&queue, !matches!(answer, Err(SubmitError::Broker(_))), Instant::now());
        match answer {
            Ok(id) => Ok(HandedOver { queue, id: id.to_string() }),
            Err(error) if may_pass(&error) => {
                Err(JobError::retry(format!("the queue {queue} does not take jobs now: {error}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hand_over_at_a_time_tries_a_queue_whose_server_is_away() {
        let (away, now) = (Away::default(), Instant::now());
        let [mail, other]: [QueueName; 2] = ["mail", "other"].map(|name| name.parse().unwrap());
        assert_eq!(away.wait(&mail, now), None);
        away.note(&mail, false, now);
        assert_eq!((away.wait(&mail, now), away.wait(&other, now)), (Some(PAUSE), None));
        assert_eq!(away.wait(&mail, now + PAUSE), None, "this one tries");
        assert_eq!(away.wait(&mail, now + PAUSE), Some(TRIAL), "the others wait");
        assert_eq!(away.wait(&mail, now + PAUSE + TRIAL), None, "the first one was cut short");
        away.note(&mail, true, now);
        assert_eq!(away.wait(&mail, now), None);
        assert_eq!(away.wait(&mail, now), None);
    }

    #[test]
    fn only_so_many_queues_are_remembered() {
        let (away, now) = (Away::default(), Instant::now());
        for nth in 0..MAX_AWAY + 5 {
            away.note(&format!("q{nth}").parse().unwrap(), false, now);
        }
        assert_eq!(lock(&away.0).len(), MAX_AWAY);
        away.note(&"q0".parse().unwrap(), false, now + PAUSE);
        assert_eq!(away.wait(&"q0".parse().unwrap(), now + PAUSE), Some(PAUSE));
    }
}
