//! How an attempt ended, as listeners see it.

use std::time::Duration;

use super::Ending;
use crate::job::{DeadReason, JobId, JobSpec, JobType, QueueName, Settlement};

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Finished<'a> {
    /// The queue that the job came from.
    pub queue: &'a QueueName,
    /// The type of the job; `None` for bytes that are not a job.
    pub job_type: Option<&'a JobType>,
    /// The job.
    pub job: &'a JobId,
    /// The number of the attempt, from 1; 0 for bytes that are not a job.
    pub attempt: u32,
    /// How it ended.
    pub ending: Ending,
    /// What went wrong, if anything did. It is the handler's text, and may contain whatever the handler put there.
    pub error: Option<&'a str>,
    /// After how long the job runs again, if that was decided.
    pub delay: Option<Duration>,
    /// How long the handler ran; zero if none ran.
    pub elapsed: Duration,
    /// The number of attempts of the job so far: failures, lost workers, and this one if its handler ran.
    pub attempts: u32,
    /// How long ago the job was accepted, by an estimate of Redis's clock; `None` for bytes that are not a job.
    pub age: Option<Duration>,
}

impl<'a> Finished<'a> {
    /// Describes the end of an attempt that led to this settlement. `elapsed` is how long the handler ran, and `age`
    /// how long ago the job was accepted.
    pub fn new(
        queue: &'a QueueName,
        job: &'a JobSpec,
        settlement: &'a Settlement,
        (elapsed, age): (Duration, Duration),
    ) -> Self {
        let (ending, error, delay) = match settlement {
            Settlement::Ack => (Ending::Succeeded, None, None),
            Settlement::Release | Settlement::Park(_) => (Ending::Interrupted, None, None),
            Settlement::Cancel(why) => (Ending::Cancelled, Some(why.as_str()), None),
            Settlement::Defer(to) => {
                let ending = if to.error.is_some() { Ending::Retried } else { Ending::Snoozed };
                (ending, to.error.as_deref(), Some(to.delay))
            }
            Settlement::Bury(burial) => (Ending::Dead(burial.reason), Some(burial.error.as_str()), None),
        };
        let ran = !elapsed.is_zero() || matches!(ending, Ending::Succeeded | Ending::Dead(DeadReason::Lost));
        Self {
            queue,
            job_type: Some(&job.job_type),
            job: &job.id,
            attempt: job.attempt.saturating_add(1),
            ending,
            error,
            delay,
            elapsed,
            attempts: job.attempt.saturating_add(job.lost).saturating_add(u32::from(ran)),
            age: Some(age),
        }
    }

    /// Describes the end of a job that was cancelled while no worker held it.
    pub fn cancelled(
        queue: &'a QueueName,
        job: &'a JobId,
        job_type: Option<&'a JobType>,
        why: &'a str,
    ) -> Self {
        Self { job_type, ending: Ending::Cancelled, ..Self::malformed(queue, job, why) }
    }

    /// Describes the end of bytes that are not a job, and why they are not.
    pub fn malformed(queue: &'a QueueName, job: &'a JobId, why: &'a str) -> Self {
        Self {
            queue,
            job_type: None,
            job,
            attempt: 0,
            ending: Ending::Dead(DeadReason::Malformed),
            error: Some(why),
            delay: None,
            elapsed: Duration::ZERO,
            attempts: 0,
            age: None,
        }
    }
}
