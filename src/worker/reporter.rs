//! Writes what attempts report to Redis: many attempts in one script, each at most twice per second and at its end.
//! Only the end of an attempt that has reported something waits for it, and not for long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::delivery::Delivery;
use crate::broker::{Queue, UnsentReport};
use crate::event::Events;
use crate::job::{ConsumerName, QueueName};

/// The pause between two rounds.
const EVERY: Duration = Duration::from_millis(500);

/// The number of attempts in one script.
const BATCH: usize = 50;

/// How long the end of an attempt waits for its last reports.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The attempts of one queue that have something to report.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) queue: QueueName,
    /// Where handlers may report what does not belong to the job.
    pub(crate) events: Events,
    waiting: Mutex<Vec<Arc<Delivery>>>,
    arrived: Notify,
}

/// Writes the reports of one queue.
pub(crate) struct Reporter {
    pub(crate) reports: Arc<Reports>,
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    /// How long to keep a record that has to be created.
    pub(crate) retention: Duration,
    pub(crate) events: Events,
}

impl Reports {
    pub(crate) fn new(queue: QueueName, events: Events) -> Self {
        Self { queue, events, waiting: Mutex::default(), arrived: Notify::new() }
    }

    /// Notes how far an attempt is.
    pub(crate) fn progress(&self, delivery: &Arc<Delivery>, percent: u8, note: &str) {
        if delivery.report.progress(percent, note) {
            self.push(delivery);
        }
    }

    /// Notes a line that an attempt logs.
    pub(crate) fn log(&self, delivery: &Arc<Delivery>, text: &str) {
        if delivery.report.log(text) {
            self.push(delivery);
        }
    }

    fn push(&self, delivery: &Arc<Delivery>) {
        self.lock().push(Arc::clone(delivery));
        self.arrived.notify_one();
    }

    fn take(&self) -> Vec<Arc<Delivery>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Delivery>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reporter {
    /// Writes until it is dropped. The end of each attempt writes the rest of its reports.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.reports.arrived.notified().await;
            let next = Instant::now() + EVERY;
            let waiting = self.reports.take();
            for batch in waiting.chunks(BATCH) {
                self.write(batch).await;
            }
            tokio::time::sleep_until(next.into()).await;
        }
    }

    /// Writes the last reports of an attempt, while its entry is still held.
    pub(crate) async fn finish(&self, delivery: &Arc<Delivery>) {
        let written = self.write(std::slice::from_ref(delivery));
        if tokio::time::timeout(FINISH_TIMEOUT, written).await.is_err() {
            tracing::debug!(job = %delivery.job.id, "the last reports of an attempt were not written");
        }
    }

    /// Writes a batch of reports. What Redis refuses is sent again with the next report; nothing depends on it.
    async fn write(&self, batch: &[Arc<Delivery>]) {
        let unsent =
            batch.iter().filter_map(|delivery| Some((delivery, delivery.report.unsent(&delivery.job)?)));
        let (deliveries, reports): (Vec<_>, Vec<UnsentReport<'_>>) = unsent.unzip();
        if reports.is_empty() {
            return;
        }
        match self.queue.report(&self.consumer, &reports, self.retention).await {
            Ok(()) => {
                deliveries.iter().zip(&reports).for_each(|(delivery, sent)| delivery.report.mark_sent(sent))
            }
            Err(error) => self.events.redis_error(error.kind(), &error),
        }
    }
}
