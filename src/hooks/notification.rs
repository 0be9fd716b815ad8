//! Notifications for hooks and the stream. They own their data, and are made from an event only if somebody wants them.
//! No notification contains a payload.

use std::time::Duration;

use crate::event::{Ending, Event, Finished, QueueEvent};
use crate::job::{ConsumerName, DeadReason, JobId, JobType, QueueName, cut};

/// The longest error text in the stream, in bytes. Longer ones are cut.
const ERROR_BYTES: usize = 200;

/// Which job and which attempt a notification is about, and which process sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The queue that the job came from.
    pub queue: QueueName,
    /// The type of the job; `None` for bytes that are not a job.
    pub job_type: Option<JobType>,
    /// The job.
    pub job: JobId,
    /// The number of the attempt, from 1; 0 for bytes that are not a job.
    pub attempt: u32,
    /// The process that sent the notification. For a lost attempt, this is the process that claimed its entry.
    pub worker: ConsumerName,
}

/// A handler is about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BeforeHandle {
    /// The attempt.
    pub about: About,
    /// How long the job waited from being ready to being started.
    pub wait: Duration,
}

/// An attempt ended without a failure, and Redis has recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AfterHandle {
    /// The attempt.
    pub about: About,
    /// How it ended: usually [`Ending::Succeeded`], otherwise snoozed, interrupted or cancelled.
    pub outcome: Ending,
    /// How long the handler ran.
    pub elapsed: Duration,
}

/// An attempt failed or was lost, and its job will run again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryHandle {
    /// The attempt.
    pub about: About,
    /// What went wrong: the handler's text, at most [`Failure::MAX_ERROR_BYTES`](crate::job::Failure::MAX_ERROR_BYTES).
    pub error: String,
    /// After how long the job runs again.
    pub delay: Duration,
    /// How long the handler ran; zero if that is not known.
    pub elapsed: Duration,
}

/// A job is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedHandle {
    /// The last attempt.
    pub about: About,
    /// Why the job is dead.
    pub reason: DeadReason,
    /// What went wrong: the handler's text, at most [`Failure::MAX_ERROR_BYTES`](crate::job::Failure::MAX_ERROR_BYTES).
    pub error: String,
    /// How long the handler ran; zero if none ran.
    pub elapsed: Duration,
}

/// The length of a queue. It is sent at regular intervals, so that a queue in which nothing moves is reported too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLength {
    /// The queue.
    pub queue: QueueName,
    /// Jobs that no worker has taken.
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Jobs in the delayed set.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest waiting job has been in its lane, or at gates.
    pub oldest_waiting: Option<Duration>,
}

/// One notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notification {
    BeforeHandle(BeforeHandle),
    AfterHandle(AfterHandle),
    RetryHandle(RetryHandle),
    FailedHandle(FailedHandle),
    QueueLength(QueueLength),
}

impl Notification {
    /// Returns the notification that this process sends for an event, if any.
    pub(super) fn of(event: &Event<'_>, worker: &ConsumerName) -> Option<Self> {
        match *event {
            Event::Started { queue, job_type, job, attempt, wait } => {
                let (job_type, worker) = (Some(job_type.clone()), worker.clone());
                let about = About { queue: queue.clone(), job_type, job: job.clone(), attempt, worker };
                Some(Self::BeforeHandle(BeforeHandle { about, wait }))
            }
            Event::Finished(ref finished) => Self::of_end(finished, worker),
            Event::Queue {
                queue,
                event: QueueEvent::QueueLength { waiting, running, delayed, dead, oldest_waiting },
            } => {
                let queue = queue.clone();
                let length = QueueLength { queue, waiting, running, delayed, dead, oldest_waiting };
                Some(Self::QueueLength(length))
            }
            Event::Ran { .. }
            | Event::Failed { .. }
            | Event::Lost { .. }
            | Event::Queue { .. }
            | Event::Program(_)
            | Event::Redis(_)
            | Event::Report(_)
            | Event::Alert(_)
            | Event::Database(_)
            | Event::Stopping => None,
        }
    }

    fn of_end(end: &Finished<'_>, worker: &ConsumerName) -> Option<Self> {
        // A job that was given back or deferred before its handler began had no attempt.
        let unrun = end.elapsed.is_zero();
        if unrun && matches!(end.ending, Ending::Succeeded | Ending::Snoozed | Ending::Interrupted) {
            return None;
        }
        let about = About {
            queue: end.queue.clone(),
            job_type: end.job_type.cloned(),
            job: end.job.clone(),
            attempt: end.attempt,
            worker: worker.clone(),
        };
        let (elapsed, error) = (end.elapsed, end.error.unwrap_or_default().to_owned());
        Some(match end.ending {
            Ending::Succeeded | Ending::Snoozed | Ending::Interrupted | Ending::Cancelled => {
                Self::AfterHandle(AfterHandle { about, outcome: end.ending, elapsed })
            }
            Ending::Retried => {
                let delay = end.delay.unwrap_or_default();
                Self::RetryHandle(RetryHandle { about, error, delay, elapsed })
            }
            Ending::Dead(reason) => Self::FailedHandle(FailedHandle { about, reason, error, elapsed }),
        })
    }

