//! What a job's record has about its attempts: how they ended, the progress of the last one, and its log lines.

use std::time::Duration;

use crate::attempt::progress::LOG_LINES;
use crate::client::decode::timestamp;
use crate::job::{Envelope, JobId, Timestamp};

/// One attempt that ended; see the [example](crate::Queue::status).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How it ended, in one word.
    pub outcome: String,
    /// The consumer that ran it.
    pub worker: String,
    /// What went wrong, if something did.
    pub error: String,
}

impl Attempt {
    /// How long it took from its start to its end. In a pool, the wait for a free program counts.
    pub fn duration(&self) -> Duration {
        self.ended.since(self.started)
    }
}

/// The progress of a job, as its handler reported it; see the [example](crate::Queue::status).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// From 0 to 100.
    pub percent: u8,
    /// A few words; may be empty.
    pub note: String,
    /// When it was written.
    pub at: Timestamp,
}

/// A line that a job's handler logged; see the [example](crate::Queue::status).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// When it was logged.
    pub at: Timestamp,
    /// The line.
    pub text: String,
}

/// The fields of a record.
#[derive(Debug)]
pub(crate) struct Record(pub(crate) Envelope);

/// How many attempts a record keeps.
const ATTEMPTS: usize = 20;

/// The other fields that a record may have.
const FIELDS: [&str; 14] = [
    "state",
    "type",
    "lane",
    "created_ms",
    "root",
    "cancelled_by",
    "error",
    "result",
    "dead_id",
    "progress",
    "note",
    "progress_ms",
    "logged",
    "children",
];

impl Record {
    /// The names of the fields to read, with the log lines or without. The record of an id with many generations has many
    /// more.
    pub(crate) fn names(with_log: bool) -> impl Iterator<Item = String> {
        let lines = if with_log { LOG_LINES } else { 0 };
        let rings =
            (0..ATTEMPTS).map(|nth| format!("a:{nth}")).chain((0..lines).map(|nth| format!("l:{nth}")));
        FIELDS.into_iter().map(str::to_owned).chain(rings)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        self.text(name)?.parse().ok().map(timestamp)
    }

    /// The last attempts, oldest first.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        let ring = self.0.fields().filter(|(name, _)| name.starts_with(b"a:"));
        let mut attempts: Vec<_> =
            ring.filter_map(|(_, text)| attempt(&String::from_utf8_lossy(text))).collect();
        attempts.sort_by_key(|attempt| (attempt.ended, attempt.started));
        attempts
    }

    /// The jobs that followed the job's last end.
    pub(crate) fn children(&self) -> Vec<JobId> {
        let noted = self.text("children").unwrap_or_default();
        noted.split_whitespace().filter_map(|id| id.parse().ok()).collect()
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        let percent: u8 = self.text("progress")?.parse().ok()?;
        let (note, at) = (self.text("note").unwrap_or_default(), self.time("progress_ms")?);
        Some(Progress { percent: percent.min(100), note, at })
    }

    /// The last log lines, oldest first.
    pub(crate) fn log(&self) -> Vec<LogLine> {
        let (logged, ring) = (self.logged(), LOG_LINES as u64);
        let kept = logged.saturating_sub(ring)..logged;
        kept.filter_map(|nth| line(&self.text(&format!("l:{}", nth % ring))?)).collect()
    }

    /// How many lines were logged in total.
    pub(crate) fn logged(&self) -> u64 {
        self.text("logged").and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

pub(crate) fn attempt(text: &str) -> Option<Attempt> {
    let mut parts = text.splitn(5, ' ');
    let mut next = || parts.next();
    Some(Attempt {
        started: timestamp(next()?.parse().ok()?),
        ended: timestamp(next()?.parse().ok()?),
        outcome: next()?.to_owned(),
        worker: next()?.to_owned(),
        error: next()?.to_owned(),
    })
}

fn line(text: &str) -> Option<LogLine> {
    let (at, text) = text.split_once(' ')?;
    Some(LogLine { at: timestamp(at.parse().ok()?), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &[(String, String)]) -> Record {
        Record(Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))))
    }

    #[test]
    fn log_lines_are_read_from_the_ring_in_their_order() {
        for logged in [3_usize, 100, 101, 250] {
            let mut fields: Vec<_> = (0..logged)
                .rev()
                .take(LOG_LINES)
                .map(|nth| (format!("l:{}", nth % LOG_LINES), format!("{nth} line {nth}")))
                .collect();
            fields.push(("logged".to_owned(), logged.to_string()));
            let log = record(&fields).log();
            let want: Vec<_> =
                (logged.saturating_sub(LOG_LINES)..logged).map(|nth| format!("line {nth}")).collect();
            assert_eq!(log.iter().map(|line| line.text.clone()).collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn broken_fields_are_left_out() {
        let fields =
            [("logged", "9"), ("l:0", "x"), ("a:0", "1 2"), ("progress", "300"), ("progress_ms", "1")];
        let record = record(&fields.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!((record.log(), record.attempts(), record.progress()), (vec![], vec![], None));
    }
}
