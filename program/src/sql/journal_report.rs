//! What the writer of a queue's history reports: figures to this process, and to Redis why nothing can be written. Those who look for
//! incidents read that there.

use std::time::{Duration, Instant};

use streamfleet::event::{DatabaseEvent, Event, Events, JournalReport};
use streamfleet::{Queue, RedisError};
use streamfleet_sql::Error;

use super::spill::Spill;

/// How often figures are read.
const EVERY: Duration = Duration::from_secs(5);

/// For how long ends that were lost are reported.
const LOST_FOR: Duration = Duration::from_secs(24 * 3600);

/// What Redis says about the last error.
#[derive(PartialEq)]
enum Noted {
    /// Whatever an earlier process has noted.
    Anything,
    Nothing,
    Error(String),
}

/// What a writer reports.
pub(super) struct Report<'a> {
    queue: &'a Queue,
    events: &'a Events,
    looked: Option<Instant>,
    committed: Option<Instant>,
    noted: Noted,
}

impl<'a> Report<'a> {
    pub(super) fn new(queue: &'a Queue, events: &'a Events) -> Self {
        Self { queue, events, looked: None, committed: None, noted: Noted::Anything }
    }

    /// Reports ends that the database has taken.
    pub(super) fn written(&mut self, ends: usize) {
        self.committed = Some(Instant::now());
        self.emit(DatabaseEvent::Written { queue: self.queue.name(), ends: ends as u64 });
    }

    /// Reports an error of the database.
    pub(super) fn failed(&self, error: &Error) {
        self.emit(DatabaseEvent::HistoryFailed { queue: self.queue.name(), class: error.class() });
    }

    /// Tells Redis why nothing, or not everything, can be written; `None` if all can.
    pub(super) async fn note(&mut self, why: Option<String>) -> Result<(), RedisError> {
        let noted = why.map_or(Noted::Nothing, Noted::Error);
        if noted != self.noted {
            let text = if let Noted::Error(text) = &noted { Some(text.as_str()) } else { None };
            self.queue.note_journal_error(text).await?;
            self.noted = noted;
        }
        Ok(())
    }

    /// Reports figures every few seconds: of the journal only if this process writes it.
    pub(super) async fn look(&mut self, spill: Option<&Spill>, is_writer: bool) -> Result<(), RedisError> {
        if self.looked.is_some_and(|at| at.elapsed() < EVERY) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let queue = self.queue.name();
        if let Some(Ok((files, bytes))) = spill.map(Spill::usage) {
            self.emit(DatabaseEvent::Spilled { queue, files, bytes });
        }
        if !is_writer {
            // What this process knew is another's to change.
            self.noted = Noted::Anything;
            self.emit(DatabaseEvent::JournalLeft { queue });
            return Ok(());
        }
        let (figures, now) = tokio::try_join!(self.queue.journal_figures(), self.queue.clock())?;
        if figures.lost.is_some_and(|(_, since)| now.since(since) > LOST_FOR) {
            self.queue.forget_lost_ends().await?;
        }
        let waiting = JournalReport {
            ends: figures.waiting,
            bytes: figures.bytes,
            max_bytes: figures.most.unwrap_or(0),
            oldest: figures.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest)),
            lost: figures.lost.map_or(0, |(lost, _)| lost),
            committed: self.committed.map_or(Duration::ZERO, |at| at.elapsed()),
        };
        self.emit(DatabaseEvent::Journal { queue, waiting });
        Ok(())
    }

    fn emit(&self, event: DatabaseEvent<'_>) {
        self.events.emit(&Event::Database(event));
    }
}

#[cfg(test)]
mod tests {
    use streamfleet_service::telemetry::{CATALOGUE, Values};

    use super::*;

    #[test]
    fn metrics_have_all_classes_of_errors() {
        let metrics = CATALOGUE.iter().flat_map(|group| group.metrics);
        let mut found = 0;
        for metric in metrics.filter(|metric| metric.name.ends_with("_errors_total")) {
            for label in metric.labels.iter().filter(|label| label.name == "class") {
                let Values::Closed(values) = label.values else { panic!("{}", metric.name) };
                assert!(values.starts_with(&Error::CLASSES), "{}: {values:?}", metric.name);
                found += 1;
            }
        }
        assert_eq!(found, 2);
    }
}
