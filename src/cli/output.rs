//! What commands print: tables for people, one JSON document for programs. The only place that writes to stdout.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use streamfleet::broker::Missing;

use super::exit::Exit;

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

    /// Prints `value` on one line of its own for programs, or what `show` makes of it for people: one of many.
    pub(crate) fn print_line<T: Serialize>(
        self,
        value: &T,
        show: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let text = match self {
            Self::People => show(value),
            Self::Programs => serde_json::to_string(value)?,
        };
        self.line(&text)
    }

    /// Prints one line, or several. A reader that went away (`| head`) is no error.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        self.is_read(text).map(drop)
    }

    /// Prints one line, or several, and says whether anybody still reads.
    pub(crate) fn is_read(self, text: &str) -> anyhow::Result<bool> {
        match writeln!(io::stdout().lock(), "{text}") {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Says which servers of a cluster could not be asked, and how a command ends that showed the rest.
pub(crate) fn complain_of(missing: &[Missing]) -> Exit {
    missing.iter().for_each(|missing| complain(&missing.to_string()));
    if missing.is_empty() { Exit::Done } else { Exit::Redis }
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

/// Names and values, one pair per line; those without a value are left out.
pub(crate) fn facts(facts: &[(&str, Option<String>)]) -> String {
    let known = facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let lines = known.map(|(name, value)| format!("{:<12} {}", format!("{name}:"), harmless(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Tells a person something on stderr: what went wrong, or what happens beside the answer.
#[expect(clippy::print_stderr, reason = "the one place that writes to stderr, but for the log")]
pub(crate) fn complain(text: &str) {
    eprintln!("{text}");
}

/// A progress bar on stderr, or, where the end is not known, a counter. Hidden from programs and where stderr is no
/// terminal.
pub(crate) fn progress(output: Output, total: Option<u64>, what: &'static str) -> ProgressBar {
    if output == Output::Programs {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{wide_bar} {human_pos}/{human_len} {msg}, {eta} left"),
        None => (ProgressBar::no_length(), "{human_pos} {msg} ({per_sec})"),
    };
    // The default style serves as well, should the template ever be wrong.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(what)
}
