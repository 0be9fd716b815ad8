//! Events as log lines: what an operator needs to see, at a bounded rate, without payloads.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet_engine::mutex::lock;
use tracing::{debug, error, info, warn};

use crate::job::{PoolName, QueueName};
use streamfleet::event::{
    AlertEvent, Ending, Event, Finished, PoolEnding, ProgramEvent, PushResult, QueueEvent, RedisEvent,
    ReportEvent,
};

/// Lines per second about Redis, and about fences and leases: one line is enough.
const RARE: u32 = 1;

/// Lines per second about single jobs.
const JOBS: u32 = 10;

/// The target of the line about the end of each attempt.
pub(super) const ATTEMPTS: &str = "streamfleet::attempts";

/// Returns a listener that logs. Lines beyond the rate are counted, and the next line carries the count.
pub fn listener() -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
    let log = Log {
        redis: Throttle::new(RARE),
        failed: Throttle::new(JOBS),
        dead: Throttle::new(JOBS),
        fenced: Throttle::new(RARE),
        set_aside: Throttle::new(RARE),
        lost: Throttle::new(RARE),
        skipped: Throttle::new(JOBS),
        unserved: Throttle::new(JOBS),
        hook: Throttle::new(RARE),
        dropped_notifications: Throttle::new(RARE),
        spans: Throttle::new(RARE),
        programs: Throttle::new(JOBS),
        alerts: Throttle::new(JOBS),
    };
    Arc::new(move |event| log.write(event))
}

struct Log {
    redis: Throttle,
    failed: Throttle,
    dead: Throttle,
    fenced: Throttle,
    set_aside: Throttle,
    lost: Throttle,
    skipped: Throttle,
    unserved: Throttle,
    hook: Throttle,
    dropped_notifications: Throttle,
    spans: Throttle,
    programs: Throttle,
    alerts: Throttle,
}

impl Log {
    fn write(&self, event: &Event<'_>) {
        match *event {
            Event::Started { .. } | Event::Finished(_) => self.attempt(event),
            Event::Failed { queue, job_type, job, kind, error } => self.failed.then(|suppressed| {
                let kind = kind.as_str();
                info!(%queue, %job_type, %job, kind, error, suppressed, "a handler failed");
            }),
            Event::Queue { queue, event } => self.queue(queue, event),
            Event::Program(ProgramEvent::PoolEnded { pool, ending, why }) => {
                self.program_ended(pool, ending, why)
            }
            Event::Redis(RedisEvent::Error { kind, error }) => {
                self.redis.then(|suppressed| warn!(kind, error, suppressed, "a redis command failed"));
            }
            Event::Redis(RedisEvent::Reconnected { times }) => info!(times, "connected to redis again"),
            Event::Report(event) => self.report(event),
            Event::Alert(event) => self.alert(event),
            Event::Ran { .. }
            | Event::Lost { .. }
            | Event::Program(ProgramEvent::ChildEnded { .. } | ProgramEvent::Pool { .. })
            | Event::Redis(RedisEvent::RoundTrip { .. } | RedisEvent::Contact { .. })
            // Who reports them also says in the log what follows.
            | Event::Database(_)
            | Event::Stopping => {}
        }
    }

    /// Logs what happens to a queue.
    fn queue(&self, queue: &QueueName, event: QueueEvent<'_>) {
        match event {
            QueueEvent::Fenced => {
                self.fenced.then(|suppressed| info!(%queue, suppressed, "an outcome came too late"));
            }
            QueueEvent::SetAside { .. } | QueueEvent::TypeUnserved { .. } => self.stuck(queue, event),
            QueueEvent::Unserved { why } => {
                error!(%queue, why, "a queue is not served; retrying, other queues are not affected");
            }
            QueueEvent::Served => info!(%queue, "a queue is served"),
            QueueEvent::ClockSetBack { by } => warn!(
                %queue, ?by,
                "the clock of redis was set back; jobs that were delayed while it was ahead run later by this much"
            ),
            QueueEvent::LeaseLost => self.lost.then(|suppressed| {
                warn!(%queue, suppressed, "a lease was lost; its handler is cancelled");
            }),
            QueueEvent::Claimed { jobs } => info!(%queue, jobs, "took over jobs of a worker that stopped responding"),
            QueueEvent::OrphansReclaimed { count } => {
                warn!(%queue, count, "made entries pending again that nobody held; their jobs run again");
            }
            QueueEvent::BodiesLost { entries } => {
                error!(%queue, entries, "somebody deleted pending entries; their jobs are lost");
            }
            QueueEvent::GroupRecreated => error!(%queue, "somebody deleted streams or groups; recreating them"),
            QueueEvent::Leading { leading } => debug!(%queue, leading, "leadership changed"),
            QueueEvent::Promoted { jobs, late } => debug!(%queue, jobs, ?late, "delayed jobs became due"),
            QueueEvent::CronTicked { entry, jobs, late } => {
                debug!(%queue, %entry, jobs, ?late, "a recurring job was submitted");
            }
            QueueEvent::CronSkipped { entry, ticks } => self.skipped.then(|suppressed| {
                warn!(%queue, %entry, ticks, suppressed, "ticks of a recurring job were missed and are skipped");
            }),
            QueueEvent::Evicted { .. }
            | QueueEvent::ArchiveFailed { .. }
            | QueueEvent::Archived { .. }
            | QueueEvent::CampaignStopped { .. } => about_letters(queue, event),
            QueueEvent::TaskFailed { task, why } => warn!(%queue, task, why, "a task has failed"),
            QueueEvent::Parked { .. }
            | QueueEvent::Admitted { .. }
            | QueueEvent::MovedToWaitlists { .. }
            | QueueEvent::LeftWaitlists { .. }
            | QueueEvent::Joined { .. }
            | QueueEvent::LongestRun { .. }
            | QueueEvent::Limited { .. }
            | QueueEvent::PromoterPolled
            | QueueEvent::Surveyed { .. }
            | QueueEvent::UnservedTypes { .. }
            | QueueEvent::Campaigns { .. }
            | QueueEvent::Read { .. }
            | QueueEvent::QueueLength { .. } => {}
        }
    }

