//! A hook that records its notifications, and a listener that counts those that were not delivered.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamfleet::event::{Event, Events, RedisEvent, ReportEvent};
use streamfleet::hooks::{
    AfterHandle, BeforeHandle, FailedHandle, Hook, HookError, Publish, QueueLength, RetryHandle,
};
use streamfleet::{Builder, Fleet, FleetConfig, Handled, JobContext, Middleware, Next};
use tokio::sync::Semaphore;

use harness::fleet::config;

/// How long a process may take to deliver notifications.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// All notifications of a hook, in order.
#[derive(Clone, Default)]
pub(super) struct Heard {
    jobs: Arc<Mutex<Vec<String>>>,
    lengths: Arc<Mutex<Vec<QueueLength>>>,
}

impl Heard {
    fn note(&self, what: String) -> impl Future<Output = Result<(), HookError>> + Send {
        self.jobs.lock().unwrap().push(what);
        async { Ok(()) }
    }

    /// Returns the notifications about jobs.
    pub(super) fn of_jobs(&self) -> Vec<String> {
        self.jobs.lock().unwrap().clone()
    }

    /// Returns the notifications about queue lengths.
    pub(super) fn lengths(&self) -> Vec<QueueLength> {
        self.lengths.lock().unwrap().clone()
    }
}

impl Hook for Heard {
    fn before_handle(&self, begun: &BeforeHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        let job_type = begun.about.job_type.as_ref().unwrap();
        self.note(format!("before {} {job_type} {}", begun.about.attempt, begun.about.queue))
    }

    fn after_handle(&self, ended: &AfterHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        self.note(format!("after {} {}", ended.about.attempt, ended.outcome.as_str()))
    }

    fn failed_handle(&self, failed: &FailedHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        self.note(format!("failed {} {} {}", failed.about.attempt, failed.reason, failed.error))
    }

    fn retry_handle(&self, failed: &RetryHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        self.note(format!("retry {} {} in {:?}", failed.about.attempt, failed.error, failed.delay))
    }

    async fn queue_length(&self, length: &QueueLength) -> Result<(), HookError> {
        self.lengths.lock().unwrap().push(length.clone());
        Ok(())
    }
}

/// What went wrong with notifications: `timeout`, `hook 3`, and so on.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Vec<String>>>);

impl Faults {
    /// Returns a listener that records here.
    pub(super) fn events(&self) -> Events {
        let faults = self.clone();
        Events::new(vec![Arc::new(move |event: &Event<'_>| faults.hear(event))])
    }

    fn hear(&self, event: &Event<'_>) {
        let fault = match event {
            Event::Report(ReportEvent::HookFailed { kind, .. }) => kind.as_str().to_owned(),
            Event::Report(ReportEvent::NotificationsDropped { recipient, notifications }) => {
                format!("{} {notifications}", recipient.as_str())
            }
            Event::Redis(RedisEvent::Error { kind, .. }) => format!("redis {kind}"),
            _ => return,
        };
        self.0.lock().unwrap().push(fault);
    }

    /// Returns how often this went wrong.
    pub(super) fn count(&self, fault: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|noted| *noted == fault).count()
    }

    /// Returns how many notifications a hook or the stream missed.
    pub(super) fn dropped(&self, whom: &str) -> u64 {
        let noted = self.0.lock().unwrap();
        let notifications =
            noted.iter().filter_map(|noted| noted.strip_prefix(whom)?.trim().parse::<u64>().ok());
        notifications.sum()
    }
}

/// Returns a configuration that reports queue lengths as often as it can and gives hooks little time.
pub(super) fn attentive(url: &str, publish: Publish) -> FleetConfig {
    let mut config = config(url);
    config.events.publish = publish;
    config.events.queue_length_every = Duration::from_secs(1);
    config.events.hook_timeout = Duration::from_millis(200);
    config
}

/// Returns a builder with that configuration.
pub(super) fn builder(url: &str, publish: Publish) -> Builder {
    Fleet::builder(attentive(url, publish))
}

/// Holds every job until there is a permit.
pub(super) struct Held(pub(super) Arc<Semaphore>);

impl Middleware for Held {
    async fn handle(&self, _context: &JobContext, next: Next<'_>) -> Handled {
        self.0.acquire().await?.forget();
        next.run().await
    }
}
