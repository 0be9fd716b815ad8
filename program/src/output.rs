//! What commands print: tables for people, one JSON document for programs. The only place that writes to stdout.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use streamfleet::admin::Missing;

use super::exit::Exit;

/// How a command prints its result.
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
            Self::People => harmless_lines(&show(value)),
            Self::Programs => escaped(&serde_json::to_string_pretty(value)?),
        };
        self.line(&text)
    }

    /// Prints `value` on one line for programs, or what `show` makes of it for people: one of many values.
    pub(crate) fn print_line<T: Serialize>(
        self,
        value: &T,
        show: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let text = match self {
            Self::People => harmless_lines(&show(value)),
            Self::Programs => escaped(&serde_json::to_string(value)?),
        };
        self.line(&text)
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

/// Reports which servers of a cluster could not be asked, and returns the exit code of a command that showed the rest.
pub(crate) fn report_missing(missing: &[Missing]) -> Exit {
    missing.iter().for_each(|missing| print_stderr(&missing.to_string()));
    if missing.is_empty() { Exit::Done } else { Exit::Redis }
}

/// A table with these headings, at most as wide as the terminal.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headings.iter().copied());
    table
}

/// Makes text from elsewhere harmless for a terminal: invisible characters are escaped.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Escapes the invisible characters of JSON text as JSON does. They occur only inside strings.
fn escaped(json: &str) -> String {
    if !json.chars().any(|c| c != '\n' && is_unseen(c)) {
        return json.to_owned();
    }
    let escape = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    json.chars().map(|c| if c != '\n' && is_unseen(c) { escape(c) } else { c.to_string() }).collect()
}

/// Does the same for several lines.
fn harmless_lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

/// Whether a character acts on a terminal or on the text around it without being visible: control characters (C0 and C1),
/// overrides and isolates of the writing direction, line separators, and everything that has no width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Quotes a word for a shell, if it needs quotes.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/".contains(c);
    let plain = !word.is_empty() && word.chars().all(is_plain);
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Names and values, one pair per line. Names without a value are left out.
pub(crate) fn facts(facts: &[(&str, Option<String>)]) -> String {
    let known = facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let lines = known.map(|(name, value)| format!("{:<12} {}", format!("{name}:"), harmless(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints a message to stderr: an error, or a remark beside the result.
#[expect(clippy::print_stderr, reason = "the only place that writes to stderr, except for the log")]
pub(crate) fn print_stderr(text: &str) {
    eprintln!("{}", harmless_lines(text));
}

/// A progress bar on stderr, or a counter if the total is not known. Hidden with `--json`, and if stderr is not a
/// terminal.
pub(crate) fn progress(output: Output, total: Option<u64>, what: &'static str) -> ProgressBar {
    if output == Output::Programs {
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

/// Joins names on one line.
pub(crate) fn listed<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_and_others_stay() {
        for c in "\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200f}\u{2028}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}".chars() {
            let text = format!("a{c}b");
            assert_eq!(harmless(&text), format!("a{}b", c.escape_default()));
            let json = serde_json::to_string(&text).unwrap();
            let escaped = escaped(&json);
            assert!(!escaped.chars().any(is_unseen), "{escaped}");
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
        for text in ["käse 好 ½ → │ ─ ╞ ✓ шум שלום سلام", ""] {
            assert_eq!(harmless(text), text);
            assert_eq!(escaped(text), text);
        }
        assert_eq!(harmless_lines("a\u{202e}\nb"), "a\\u{202e}\nb");
    }
}
