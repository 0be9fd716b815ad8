//! What one attempt reports, until Redis knows it: the latest progress and the last log lines. A job that reports
//! nothing has nothing here. Reporting never waits and costs no command: the reporter takes it from here.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use crate::broker::mutex::lock;
use crate::broker::{LOG_LINES, UnsentLine, UnsentReport};
use crate::job::{JobSpec, cut};

/// The longest note in bytes. Longer ones are cut.
pub(crate) const MAX_NOTE_BYTES: usize = 200;

/// The longest log line in bytes. Longer ones are cut.
pub(crate) const MAX_LINE_BYTES: usize = 1024;

/// What an attempt reports. It is created by the first report, and closed when the attempt ends.
#[derive(Debug, Default)]
pub(crate) struct Report(OnceLock<Option<Box<Mutex<Pending>>>>);

/// What Redis does not know yet.
#[derive(Debug)]
struct Pending {
    /// The number of the last report.
    count: u64,
    progress: Option<(u64, u8, String)>,
    /// The last progress, whether or not Redis knows it.
    last: Option<(u8, String)>,
    lines: VecDeque<Line>,
    /// Whether the reporter will already look here.
    queued: bool,
    open: bool,
}

#[derive(Debug)]
struct Line {
    nth: u64,
    at: Instant,
    text: String,
}

impl Report {
    /// Notes how far the attempt is. Returns true if the reporter must be notified.
    pub(crate) fn progress(&self, percent: u8, note: &str) -> bool {
        let Some(mut pending) = self.open() else { return false };
        let percent = percent.min(100);
        if pending.last.as_ref().is_some_and(|(last, last_note)| *last == percent && last_note == note) {
            return false;
        }
        let note = cut(note.to_owned(), MAX_NOTE_BYTES);
        pending.count += 1;
        pending.last = Some((percent, note.clone()));
        pending.progress = Some((pending.count, percent, note));
        !std::mem::replace(&mut pending.queued, true)
    }

    /// Notes a line. If there are too many, the oldest one is dropped. Returns true if the reporter must be notified.
    pub(crate) fn log(&self, text: &str) -> bool {
        let Some(mut pending) = self.open() else { return false };
        pending.count += 1;
        let line =
            Line { nth: pending.count, at: Instant::now(), text: cut(text.to_owned(), MAX_LINE_BYTES) };
        pending.lines.push_back(line);
        if pending.lines.len() > LOG_LINES {
            pending.lines.pop_front();
        }
        !std::mem::replace(&mut pending.queued, true)
    }

    /// Returns true if something was reported.
    pub(crate) fn is_used(&self) -> bool {
        matches!(self.0.get(), Some(Some(_)))
    }

    /// Closes the report: nothing more is accepted. Returns true if something was reported.
    pub(crate) fn close(&self) -> bool {
        let Some(pending) = self.0.get_or_init(|| None) else { return false };
        lock(pending).open = false;
        true
    }

    /// Returns what Redis does not know yet. It stays here until it is [sent](Self::mark_sent).
    pub(crate) fn unsent<'a>(&self, job: &'a JobSpec) -> Option<UnsentReport<'a>> {
        let mut pending = lock(self.0.get()?.as_ref()?);
        pending.queued = false;
        let age = |line: &Line| UnsentLine { nth: line.nth, age: line.at.elapsed(), text: line.text.clone() };
        let lines: Vec<UnsentLine> = pending.lines.iter().map(age).collect();
        let has_any = pending.progress.is_some() || !lines.is_empty();
        has_any.then(|| UnsentReport { job, progress: pending.progress.clone(), lines })
    }

    /// Forgets what Redis now knows.
    pub(crate) fn mark_sent(&self, sent: &UnsentReport<'_>) {
        let Some(Some(pending)) = self.0.get() else { return };
        let mut pending = lock(pending);
        let last_line = sent.lines.last().map_or(0, |line| line.nth);
        while pending.lines.front().is_some_and(|line| line.nth <= last_line) {
            pending.lines.pop_front();
        }
        let sent = sent.progress.as_ref().map_or(0, |(nth, _, _)| *nth);
        pending.progress.take_if(|(nth, _, _)| *nth <= sent);
    }

    fn open(&self) -> Option<MutexGuard<'_, Pending>> {
        let pending = self.0.get_or_init(|| {
            let lines = VecDeque::new();
            let fresh = Pending { count: 0, progress: None, last: None, lines, queued: false, open: true };
            Some(Box::new(Mutex::new(fresh)))
        });
        let pending = lock(pending.as_ref()?);
        pending.open.then_some(pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, Envelope, Lane};

    fn job() -> JobSpec {
        let fields = [(b"type".as_slice(), b"test".as_slice())];
        JobSpec::parse(&Envelope::new(fields.into_iter()), EntryId::new(1, 0), Lane::Normal).unwrap()
    }

    #[test]
    fn the_reporter_is_woken_once_and_gets_the_latest() {
        let (report, job) = (Report::default(), job());
        assert!(report.progress(1, "one"));
        assert!((2..=100).all(|percent| !report.progress(percent, "more")));
        assert!(!report.log("a line"));
        let unsent = report.unsent(&job).unwrap();
        assert_eq!(unsent.progress, Some((100, 100, "more".to_owned())));
        assert_eq!(unsent.lines.len(), 1);
        report.mark_sent(&unsent);
        assert!(report.unsent(&job).is_none());
        assert!(!report.progress(100, "more"), "the same again");
        assert!(report.progress(100, "done"));
    }

    #[test]
    fn reports_during_a_write_to_redis_are_not_lost() {
        let (report, job) = (Report::default(), job());
        report.log("first");
        report.progress(1, "");
        let sent = report.unsent(&job).unwrap();
        report.log("second");
        report.progress(2, "");
        report.mark_sent(&sent);
        let unsent = report.unsent(&job).unwrap();
        assert_eq!((unsent.lines.len(), unsent.lines[0].text.as_str()), (1, "second"));
        assert_eq!(unsent.progress.unwrap().1, 2);
    }

    #[test]
    fn lines_and_notes_are_bounded() {
        let (report, job) = (Report::default(), job());
        (0..250).for_each(|nth| {
            report.log(&nth.to_string());
        });
        report.log(&"é".repeat(2000));
        report.progress(200, &"é".repeat(2000));
        let unsent = report.unsent(&job).unwrap();
        assert_eq!((unsent.lines.len(), unsent.lines[0].text.as_str()), (LOG_LINES, "151"));
        assert!(unsent.lines.last().unwrap().text.len() <= MAX_LINE_BYTES);
        let (_, percent, note) = unsent.progress.unwrap();
        assert!(percent == 100 && note.len() <= MAX_NOTE_BYTES, "{note}");
    }

    #[test]
    fn nothing_is_recorded_after_the_end() {
        let silent = Report::default();
        assert!(!silent.close());
        assert!(!silent.progress(1, "") && !silent.log("late") && !silent.is_used());
        let (used, job) = (Report::default(), job());
        used.progress(1, "");
        assert!(used.close());
        let sent = used.unsent(&job).unwrap();
        used.mark_sent(&sent);
        assert!(!used.progress(2, "") && !used.log("late"));
        assert!(used.unsent(&job).is_none());
    }
}
