//! What a program reports about its job on standard error: `::progress 40 rendering` reports progress, and every other
//! line goes to the log of a job that keeps a record.

use crate::JobContext;
use crate::handlers::output;

/// The prefix of a progress line.
const PROGRESS: &str = "::progress ";

/// How many bytes of a line are read.
const LINE_BYTES: usize = 4096;

/// Reads standard error and passes on what the program reports.
pub(super) struct ProgressReader<'a> {
    context: &'a JobContext,
    /// The beginning of the current line.
    line: Vec<u8>,
}

impl<'a> ProgressReader<'a> {
    pub(super) fn of(context: &'a JobContext) -> Self {
        Self { context, line: Vec::new() }
    }

    /// Takes the next bytes, wherever they were split.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let left = LINE_BYTES - self.line.len();
            self.line.extend_from_slice(&piece[..piece.len().min(left)]);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// Takes a last line without a line end.
    pub(super) fn end(mut self) {
        self.end_line();
    }

    fn end_line(&mut self) {
        let line = output::line(&self.line);
        self.line.clear();
        if let Some((percent, note)) = progress(&line) {
            return self.context.progress(percent, note);
        }
        if line.is_empty() {
            return;
        }
        tracing::debug!(job = %self.context.id(), text = line, "the program of a job wrote on standard error");
        if self.context.has_record() {
            self.context.log(&line);
        }
    }
}

/// Parses a progress line: a whole number, optionally with a percent sign, and a note.
fn progress(line: &str) -> Option<(u8, &str)> {
    let report = line.strip_prefix(PROGRESS)?.trim_start();
    let (number, note) = report.split_once(' ').unwrap_or((report, ""));
    let percent: u32 = number.trim_end_matches('%').parse().ok()?;
    Some((u8::try_from(percent.min(100)).ok()?, note.trim()))
}

/// Returns `stderr` without the progress lines, for error texts.
pub(super) fn without_progress(stderr: &[u8]) -> Vec<u8> {
    let lines = stderr.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(PROGRESS.as_bytes())).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context;

    #[test]
    fn lines_are_put_together_however_they_were_cut() {
        let context = context(&[("tracking", "all")]);
        let mut reader = ProgressReader::of(&context);
        for chunk in ["fir", "st\n\nsecond", " line\r\n::prog", "ress 40 ren", "dering\nlast"] {
            reader.push(chunk.as_bytes());
        }
        reader.end();
        let (progress, lines) = context.reported();
        assert_eq!(progress, Some((40, "rendering".to_owned())));
        assert_eq!(lines, ["first", "second line", "last"]);
    }

    #[test]
    fn progress_is_a_number_and_a_note_and_anything_else_is_a_line() {
        for (line, want) in [
            ("::progress 0", Some((0, ""))),
            ("::progress 40% of it", Some((40, "of it"))),
            ("::progress 250 ", Some((100, ""))),
            ("::progress half", None),
            ("::progress -1", None),
            (" ::progress 1", None),
            ("progress 1", None),
        ] {
            assert_eq!(progress(line), want, "{line}");
        }
    }

    #[test]
    fn a_job_without_a_record_logs_nothing_until_it_reports_progress() {
        let context = context(&[]);
        let mut reader = ProgressReader::of(&context);
        reader.push(b"before\n");
        assert_eq!(context.reported(), (None, vec![]));
        reader.push(b"::progress 1\nafter\n");
        assert_eq!(context.reported(), (Some((1, String::new())), vec!["after".to_owned()]));
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let context = context(&[("tracking", "all")]);
        let mut reader = ProgressReader::of(&context);
        (0..1000).for_each(|_| reader.push(&[b'x'; 100]));
        assert!(reader.line.len() <= LINE_BYTES);
        reader.end();
        assert_eq!(context.reported().1.len(), 1);
    }

    #[test]
    fn progress_is_left_out_of_error_texts() {
        assert_eq!(without_progress(b"a\n::progress 1\nb\n::progress 2"), b"a\nb\n");
    }
}
