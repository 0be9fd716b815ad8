//! What commands print: tables for people, one JSON document for programs. The only place that writes to stdout.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// How a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Tables and sentences.
    People,
    /// JSON.
    Programs,
}

impl Output {
    /// Prints `value` for programs, or what `show` makes of it for people.
    pub(crate) fn print<T: Serialize>(
        self,
        value: &T,
        show: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let text = match self {
            Self::People => show(value),
            Self::Programs => serde_json::to_string_pretty(value)?,
        };
        self.line(&text)
    }

    /// Prints one line, or several. A reader that went away (`| head`) is no error.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        match writeln!(io::stdout().lock(), "{text}") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// A table with these headings, as wide as the terminal at most.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headings.iter().copied());
    table
}

/// Text from elsewhere, made harmless for a terminal: control characters become visible.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}
