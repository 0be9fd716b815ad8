//! `dead show`: every field of one dead letter: as is if it is text, otherwise in hexadecimal.

use streamfleet::Queue;
use streamfleet::job::{JobId, Timestamp};
use streamfleet_operations::Error;
use streamfleet_operations::dead::{Field, Kept, LetterFields, find};

use crate::exit::Exit;
use crate::output::harmless;
use crate::times::Clock;
use crate::{Context, history};

/// Shows the letter, or what the history has about the job if Redis does not have the letter any more.
pub(super) async fn run(id: &JobId, queue: &Queue, context: &Context) -> anyhow::Result<Exit> {
    let letter = match find(queue.dead_letters(), queue, id).await {
        Err(Error::NotFound(_)) if history::has_shown(queue, id, context).await? => return Ok(Exit::Done),
        letter => letter?,
    };
    let shown = LetterFields::seen(&letter, queue, super::limits(queue.name(), &context.effective));
    let now = queue.clock().await?;
    context.output.print_named(
        &shown,
        |shown| vec![shown.letter.letter.clone()],
        |shown| show(shown, &context.clock, now),
    )?;
    Ok(Exit::Done)
}

/// Says when retention drops the letter; `None` if it never does.
fn told(kept: &Kept, clock: &Clock, now: Timestamp) -> Option<String> {
    let at = kept.expires_at_ms.map(|at| format!("at the latest {}", clock.with_age(at, now)));
    let most = kept.dead_max.map(|most| format!("as soon as the queue has {most} newer ones"));
    let rules: Vec<String> = at.into_iter().chain(most).collect();
    (!rules.is_empty()).then(|| format!("retention drops it {}", rules.join(", or ")))
}

fn show(shown: &LetterFields, clock: &Clock, now: Timestamp) -> String {
    let mut text = format!("dead letter {} of the queue {}\n", shown.letter.letter, shown.queue);
    text.extend(told(&shown.kept, clock, now).map(|told| format!("{told}\n")));
    let width = shown.fields.iter().map(|field| field.name.chars().count()).max().unwrap_or(0);
    for Field { name, form, value, .. } in &shown.fields {
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
