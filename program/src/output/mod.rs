//! What commands print: tables and sentences for people, JSON for programs, names for pipes. The only place that writes to
//! stdout, and the only one that decides how something looks.
//!
//! A command makes a `view` of sentences, facts and `table`s. `style` knows what the terminal can show. `text` makes
//! everything harmless for it. A `list` has the same shape in JSON for every command.

mod list;
mod style;
mod table;
mod text;
mod view;

use std::io::{self, Write};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use streamfleet::admin::Missing;

pub(crate) use self::list::List;
use self::style::Look;
pub(crate) use self::table::{Column, table};
use self::text::{escaped, harmless_lines};
pub(crate) use self::text::{harmless, listed, shell_word};
pub(crate) use self::view::{View, facts};
use super::exit::Exit;

/// The form of what a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables with the most important columns. On a terminal, long cells are cut to fit.
    Table,
    /// Tables with all columns. Nothing is cut.
    Wide,
    /// JSON.
    Json,
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
        self.format == Format::Json
    }

    /// Returns true if a person reads a terminal.
    pub(crate) fn is_watched(self) -> bool {
        matches!(self.format, Format::Table | Format::Wide) && self.look.width.is_some()
    }

    /// Prints `value` for programs, or what `show` makes of it for people.
    pub(crate) fn print<T: Serialize, V: Into<View>>(
        self,
        value: &T,
        show: impl FnOnce(&T) -> V,
    ) -> anyhow::Result<()> {
        if self.is_json() {
            return self.line(&escaped(&serde_json::to_string_pretty(value)?));
        }
        let view: View = show(value).into();
        self.line(&view.render(self.look, self.format == Format::Wide))
    }

    /// Prints `value` in the same way, or its identifiers, which `names` returns, if only they are wanted.
    pub(crate) fn print_named<T: Serialize, V: Into<View>>(
        self,
        value: &T,
        names: impl FnOnce(&T) -> Vec<String>,
        show: impl FnOnce(&T) -> V,
    ) -> anyhow::Result<()> {
        if self.format != Format::Name {
            return self.print(value, show);
        }
        names(value).iter().try_for_each(|name| self.line(&harmless(name)))
    }

    /// Prints one or more lines. A reader that went away (`| head`) is not an error.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        self.print_while_read(text).map(drop)
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

/// Reports which servers of a cluster could not be asked, and returns the exit code of a command that showed the rest.
pub(crate) fn report_missing(missing: &[Missing]) -> Exit {
    missing.iter().for_each(|missing| print_stderr(&missing.to_string()));
    if missing.is_empty() { Exit::Done } else { Exit::Redis }
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
