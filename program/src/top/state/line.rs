//! A line that somebody types.

use crate::top::key::Key;

/// The most characters of a line.
const MOST: usize = 500;

/// A line, typed at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::top) struct Line(pub(in crate::top) String);

/// What became of what somebody types.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::top) enum Told<T> {
    /// They go on typing.
    Nothing,
    /// They have pressed Esc.
    Cancelled,
    /// They have pressed Enter.
    Done(T),
}

impl Line {
    /// Takes a key that changes the line.
    pub(super) fn press(&mut self, key: Key) {
        match key {
            Key::Char(c) if self.0.chars().count() < MOST => self.0.push(c),
            Key::Backspace => {
                self.0.pop();
            }
            Key::Ctrl('u') => self.0.clear(),
            Key::Ctrl('w') => {
                let kept = self.0.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.0.truncate(kept);
            }
            Key::Char(_)
            | Key::Ctrl(_)
            | Key::Enter
            | Key::Esc
            | Key::Tab
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End => {}
        }
    }

    /// Takes a key of a line that Enter completes.
    pub(super) fn typed(&mut self, key: Key) -> Told<String> {
        match key {
            Key::Esc => return Told::Cancelled,
            Key::Enter => return Told::Done(std::mem::take(&mut self.0).trim().to_owned()),
            Key::Backspace if self.0.is_empty() => return Told::Cancelled,
            Key::Char(_)
            | Key::Ctrl(_)
            | Key::Backspace
            | Key::Tab
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End => self.press(key),
        }
        Told::Nothing
    }
}
