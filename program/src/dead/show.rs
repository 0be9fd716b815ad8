//! `dead show`: every field of one dead letter: as is if it is text, otherwise in hexadecimal.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobId, Timestamp};
use streamfleet_engine::admin::DeadLetter;
use streamfleet_service::config::Effective;

use super::kept::Kept;
use super::list::{self, Letter};
use crate::Context;
use crate::exit::Exit;
use crate::output::harmless;
use crate::times::Clock;

/// A letter with all its fields, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetterFields)]
pub(crate) struct Report {
    #[serde(flatten)]
    letter: Letter,
    queue: String,
    #[serde(flatten)]
    kept: Kept,
    fields: Vec<Field>,
}

/// One field, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = LetterField)]
struct Field {
    name: String,
    /// `utf8`, or `hex` if the value is not text.
    form: &'static str,
    value: String,
}

/// Shows the letter.
pub(super) async fn run(id: &JobId, queue: &Queue, context: &Context) -> anyhow::Result<Exit> {
    let Some(dead) = super::find(queue, id).await? else {
        super::report_missing(queue, id).await?;
        return Ok(Exit::NotFound);
    };
    let now = queue.clock().await?;
    context.output.print_named(
        &report(&dead, queue, &context.effective),
        |report| vec![report.letter.letter.clone()],
        |report| show(report, &context.clock, now),
    )?;
    Ok(Exit::Done)
}

/// Converts a letter with all its fields for JSON output.
pub(crate) fn report(dead: &DeadLetter, queue: &Queue, effective: &Effective) -> Report {
    let kept = Kept::of(dead.entry, queue.name(), effective);
    Report { letter: list::letter(dead), queue: queue.name().to_string(), kept, fields: fields(dead) }
}

fn fields(dead: &DeadLetter) -> Vec<Field> {
    let field = |(name, value): (&[u8], &[u8])| {
        let name = String::from_utf8_lossy(name).into_owned();
        match std::str::from_utf8(value) {
            Ok(text) => Field { name, form: "utf8", value: text.to_owned() },
            Err(_) => Field { name, form: "hex", value: hex(value) },
        }
    };
    dead.fields.fields().map(field).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn show(report: &Report, clock: &Clock, now: Timestamp) -> String {
    let mut text = format!("dead letter {} of the queue {}\n", report.letter.letter, report.queue);
    text.extend(report.kept.told(clock, now).map(|told| format!("{told}\n")));
    let width = report.fields.iter().map(|field| field.name.chars().count()).max().unwrap_or(0);
    for Field { name, form, value } in &report.fields {
        let mark = if *form == "hex" { " (hexadecimal, not text)" } else { "" };
        let name = harmless(name);
        // Line breaks stay; everything else that could control a terminal is escaped.
        let value = value.lines().map(harmless).collect::<Vec<_>>().join("\n    ");
        let time = time(&name, &value).map_or_else(String::new, |time| format!(" ({})", clock.precise(time)));
        text += &format!("\n{name:<width$}{mark}  {value}{time}");
    }
    text
}

/// The instant that a field holds, if it holds one.
fn time(name: &str, value: &str) -> Option<Timestamp> {
    let holds = name.ends_with("_at_ms") || name.ends_with("_failed_ms") || name == "created_ms";
    Timestamp::from_ms(value.parse().ok().filter(|_| holds)?)
}
