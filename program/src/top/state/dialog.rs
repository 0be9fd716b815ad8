//! The dialog that asks before something is done: what will be done, by whom, with what value, and why.

use super::{Line, Told};
use crate::top::action::Action;
use crate::top::key::Key;

/// An action that waits for somebody to confirm it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::top) struct Dialog {
    pub(in crate::top) action: Action,
    /// What the value means, and the value; `None` if the action needs none.
    pub(in crate::top) value: Option<(&'static str, Line)>,
    pub(in crate::top) reason: Line,
    /// Whether keys go to the reason rather than the value.
    pub(in crate::top) is_at_reason: bool,
    /// Why it is doubtful, or what is wrong with the value; may be empty.
    pub(in crate::top) warning: String,
    /// What the value may be, if it is one of some names.
    names: Vec<String>,
}

impl Dialog {
    /// Asks about an action whose value may be one of these names.
    pub(in crate::top) fn new(action: Action, names: Vec<String>) -> Self {
        let value = action.asks().map(|(label, text)| (label, Line(text)));
        let is_at_reason = value.is_none();
        Self { action, value, reason: Line::default(), is_at_reason, warning: String::new(), names }
    }

    /// Asks once more about an action of which more is known now.
    pub(super) fn again(action: Action, warning: String, reason: Line) -> Self {
        Self { action, value: None, reason, is_at_reason: true, warning, names: Vec::new() }
    }

    /// The names that begin with what was typed as the value.
    pub(in crate::top) fn matches(&self) -> Vec<&str> {
        let typed = self.value.as_ref().filter(|_| !self.is_at_reason).map(|(_, value)| value.0.as_str());
        let names = self.names.iter().map(String::as_str);
        typed.map_or_else(Vec::new, |typed| names.filter(|name| name.starts_with(typed)).collect())
    }

    /// Completes the value as far as all names agree that begin so, or else to the first one. Returns false if that changes nothing.
    fn complete(&mut self) -> bool {
        let matches = self.matches();
        let Some(first) = matches.first() else { return false };
        let agree = |end: &usize| matches.iter().all(|name| name.get(..*end) == first.get(..*end));
        let mut ends = (0..=first.len()).rev().filter(|end| first.is_char_boundary(*end));
        let end = ends.find(agree).unwrap_or_default();
        let (common, first) = (first[..end].to_owned(), (*first).to_owned());
        let Some((_, value)) = &mut self.value else { return false };
        let completed = if common.len() > value.0.len() { common } else { first };
        let is_new = completed != value.0;
        value.0 = completed;
        is_new
    }

    /// Takes a key, and returns what to do if somebody has confirmed it.
    pub(super) fn press(&mut self, key: Key) -> Told<(Action, String)> {
        match key {
            Key::Esc => return Told::Cancelled,
            Key::Enter => return self.confirm(),
            Key::Tab if self.complete() => self.warning.clear(),
            Key::Tab | Key::Up | Key::Down => self.is_at_reason ^= self.value.is_some(),
            Key::Char(_)
            | Key::Ctrl(_)
            | Key::Backspace
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End => {
                let line = match &mut self.value {
                    Some((_, value)) if !self.is_at_reason => value,
                    Some(_) | None => &mut self.reason,
                };
                line.press(key);
                self.warning.clear();
            }
        }
        Told::Nothing
    }

    fn confirm(&mut self) -> Told<(Action, String)> {
        if let Some((_, value)) = &self.value {
            let mut action = self.action.clone();
            if let Err(why) = action.set(&value.0) {
                self.warning = why;
                self.is_at_reason = false;
                return Told::Nothing;
            }
            self.action = action;
            // Who has typed the value goes on to the reason.
            if !self.is_at_reason {
                self.is_at_reason = true;
                return Told::Nothing;
            }
        }
        Told::Done((self.action.clone(), self.reason.0.clone()))
    }
}
