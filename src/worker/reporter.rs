//! Writes what attempts report to Redis: many attempts in one script, each at most twice per second and at its end.
//! Only the end of an attempt that has reported something waits for it, and not for long.

use std::iter::Peekable;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::delivery::Delivery;
use super::rules_check::RulesCheck;
use crate::broker::mutex::lock;
use crate::broker::{Queue, UnsentReport};
use crate::event::Events;
use crate::job::{ConsumerName, QueueName};

/// The pause between two rounds.
const EVERY: Duration = Duration::from_millis(500);

/// The most attempts in one script, …
const BATCH: usize = 50;

/// … the most of their log lines, …
const BATCH_LINES: usize = 300;

/// … and the most bytes of these, unless a single attempt has more: a script must not block Redis for long.
const BATCH_BYTES: usize = 64 * 1024;

/// How long the end of an attempt waits for its last reports.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The attempts of one queue that have something to report.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) queue: QueueName,
    /// Where handlers may report what does not belong to the job.
    pub(crate) events: Events,
    /// What is known about the rules that attempts have to follow.
    pub(super) rules: Arc<RulesCheck>,
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
    pub(crate) fn new(queue: QueueName, events: Events, rules: Arc<RulesCheck>) -> Self {
        Self { queue, events, rules, waiting: Mutex::default(), arrived: Notify::new() }
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
        lock(&self.waiting).push(Arc::clone(delivery));
        self.arrived.notify_one();
    }

    fn take(&self) -> Vec<Arc<Delivery>> {
        std::mem::take(&mut *lock(&self.waiting))
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

    /// Writes reports. What Redis refuses is sent again with the next report; nothing depends on it.
    async fn write(&self, waiting: &[Arc<Delivery>]) {
        let unsent =
            waiting.iter().filter_map(|delivery| Some((delivery, delivery.report.unsent(&delivery.job)?)));
        let mut unsent = unsent.collect::<Vec<_>>().into_iter().peekable();
        while unsent.peek().is_some() {
            let (deliveries, reports): (Vec<_>, Vec<_>) = next_batch(&mut unsent).into_iter().unzip();
            match self.queue.report(&self.consumer, &reports, self.retention).await {
                Ok(()) => deliveries
                    .iter()
                    .zip(&reports)
                    .for_each(|(delivery, sent)| delivery.report.mark_sent(sent)),
                Err(error) => self.events.redis_error(error.kind(), &error),
            }
        }
    }
}

/// Takes the reports of one script: as many as it may have, and at least one.
fn next_batch<'a, T>(
    unsent: &mut Peekable<impl Iterator<Item = (T, UnsentReport<'a>)>>,
) -> Vec<(T, UnsentReport<'a>)> {
    let (mut batch, mut lines, mut bytes) = (Vec::new(), 0, 0);
    while let Some(next) = unsent.next_if(|(_, report)| {
        lines += report.lines.len();
        bytes += report.lines.iter().map(|line| line.text.len()).sum::<usize>();
        batch.is_empty() || (lines <= BATCH_LINES && bytes <= BATCH_BYTES)
    }) {
        batch.push(next);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::UnsentLine;
    use crate::job::{EntryId, Envelope, JobSpec, Lane};

    /// Returns how many reports each script has, if there are so many, each with so many lines of so many bytes.
    fn batches(reports: usize, lines: usize, bytes: usize) -> Vec<usize> {
        let fields = [(b"type".as_slice(), b"test".as_slice())];
        let job =
            JobSpec::parse(&Envelope::new(fields.into_iter()), EntryId::new(1, 0), Lane::Normal).unwrap();
        let line = UnsentLine { nth: 1, age: Duration::ZERO, text: "x".repeat(bytes) };
        let report = UnsentReport { job: &job, progress: None, lines: vec![line; lines] };
        let mut unsent = (0..reports).map(|nth| (nth, report.clone())).peekable();
        let mut sizes = Vec::new();
        let mut seen = Vec::new();
        while unsent.peek().is_some() {
            let batch = next_batch(&mut unsent);
            sizes.push(batch.len());
            seen.extend(batch.into_iter().map(|(nth, _)| nth));
        }
        assert_eq!(seen, (0..reports).collect::<Vec<_>>());
        sizes
    }

    #[test]
    fn a_script_writes_no_more_than_it_may() {
        assert_eq!(batches(0, 1, 1), Vec::<usize>::new());
        assert_eq!(batches(50, 1, 10), [50]);
        assert_eq!(batches(8, 100, 10), [3, 3, 2], "lines");
        assert_eq!(batches(5, 30, 1024), [2, 2, 1], "bytes");
        assert_eq!(batches(3, 100, 1024), [1, 1, 1], "each has more than that");
    }
}
