//! What commands print: tables and sentences for people, JSON for programs, names for pipes. The only place that writes to
//! stdout, and the only one that decides how something looks.
//!
//! A command makes a `view` of sentences, facts and `table`s. `style` knows what the terminal can show. `text` makes
//! everything harmless for it. A list has the same shape in JSON for every command, and may be shown again and again
//! (`repeat`).

mod repeat;
mod style;
mod table;
mod text;
mod view;

use std::io::{self, Write};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
pub(crate) use streamfleet_operations::{List, counted};

pub(crate) use self::repeat::{Listing, Repeat};
use self::style::Look;
pub(crate) use self::style::Meaning;
pub(crate) use self::table::{Column, Table, table, table_of};
use self::text::{escaped, harmless_lines};
pub(crate) use self::text::{harmless, listed, shell_word};
pub(crate) use self::view::{View, facts};

/// The form of what a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables with the most important columns. On a terminal, long cells are cut to fit.
    Table,
    /// Tables with all columns. Nothing is cut.
    Wide,
    /// JSON.
    Json,
    /// JSON, one line for each item of a list.
    Jsonl,
    /// Only identifiers, one per line. What has none is printed as a table.
    Name,
}

/// How a command prints its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    look: Look,
}

impl Output {
    /// Returns an output of this form to this process's standard output.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, look: Look::of_stdout() }
    }

    /// Returns true if JSON is printed.
    pub(crate) fn is_json(self) -> bool {
        matches!(self.format, Format::Json | Format::Jsonl)
    }

    /// Returns true if the items of lists are printed without what is known about the lists.
    pub(crate) fn is_items_only(self) -> bool {
        self.format == Format::Jsonl
    }

    /// Returns true if a person reads a terminal.
    pub(crate) fn is_watched(self) -> bool {
        matches!(self.format, Format::Table | Format::Wide) && self.look.width.is_some()
    }

    /// Whether colors help: stdout is a terminal that has them, and nobody has refused them.
    pub(crate) fn has_color(self) -> bool {
        self.look.has_color
    }

    /// Prints `value` for programs, or what `show` makes of it for people.
    pub(crate) fn print<T: Serialize, V: Into<View>>(
        self,
        value: &T,
        show: impl FnOnce(&T) -> V,
    ) -> anyhow::Result<()> {
        if self.is_json() {
            return self.block(&self.json(value)?).map(drop);
        }
        self.line(&self.shown(show(value)))
    }

    /// Prints `value` in the same way, or its identifiers, which `names` returns, if only they are wanted.
    pub(crate) fn print_named<T: Serialize, V: Into<View>>(
        self,
        value: &T,
        names: impl FnOnce(&T) -> Vec<String>,
        show: impl FnOnce(&T) -> V,
    ) -> anyhow::Result<()> {
        self.block(&self.rendered(value, names, show)?).map(drop)
    }

    /// Returns what [`Output::print_named`] prints.
    pub(crate) fn rendered<T: Serialize, V: Into<View>>(
        self,
        value: &T,
        names: impl FnOnce(&T) -> Vec<String>,
        show: impl FnOnce(&T) -> V,
    ) -> anyhow::Result<String> {
        match self.format {
            Format::Table | Format::Wide => Ok(self.shown(show(value))),
            Format::Json | Format::Jsonl => self.json(value),
            Format::Name => Ok(names(value).iter().map(|name| harmless(name)).collect::<Vec<_>>().join("\n")),
        }
    }

    fn json(self, value: &impl Serialize) -> anyhow::Result<String> {
        if !self.is_items_only() {
            return Ok(escaped(&serde_json::to_string_pretty(value)?));
        }
        let value = serde_json::to_value(value)?;
        let Some(items) = value.get("items").and_then(serde_json::Value::as_array) else {
            return json_line(&value);
        };
        let lines: anyhow::Result<Vec<_>> = items.iter().map(json_line).collect();
        Ok(lines?.join("\n"))
    }

    fn shown(self, view: impl Into<View>) -> String {
        let view: View = view.into();
        view.render(self.look, self.format == Format::Wide)
    }

    /// Prints one or more lines. A reader that went away (`| head`) is not an error.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        self.print_while_read(text).map(drop)
    }

    /// Prints any number of lines, even none, and returns whether anybody still reads.
    fn block(self, text: &str) -> anyhow::Result<bool> {
        if text.is_empty() { Ok(true) } else { self.print_while_read(text) }
    }

    /// Prints one or more lines, and returns whether anybody still reads.
    pub(crate) fn print_while_read(self, text: &str) -> anyhow::Result<bool> {
        match writeln!(io::stdout().lock(), "{text}") {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns a value as JSON on one line: one of many.
pub(crate) fn json_line(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(&serde_json::to_string(value)?))
}

/// Prints a message to stderr: an error, or a remark beside the result.
#[expect(clippy::print_stderr, reason = "the only place that writes to stderr, except for the log")]
pub(crate) fn print_stderr(text: &str) {
    eprintln!("{}", harmless_lines(text));
}

/// A progress bar on stderr, or a counter if the total is not known. Hidden unless tables are printed, and if stderr is
/// not a terminal.
pub(crate) fn progress(output: Output, total: Option<u64>, what: &'static str) -> ProgressBar {
    if !matches!(output.format, Format::Table | Format::Wide) {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{wide_bar} {human_pos}/{human_len} {msg}, {eta} left"),
        None => (ProgressBar::no_length(), "{human_pos} {msg} ({per_sec})"),
    };
    // If the template were ever invalid, the default style would do.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(what)
}