    /// Returns the queue whose stream the notification goes to.
    pub(super) fn queue(&self) -> &QueueName {
        match self {
            Self::BeforeHandle(notification) => &notification.about.queue,
            Self::AfterHandle(notification) => &notification.about.queue,
            Self::RetryHandle(notification) => &notification.about.queue,
            Self::FailedHandle(notification) => &notification.about.queue,
            Self::QueueLength(notification) => &notification.queue,
        }
    }

    /// Returns its fields in the stream.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::BeforeHandle(notification) => {
                notification.about.fields("before_handle", [("wait_ms", millis(notification.wait))])
            }
            Self::AfterHandle(notification) => {
                let outcome = ("outcome", notification.outcome.as_str().to_owned());
                notification
                    .about
                    .fields("after_handle", [outcome, ("elapsed_ms", millis(notification.elapsed))])
            }
            Self::RetryHandle(notification) => {
                let times =
                    [("delay_ms", millis(notification.delay)), ("elapsed_ms", millis(notification.elapsed))];
                let error = [
                    ("outcome", "retried".to_owned()),
                    ("error", cut(notification.error.clone(), ERROR_BYTES)),
                ];
                notification.about.fields("retry_handle", error.into_iter().chain(times))
            }
            Self::FailedHandle(notification) => {
                let job_type = notification.about.job_type.as_ref().map_or("", |job_type| job_type.as_str());
                let outcome = Ending::Dead(notification.reason).as_str().to_owned();
                let fields = [
                    ("outcome", outcome),
                    ("reason", notification.reason.as_str().to_owned()),
                    ("error", cut(notification.error.clone(), ERROR_BYTES)),
                    (
                        "fingerprint",
                        crate::job::fingerprint(job_type, notification.reason, &notification.error),
                    ),
                    ("elapsed_ms", millis(notification.elapsed)),
                ];
                notification.about.fields("failed_handle", fields)
            }
            Self::QueueLength(notification) => {
                let counts = [
                    ("waiting", notification.waiting),
                    ("running", notification.running),
                    ("delayed", notification.delayed),
                    ("dead", notification.dead),
                ];
                let counts = counts.map(|(name, count)| (name, count.to_string()));
                let oldest = notification.oldest_waiting.map(|age| ("oldest_waiting_ms", millis(age)));
                [("event", "queue_length".to_owned())].into_iter().chain(counts).chain(oldest).collect()
            }
        }
    }
}

impl About {
    fn fields(
        &self,
        event: &str,
        more: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Vec<(&'static str, String)> {
        let job_type = self.job_type.as_ref().map(|job_type| ("type", job_type.to_string()));
        let head = [("event", event.to_owned()), ("id", self.job.to_string())];
        let tail = [("attempt", self.attempt.to_string()), ("worker", self.worker.to_string())];
        head.into_iter().chain(job_type).chain(tail).chain(more).collect()
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end<'a>(queue: &'a QueueName, job: &'a JobId, ending: Ending, elapsed: Duration) -> Finished<'a> {
        Finished { elapsed, ending, attempt: 1, ..Finished::malformed(queue, job, "no type") }
    }

    #[test]
    fn every_run_is_reported_and_of_others_only_ends_and_retries() {
        let (queue, job, worker) = ("q".parse().unwrap(), "j".parse().unwrap(), "w".parse().unwrap());
        let told = |ending, ms| {
            let notification =
                Notification::of_end(&end(&queue, &job, ending, Duration::from_millis(ms)), &worker);
            notification.map_or_else(String::new, |notification| notification.fields()[0].1.clone())
        };
        let dead = Ending::Dead(DeadReason::Expired);
        let endings = [
            Ending::Succeeded,
            Ending::Snoozed,
            Ending::Interrupted,
            Ending::Cancelled,
            Ending::Retried,
            dead,
        ];
        let ran = endings.map(|ending| told(ending, 5));
        let after = "after_handle";
        assert_eq!(ran, [after, after, after, after, "retry_handle", "failed_handle"]);
        let unrun = endings.map(|ending| told(ending, 0));
        assert_eq!(unrun, ["", "", "", after, "retry_handle", "failed_handle"]);
    }

    #[test]
    fn the_stream_gets_a_short_error_and_the_fingerprint_of_the_whole() {
        let (queue, job, worker) = ("q".parse().unwrap(), "j".parse().unwrap(), "w".parse().unwrap());
        let error = "x".repeat(1000);
        let end = Finished {
            error: Some(&error),
            ..end(&queue, &job, Ending::Dead(DeadReason::Fatal), Duration::ZERO)
        };
        let fields = Notification::of_end(&end, &worker).unwrap().fields();
        let of = |name| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone());
        assert!(of("error").unwrap().len() <= ERROR_BYTES);
        assert_eq!(of("fingerprint"), Some(crate::job::fingerprint("", DeadReason::Fatal, &error)));
        assert_eq!((of("outcome"), of("reason")), (Some("dead".to_owned()), Some("fatal".to_owned())));
    }
}
