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
}

impl Dialog {
    /// Asks about an action.
    pub(in crate::top) fn new(action: Action) -> Self {
        let value = action.asks().map(|(label, text)| (label, Line(text)));
        let is_at_reason = value.is_none();
        Self { action, value, reason: Line::default(), is_at_reason, warning: String::new() }
    }

    /// Asks once more about an action that is doubtful.
    pub(in crate::top) fn doubting(action: Action, doubt: &str, reason: Line) -> Self {
        let warning = format!("{doubt}. Enter does it all the same.");
        Self { action, value: None, reason, is_at_reason: true, warning }
    }

    /// Takes a key, and returns what to do if somebody has confirmed it.
    pub(super) fn press(&mut self, key: Key) -> Told<(Action, String)> {
        match key {
            Key::Esc => return Told::Cancelled,
            Key::Enter => return self.confirm(),
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
