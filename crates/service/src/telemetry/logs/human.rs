//! Lines for people: what a program writes as it wrote it, and a text of several lines below the line that it belongs to. Whatever
//! the texts are, a terminal only shows them.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::{RecordFields, VisitFmt, VisitOutput};
use tracing_subscriber::fmt::format::{DefaultVisitor, Format, Writer, format};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The targets of the lines that programs write on standard error.
pub(super) const PROGRAMS: [&str; 2] =
    ["streamfleet::handlers::pool::words", "streamfleet::handlers::exec::progress"];

/// Writes a line.
pub(super) struct Human(Format);

impl Human {
    pub(super) fn new() -> Self {
        Self(format().with_target(false))
    }
}

impl<S, N> FormatEvent<S, N> for Human
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if !PROGRAMS.contains(&event.metadata().target()) {
            return self.0.format_event(context, writer, event);
        }
        let mut written = Written::default();
        event.record(&mut written);
        writeln!(writer, "[{}] {}", safe(&written.about.join(" ")), safe(&written.text))
    }
}

/// What a program wrote, and what it was about.
#[derive(Default)]
struct Written {
    about: Vec<String>,
    text: String,
}

impl Visit for Written {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "text" => value.clone_into(&mut self.text),
            // The pool of one type has its name.
            "pool" | "job_type" | "job" if self.about.last().is_none_or(|last| last != value) => {
                self.about.push(value.to_owned());
            }
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Writes the fields of a line.
pub(super) struct Fields;

impl<'a> FormatFields<'a> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'a>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { usual: DefaultVisitor::new(writer, true), below: String::new() };
        fields.record(&mut visitor);
        let Visitor { mut usual, below } = visitor;
        usual.writer().write_str(&below)?;
        usual.finish()
    }
}

struct Visitor<'a> {
    usual: DefaultVisitor<'a>,
    /// The texts of several lines.
    below: String,
}

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if !value.contains('\n') {
            return self.usual.record_str(field, value);
        }
        // Indented, so that nothing looks like a line of its own.
        self.below.push_str(&format!("\n  {}:", field.name()));
        value.lines().for_each(|line| self.below.push_str(&format!("\n    {}", safe(line))));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let shown = format!("{value:?}");
        let shown: Vec<String> = shown.split('\n').map(safe).collect();
        self.usual.record_debug(field, &format_args!("{}", shown.join("\n")));
    }
}

/// Returns a line without what a terminal does more with than show it.
fn safe(line: &str) -> String {
    let mut safe = String::with_capacity(line.len());
    for c in line.chars() {
        if matches!(c, '\t' | '"' | '\'' | '\\') { safe.push(c) } else { safe.extend(c.escape_debug()) }
    }
    safe
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Keeps what is written to it.
    #[derive(Clone, Default)]
    pub(in super::super) struct Sink(pub(in super::super) Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns what these events look like.
    pub(in super::super) fn shown(log: impl FnOnce()) -> String {
        let sink = Sink::default();
        let out = sink.clone();
        let layer = fmt::layer().with_writer(move || out.clone());
        let layer = layer.event_format(Human::new()).fmt_fields(Fields).with_ansi(false);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn what_a_program_writes_is_shown_as_it_is_and_harmlessly() {
        let text = shown(|| {
            let (pool, text) = (&"php", "  [\"a\"] => \u{1b}[2J\u{202e}'é'\n\t1".to_owned());
            tracing::debug!(
                target: "streamfleet::handlers::pool::words",
                %pool, job_type = "mail.send", job = "17-0", text, "a program of a pool wrote on standard error"
            );
        });
        assert_eq!(text, "[php mail.send 17-0]   [\"a\"] => \\u{1b}[2J\\u{202e}'é'\\n\t1\n");
    }

    #[test]
    fn a_text_of_several_lines_stands_below_its_line() {
        let text = shown(|| {
            let error = "Traceback:\n  File \"a.py\"\u{1b}[2J\nValueError: no";
            tracing::info!(job = "17-0", error, suppressed = 0, "a handler failed");
        });
        let (line, below) = text.split_once('\n').unwrap();
        assert!(line.ends_with("INFO a handler failed job=\"17-0\" suppressed=0"), "{text}");
        assert_eq!(below, "  error:\n    Traceback:\n      File \"a.py\"\\u{1b}[2J\n    ValueError: no\n");
    }

    #[test]
    fn the_id_of_a_job_does_nothing_but_stand_there() {
        let text = shown(|| {
            let (job, queue) = ("Jx\u{202e}\u{200b}é", "default");
            tracing::info!(%queue, %job, attempt = 1, "a job is dead");
        });
        assert!(
            text.ends_with("INFO a job is dead queue=default job=Jx\\u{202e}\\u{200b}é attempt=1\n"),
            "{text}"
        );
    }

    #[test]
    fn other_lines_look_as_usual() {
        let text = shown(|| tracing::warn!(why = "a \"b\"", "it failed"));
        assert!(text.ends_with("WARN it failed why=\"a \\\"b\\\"\"\n"), "{text}");
    }
}
