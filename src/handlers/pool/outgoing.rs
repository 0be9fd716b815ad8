//! The lines that a program has not been given completely: written together, as much at once as the pipe takes. Pure.

use std::collections::VecDeque;

/// Once everything was written, the memory of more than this is given back.
const MOST_KEPT: usize = 256 * 1024;

/// Lines to write, the first one perhaps partly written.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// How many of these bytes were written.
    begin: usize,
    /// Where the lines of jobs end, counted from the first byte that was ever appended, and the jobs.
    ends: VecDeque<(u64, u64)>,
    written: u64,
}

impl Outgoing {
    /// Appends a line, which hands over this job if there is one. Returns how many bytes the line has.
    pub(super) fn push(&mut self, job: Option<u64>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.bytes.len();
        write(&mut self.bytes);
        if let Some(job) = job {
            let unwritten = self.bytes.len() - self.begin;
            self.ends.push_back((self.written + unwritten as u64, job));
        }
        self.bytes.len() - before
    }

    /// Returns the bytes to write next.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// Notes that this many of the bytes were written. Returns the jobs whose lines are complete now.
    pub(super) fn advance(&mut self, length: usize) -> impl Iterator<Item = u64> + '_ {
        self.begin += length;
        self.written += length as u64;
        if self.begin == self.bytes.len() {
            self.forget_bytes();
        } else if self.begin > self.bytes.len() / 2 {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        let complete = self.ends.iter().take_while(|(end, _)| *end <= self.written).count();
        self.ends.drain(..complete).map(|(_, job)| job)
    }

    /// Forgets all lines. Returns the jobs whose lines were not complete.
    pub(super) fn clear(&mut self) -> Vec<u64> {
        self.forget_bytes();
        std::mem::take(&mut self.ends).into_iter().map(|(_, job)| job).collect()
    }

    fn forget_bytes(&mut self) {
        self.bytes.clear();
        self.begin = 0;
        if self.bytes.capacity() > MOST_KEPT {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outgoing: &mut Outgoing, job: Option<u64>, line: &str) {
        let length = outgoing.push(job, |bytes| bytes.extend_from_slice(line.as_bytes()));
        assert_eq!(length, line.len());
    }

    fn advance(outgoing: &mut Outgoing, length: usize) -> Vec<u64> {
        outgoing.advance(length).collect()
    }

    #[test]
    fn a_job_is_written_when_all_of_its_line_is() {
        let mut outgoing = Outgoing::default();
        push(&mut outgoing, Some(1), "one\n");
        push(&mut outgoing, None, "cancel\n");
        push(&mut outgoing, Some(2), "two\n");
        assert_eq!(outgoing.bytes(), b"one\ncancel\ntwo\n");
        assert_eq!(advance(&mut outgoing, 3), Vec::<u64>::new());
        assert_eq!(advance(&mut outgoing, 11), [1]);
        push(&mut outgoing, Some(3), "three\n");
        assert_eq!(advance(&mut outgoing, 1), [2]);
        assert_eq!(outgoing.bytes(), b"three\n");
        assert_eq!(advance(&mut outgoing, 6), [3]);
        assert_eq!(outgoing.bytes(), b"");
    }

    #[test]
    fn jobs_whose_lines_are_not_complete_come_back() {
        let mut outgoing = Outgoing::default();
        (1..=3).for_each(|job| push(&mut outgoing, Some(job), "line\n"));
        assert_eq!(advance(&mut outgoing, 7), [1]);
        assert_eq!(outgoing.clear(), [2, 3]);
        assert_eq!(outgoing.clear(), Vec::<u64>::new());
    }

    #[test]
    fn many_bytes_are_written_piece_by_piece() {
        let (mut outgoing, mut written) = (Outgoing::default(), Vec::new());
        let lines: Vec<String> = (0..100).map(|nth| format!("{}\n", nth.to_string().repeat(nth))).collect();
        for (line, job) in lines.iter().zip(0..) {
            push(&mut outgoing, Some(job), line);
            let piece = outgoing.bytes().len().min(70);
            written.extend_from_slice(&outgoing.bytes()[..piece]);
            advance(&mut outgoing, piece);
        }
        written.extend_from_slice(outgoing.bytes());
        assert_eq!(written, lines.concat().into_bytes());
    }

    #[test]
    fn the_memory_of_many_bytes_is_given_back() {
        let mut outgoing = Outgoing::default();
        let line = "x".repeat(10 * MOST_KEPT);
        push(&mut outgoing, Some(1), &line);
        assert_eq!(advance(&mut outgoing, line.len()), [1]);
        assert_eq!(outgoing.bytes.capacity(), 0);
    }
}