    /// Logs the beginning and the end of an attempt.
    fn attempt(&self, event: &Event<'_>) {
        if let Event::Started { queue, job_type, job, attempt, wait } = *event {
            debug!(%queue, %job_type, %job, attempt, ?wait, "a handler starts");
        }
        if let Event::Finished(ref end) = *event {
            self.finished(end);
        }
    }

    /// Logs what keeps jobs waiting until a person does something.
    fn stuck(&self, queue: &QueueName, event: QueueEvent<'_>) {
        if let QueueEvent::SetAside { job, keys, error } = event {
            self.set_aside.then(|suppressed| {
                error!(
                    %queue, %job, error, keys, suppressed,
                    "a job is set aside until its keys or the permissions on them are fixed; it is retried automatically"
                );
            });
        }
        if let QueueEvent::TypeUnserved { job_type, jobs, near } = event {
            self.unserved.then(|suppressed| {
                warn!(
                    %queue, %job_type, jobs, did_you_mean = near.unwrap_or("-"), suppressed,
                    "no live worker knows the type of waiting jobs"
                );
            });
        }
    }

    /// Logs what hooks, the stream or the collector missed.
    fn report(&self, event: ReportEvent<'_>) {
        match event {
            ReportEvent::HookFailed { hook, kind, error } => self.hook.then(|suppressed| {
                let kind = kind.as_str();
                warn!(hook, kind, error, suppressed, "a hook failed; jobs are not affected");
            }),
            ReportEvent::NotificationsDropped { recipient, notifications } => {
                self.dropped_notifications.then(|suppressed| {
                    let recipient = recipient.as_str();
                    warn!(
                        recipient,
                        notifications, suppressed, "notifications were dropped; jobs are not affected"
                    );
                });
            }
            ReportEvent::Unexported { spans, loss, why } => self.spans.then(|suppressed| {
                let reason = loss.as_str();
                warn!(spans, reason, why, suppressed, "spans were lost; jobs are not affected");
            }),
            // Once when it begins and once when it is over: the metric counts the rest.
            ReportEvent::MetricsPushed { result: PushResult::Accepted, failures: 1.., why: _ } => {
                info!("metrics reach the collector again");
            }
            ReportEvent::MetricsPushed { result, failures: 1, why } => {
                let reason = result.as_str();
                warn!(reason, why, "metrics do not reach the collector; jobs are not affected");
            }
            ReportEvent::MetricsPushed { .. }
            | ReportEvent::Published { .. }
            | ReportEvent::Exported { .. } => {}
        }
    }

    /// Logs what happens to incidents, and sinks that do not take messages.
    fn alert(&self, event: AlertEvent<'_>) {
        match event {
            AlertEvent::IncidentChanged { incident } => self.alerts.then(|suppressed| {
                let (kind, state) = (incident.kind.as_str(), incident.state.as_str());
                let queue = incident.queue.as_ref().map_or("-", |queue| queue.as_str());
                warn!(
                    incident = incident.id.as_str(),
                    kind,
                    queue,
                    key = incident.key,
                    state,
                    suppressed,
                    "an incident has changed"
                );
            }),
            AlertEvent::Failed { sink, why, is_given_up } => self.alerts.then(|suppressed| {
                warn!(%sink, why, is_given_up, suppressed, "a sink did not take a message; jobs are not affected");
            }),
            AlertEvent::Incidents { .. } | AlertEvent::Sent { .. } => {}
        }
    }

    /// Logs the end of a program of a pool: a warning unless the pool itself has ended it.
    fn program_ended(&self, pool: &PoolName, ending: PoolEnding, why: &str) {
        let reason = ending.as_str();
        if ending == PoolEnding::Cut {
            self.programs.then(|suppressed| {
                info!(%pool, why, suppressed, "a program of a pool was ended because it went on with a job that was cut short");
            });
        } else if ending.is_failure() {
            self.programs.then(|suppressed| {
                warn!(%pool, reason, why, suppressed, "a program of a pool failed");
            });
        } else {
            debug!(%pool, reason, why, "a program of a pool has ended");
        }
    }

