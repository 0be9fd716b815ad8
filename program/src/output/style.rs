//! What standard output can show, and which colors words have.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

use clap::builder::styling::AnsiColor;
use comfy_table::Color;

/// The width of a terminal that does not report its width.
const USUAL_WIDTH: u16 = 80;

/// What standard output can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// The width of the terminal. None if there is no terminal; then nothing is cut.
    pub(super) width: Option<u16>,
    pub(super) has_color: bool,
}

impl Look {
    /// That of a file or a pipe.
    pub(super) const PLAIN: Self = Self { width: None, has_color: false };

    /// Returns what standard output of this process can show.
    pub(super) fn of_stdout() -> Self {
        if !io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let width = comfy_table::Table::new().width().filter(|width| *width > 0);
        let (no_color, term) = (env::var_os("NO_COLOR"), env::var_os("TERM"));
        Self {
            width: Some(width.unwrap_or(USUAL_WIDTH)),
            has_color: wants_color(no_color.as_deref(), term.as_deref()),
        }
    }
}

/// Decides about colors by the variables `NO_COLOR` (see <https://no-color.org>) and `TERM`.
fn wants_color(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// What a state means to those who read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// All is well.
    Good,
    /// Something is happening.
    Active,
    /// It may need attention.
    Caution,
    /// It has failed.
    Bad,
}

impl Meaning {
    /// Returns the meaning of a state, which is the first word of `text`. Most states are neither good nor bad.
    pub(crate) fn of(text: &str) -> Option<Self> {
        match text.split([' ', ',', ':']).next().unwrap_or_default() {
            "done" | "succeeded" | "ok" => Some(Self::Good),
            "running" | "started" => Some(Self::Active),
            "retrying" | "unknown" | "draining" | "paused" | "holding" | "timeout" | "warning" => {
                Some(Self::Caution)
            }
            "dead" | "failed" | "exhausted" | "lost" | "panic" | "error" | "ERROR" => Some(Self::Bad),
            _ => None,
        }
    }

    /// Returns the color in tables.
    pub(super) fn color(self) -> Color {
        match self {
            Self::Good => Color::DarkGreen,
            Self::Active => Color::DarkCyan,
            Self::Caution => Color::DarkYellow,
            Self::Bad => Color::DarkRed,
        }
    }

    /// Returns the text in the same color.
    pub(super) fn painted(self, text: &str) -> String {
        let color = match self {
            Self::Good => AnsiColor::Green,
            Self::Active => AnsiColor::Cyan,
            Self::Caution => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
        };
        let style = color.on_default();
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_or_a_terminal_can_refuse_colors() {
        let wants = |no_color: Option<&str>, term: Option<&str>| {
            wants_color(no_color.map(OsStr::new), term.map(OsStr::new))
        };
        assert!(wants(None, Some("xterm-256color")) && wants(Some(""), Some("xterm")));
        assert!(!wants(Some("1"), Some("xterm")) && !wants(Some("0"), Some("xterm")));
        assert!(!wants(None, Some("dumb")) && !wants(None, None));
    }

    #[test]
    fn the_first_word_of_a_state_decides_about_its_color() {
        assert_eq!(Meaning::of("dead"), Some(Meaning::Bad));
        assert_eq!(Meaning::of("done (run by ann: receipt 17)"), Some(Meaning::Good));
        assert_eq!(Meaning::of("retrying"), Some(Meaning::Caution));
        assert_eq!([Meaning::of("waiting"), Meaning::of(""), Meaning::of("deadline")], [None; 3]);
        assert_eq!(Meaning::Bad.painted("dead"), "\u{1b}[31mdead\u{1b}[0m");
    }
}
