//! The keys that mean something here.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A character, also of Shift.
    Char(char),
    /// A letter together with Ctrl.
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

impl Key {
    /// Returns the key of an event; `None` if it means nothing.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys mean nothing")]
    pub(super) fn of(event: KeyEvent) -> Option<Self> {
        Some(match event.code {
            KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => Self::Ctrl(c),
            KeyCode::Char(_) if event.modifiers.contains(KeyModifiers::ALT) => return None,
            KeyCode::Char(c) => Self::Char(c),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Esc,
            KeyCode::Tab | KeyCode::BackTab => Self::Tab,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            _ => return None,
        })
    }
}