    fn finished(&self, end: &Finished<'_>) {
        let Finished { queue, job_type, job, attempt, ending, elapsed, delay, .. } = *end;
        let job_type = job_type.map_or("-", |job_type| job_type.as_str());
        if let Ending::Dead(reason) = ending {
            self.dead.then(|suppressed| {
                warn!(%queue, job_type, %job, %reason, suppressed, "a job is dead");
            });
        }
        let (outcome, elapsed_ms) = (ending.as_str(), elapsed.as_millis() as u64);
        match ending {
            // No handler ran, so there was no attempt.
            Ending::Snoozed if elapsed.is_zero() => {
                debug!(target: ATTEMPTS, %queue, job_type, %job, delay = ?delay.unwrap_or_default(), "a job is put off");
            }
            Ending::Interrupted if elapsed.is_zero() => {
                debug!(target: ATTEMPTS, %queue, job_type, %job, "a job is given back before it began");
            }
            Ending::Cancelled if elapsed.is_zero() => {
                debug!(target: ATTEMPTS, %queue, job_type, %job, "a job was cancelled while it did not run");
            }
            Ending::Succeeded
            | Ending::Retried
            | Ending::Dead(_)
            | Ending::Snoozed
            | Ending::Interrupted
            | Ending::Cancelled => {
                debug!(target: ATTEMPTS, %queue, job_type, %job, attempt, outcome, elapsed_ms, "an attempt ended");
            }
        }
    }
}

/// Logs what retention and campaigns do with dead letters.
#[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes only these events")]
fn about_letters(queue: &QueueName, event: QueueEvent<'_>) {
    match event {
        QueueEvent::Evicted { letters } => warn!(%queue, letters, "retention dropped dead letters"),
        QueueEvent::Archived { letters } => {
            info!(%queue, letters, "dead letters were written to the archive")
        }
        QueueEvent::ArchiveFailed { why } => {
            error!(%queue, why, "the archive cannot be written; dead letters stay although retention would drop them");
        }
        QueueEvent::CampaignStopped { campaign, why } => {
            warn!(%queue, campaign, why, "a campaign stopped itself");
        }
        _ => {}
    }
}

/// Lets `per_second` lines per second pass, and counts the others.
struct Throttle {
    per_second: u32,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    began: Option<Instant>,
    passed: u32,
    suppressed: u64,
}

impl Throttle {
    fn new(per_second: u32) -> Self {
        Self { per_second, window: Mutex::default() }
    }

    fn then(&self, write: impl FnOnce(u64)) {
        // The lock is released before the line is written.
        let admitted = lock(&self.window).allow(self.per_second, Instant::now());
        if let Some(suppressed) = admitted {
            write(suppressed);
        }
    }
}

impl Window {
    /// Returns how many lines were suppressed before this one, or `None` if this one is suppressed as well.
    fn allow(&mut self, per_second: u32, now: Instant) -> Option<u64> {
        let fresh = self.began.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1));
        if fresh {
            (self.began, self.passed) = (Some(now), 0);
        }
        if self.passed >= per_second {
            self.suppressed += 1;
            return None;
        }
        self.passed += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::human::tests::shown;
    use super::*;
    use crate::job::JobId;

    #[test]
    fn what_was_no_attempt_is_not_called_one() {
        let (queue, job): (QueueName, JobId) = ("mail".parse().unwrap(), "a".parse().unwrap());
        let line = |ending, elapsed| {
            let mut end = Finished::malformed(&queue, &job, "");
            (end.ending, end.elapsed, end.delay) = (ending, elapsed, Some(Duration::from_secs(2)));
            shown(|| listener()(&Event::Finished(end)))
        };
        for (ending, want) in [
            (Ending::Snoozed, "a job is put off queue=mail job_type=\"-\" job=a delay=2s\n"),
            (Ending::Interrupted, "a job is given back before it began queue=mail job_type=\"-\" job=a\n"),
            (Ending::Cancelled, "a job was cancelled while it did not run queue=mail job_type=\"-\" job=a\n"),
        ] {
            let shown = line(ending, Duration::ZERO);
            assert!(shown.ends_with(want), "{shown}");
            assert!(line(ending, Duration::from_micros(1)).contains("an attempt ended"));
        }
    }

    #[test]
    fn a_program_that_was_cut_short_has_not_failed() {
        let pool = "php".parse().unwrap();
        let line = |ending| {
            shown(|| listener()(&Event::Program(ProgramEvent::PoolEnded { pool: &pool, ending, why: "x" })))
        };
        let (cut, crashed) = (line(PoolEnding::Cut), line(PoolEnding::Crashed));
        assert!(cut.contains("INFO") && !cut.contains("failed"), "{cut}");
        assert!(crashed.contains("WARN a program of a pool failed"), "{crashed}");
    }

    #[test]
    fn suppressed_lines_are_counted_in_the_next_line() {
        let (mut window, start) = (Window::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let admitted: Vec<_> = [0, 1, 2, 999, 1000, 2500].map(|ms| window.allow(2, at(ms))).into();
        assert_eq!(admitted, [Some(0), Some(0), None, None, Some(2), Some(0)]);
    }
}
