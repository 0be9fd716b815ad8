//! What a program wrote on standard error, as the error of a job shows it: the line that says most, the beginning and the end, and
//! how the program ended.

use super::output;
use crate::job::{cut, telling_line};

/// How many bytes of the beginning go into an error, …
const HEAD_BYTES: usize = 768;

/// … and how many of the end.
const TAIL_BYTES: usize = 1280;

/// How many bytes of the line that says most come first.
const TELLING_BYTES: usize = 300;

/// What stands where something was left out.
const GAP: &str = "…";

/// The beginning and the end of what a program writes.
#[derive(Debug)]
pub(super) struct Excerpt {
    head: Vec<u8>,
    /// The last bytes, as many as are kept.
    pub(super) tail: Vec<u8>,
    /// The largest size of `tail`.
    kept: usize,
    written: usize,
}

impl Default for Excerpt {
    fn default() -> Self {
        Self::new(Self::BYTES)
    }
}

impl Excerpt {
    /// How much of what a program writes goes into an error.
    pub(super) const BYTES: usize = HEAD_BYTES + TAIL_BYTES;

    /// Creates one that keeps this many of the last bytes.
    pub(super) fn new(kept: usize) -> Self {
        Self { head: Vec::new(), tail: Vec::new(), kept, written: 0 }
    }

    /// Takes what the program has written.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        let left = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&chunk[..chunk.len().min(left)]);
        self.tail.extend_from_slice(chunk);
        self.tail.drain(..self.tail.len().saturating_sub(self.kept));
        self.written = self.written.saturating_add(chunk.len());
    }

    /// Returns the text, with its line breaks and safe in a log or a terminal: all of it, or its beginning and its end. `clean` leaves
    /// out what is not for people.
    pub(super) fn text(&self, clean: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let tail = clean(&self.tail);
        let whole = output::lines(&tail);
        if self.written <= self.tail.len() && whole.len() <= Self::BYTES {
            return whole;
        }
        let (head, tail) = (head(&clean(&self.head)), output::tail(&tail, TAIL_BYTES));
        format!("{head}\n{GAP}\n{tail}")
    }
}

/// Returns the beginning, if possible of whole lines.
fn head(bytes: &[u8]) -> String {
    let mut text = output::lines(bytes);
    let mut end = text.len().min(HEAD_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    if let Some(end) = text.rfind('\n') {
        text.truncate(end);
    }
    text
}

/// Builds the error of a program that ended by itself: the line that says most, all that it wrote, and how it ended.
pub(super) fn error_text(how: &str, words: &str) -> String {
    if words.is_empty() {
        return how.to_owned();
    }
    let telling = cut(telling_line(words).to_owned(), TELLING_BYTES);
    if words.lines().next().is_some_and(|line| line.trim() == telling) {
        format!("{words}\n{how}")
    } else {
        format!("{telling}\n{words}\n{how}")
    }
}

/// Builds the error of a program that was stopped: why, and what it wrote.
pub(super) fn stopped_text(why: &str, words: &str) -> String {
    if words.is_empty() { why.to_owned() } else { format!("{why}: {words}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn excerpt(written: &[u8]) -> String {
        let mut excerpt = Excerpt::default();
        written.chunks(100).for_each(|chunk| excerpt.push(chunk));
        excerpt.text(<[u8]>::to_vec)
    }

    #[test]
    fn what_is_short_is_shown_as_a_whole() {
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt(b"a\n  b\x1b\n"), "a\n  b\\u{1b}");
        let all = "x".repeat(Excerpt::BYTES);
        assert_eq!(excerpt(all.as_bytes()), all);
    }

    #[test]
    fn of_what_is_long_the_beginning_and_the_end_are_shown() {
        let lines: Vec<String> = (0..10_000).map(|nth| format!("line {nth}")).collect();
        let shown = excerpt(lines.join("\n").as_bytes());
        let (head, tail) = shown.split_once("\n…\n").unwrap();
        assert!(
            head.starts_with("line 0\nline 1\n") && lines.contains(&head.lines().last().unwrap().to_owned())
        );
        assert!(tail.ends_with("\nline 9999") && shown.len() <= Excerpt::BYTES + 10, "{}", shown.len());
    }

    #[test]
    fn the_exception_comes_first_and_how_the_program_ended_last() {
        let trace = "Traceback (most recent call last):\n  File import.py\nKeyError: id";
        let want = format!("KeyError: id\n{trace}\nexit status: 65");
        assert_eq!(error_text("exit status: 65", trace), want);
        assert_eq!(error_text("exit status: 65", "no such account"), "no such account\nexit status: 65");
        assert_eq!(error_text("exit status: 65", ""), "exit status: 65");
        assert_eq!(stopped_text("stopped", "reading"), "stopped: reading");
        let long = "x".repeat(1000);
        assert!(error_text("exit status: 1", &format!("a\n{long}")).starts_with(&"x".repeat(290)));
    }

    proptest! {
        #[test]
        fn an_excerpt_of_any_bytes_is_bounded_and_safe(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
            let shown = excerpt(&bytes);
            prop_assert!(shown.len() <= Excerpt::BYTES + 8, "{}", shown.len());
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
        }
    }
}
