//! The series of the history that a process writes, and of the outbox that it relays. A process without these sections has none.

use metrics::{Counter, Gauge};
use rustc_hash::FxHashMap;

use super::Maker;
use crate::job::QueueName;
use crate::telemetry::catalogue::{self, DATABASE_ERRORS, OUTBOX_ERRORS};
use streamfleet::event::{DatabaseEvent, JournalReport, OutboxReport};

/// The series of what a process does with databases.
pub(in super::super) struct DatabaseSeries {
    history: FxHashMap<QueueName, HistorySeries>,
    outbox: Option<OutboxSeries>,
}

struct HistorySeries {
    written: Counter,
    journal: [Gauge; 6],
    spilled: [Gauge; 2],
    errors: [Counter; DATABASE_ERRORS.len()],
}

struct OutboxSeries {
    relayed: Counter,
    refused: Counter,
    waiting: [Gauge; 3],
    errors: [Counter; OUTBOX_ERRORS.len()],
}

impl DatabaseSeries {
    /// Creates series for the history of these queues, and for an outbox if there is one.
    pub(in super::super) fn new(maker: &Maker<'_>, history: &[QueueName], has_outbox: bool) -> Self {
        let series = |queue: &QueueName| (queue.clone(), HistorySeries::new(maker, queue.as_str()));
        Self {
            history: history.iter().map(series).collect(),
            outbox: has_outbox.then(|| OutboxSeries::new(maker)),
        }
    }

    /// Records an event.
    pub(in super::super) fn record(&self, event: DatabaseEvent<'_>) {
        match event {
            DatabaseEvent::Written { queue, ends } => self.of(queue, |series| series.written.increment(ends)),
            DatabaseEvent::Journal { queue, waiting } => self.of(queue, |series| series.set(waiting)),
            DatabaseEvent::JournalLeft { queue } => {
                self.of(queue, |series| series.set(JournalReport::default()));
            }
            DatabaseEvent::Spilled { queue, files, bytes } => self.of(queue, |series| {
                set(&series.spilled, [files as f64, bytes as f64]);
            }),
            DatabaseEvent::HistoryFailed { queue, class } => {
                self.of(queue, |series| count(&series.errors, &DATABASE_ERRORS, class));
            }
            DatabaseEvent::Relayed { rows, refused } => self.of_outbox(|series| {
                series.relayed.increment(rows);
                series.refused.increment(refused);
            }),
            DatabaseEvent::Outbox { waiting } => self.of_outbox(|series| series.set(waiting)),
            DatabaseEvent::OutboxLeft => self.of_outbox(|series| series.set(OutboxReport::default())),
            DatabaseEvent::OutboxFailed { class } => {
                self.of_outbox(|series| count(&series.errors, &OUTBOX_ERRORS, class));
            }
        }
    }

    fn of(&self, queue: &QueueName, record: impl FnOnce(&HistorySeries)) {
        if let Some(series) = self.history.get(queue) {
            record(series);
        }
    }

    fn of_outbox(&self, record: impl FnOnce(&OutboxSeries)) {
        if let Some(series) = &self.outbox {
            record(series);
        }
    }
}

impl HistorySeries {
    fn new(maker: &Maker<'_>, queue: &str) -> Self {
        let gauge = |descriptor| maker.gauge(descriptor, &[queue]);
        Self {
            written: maker.counter(&catalogue::HISTORY_WRITTEN, &[queue]),
            journal: [
                &catalogue::HISTORY_JOURNAL_ENDS,
                &catalogue::HISTORY_JOURNAL_BYTES,
                &catalogue::HISTORY_JOURNAL_MAX,
                &catalogue::HISTORY_JOURNAL_AGE,
                &catalogue::HISTORY_LOST,
                &catalogue::HISTORY_COMMITTED,
            ]
            .map(gauge),
            spilled: [&catalogue::HISTORY_SPILLED_FILES, &catalogue::HISTORY_SPILLED_BYTES].map(gauge),
            errors: DATABASE_ERRORS.map(|class| maker.counter(&catalogue::HISTORY_ERRORS, &[queue, class])),
        }
    }

    fn set(&self, waiting: JournalReport) {
        let JournalReport { ends, bytes, max_bytes, oldest, lost, committed } = waiting;
        let (oldest, committed) = (oldest.as_secs_f64(), committed.as_secs_f64());
        set(&self.journal, [ends as f64, bytes as f64, max_bytes as f64, oldest, lost as f64, committed]);
    }
}

impl OutboxSeries {
    fn new(maker: &Maker<'_>) -> Self {
        Self {
            relayed: maker.counter(&catalogue::OUTBOX_RELAYED, &[]),
            refused: maker.counter(&catalogue::OUTBOX_REFUSED, &[]),
            waiting: [&catalogue::OUTBOX_WAITING, &catalogue::OUTBOX_KEPT, &catalogue::OUTBOX_AGE]
                .map(|descriptor| maker.gauge(descriptor, &[])),
            errors: OUTBOX_ERRORS.map(|class| maker.counter(&catalogue::OUTBOX_ERRORS_TOTAL, &[class])),
        }
    }

    fn set(&self, OutboxReport { rows, refused, oldest }: OutboxReport) {
        set(&self.waiting, [rows as f64, refused as f64, oldest.as_secs_f64()]);
    }
}

fn set<const N: usize>(gauges: &[Gauge; N], values: [f64; N]) {
    gauges.iter().zip(values).for_each(|(gauge, value)| gauge.set(value));
}

fn count<const N: usize>(counters: &[Counter; N], classes: &[&str; N], class: &str) {
    if let Some(nth) = classes.iter().position(|one| *one == class) {
        counters[nth].increment(1);
    }
}
