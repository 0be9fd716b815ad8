//! The dead letters, grouped by what killed their jobs, and the replay of one with a plain Redis command.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use streamfleet::Queue;
use streamfleet_engine::admin::DeadLetter;

use super::command::Command;
use super::{plan, screen};

/// How many letters are read: more than the demo has jobs.
const MOST: u64 = 1000;

/// How many jobs of a group are named.
const NAMED: usize = 3;

/// Returns all letters, oldest first.
pub(super) async fn read(queue: &Queue) -> Result<Vec<DeadLetter>> {
    // The client's future is large.
    Box::pin(queue.dead_letters().page(None, MOST)).await.context("failed to read the dead letters")
}

/// Returns a table of all letters, with one row per reason and fingerprint.
pub(super) fn table(letters: &[DeadLetter]) -> String {
    let mut groups: BTreeMap<(String, String), Vec<&DeadLetter>> = BTreeMap::new();
    for letter in letters {
        groups.entry((letter.text("dead_reason"), letter.text("dead_fingerprint"))).or_default().push(letter);
    }
    let mut table = screen::table(&["letters", "reason", "type", "attempts", "last error", "jobs"]);
    for ((reason, _), letters) in groups {
        let Some(first) = letters.first() else { continue };
        let mut jobs: Vec<_> = letters.iter().take(NAMED).map(|letter| letter.job().to_string()).collect();
        if letters.len() > NAMED {
            jobs.push("…".to_owned());
        }
        table.add_row([
            letters.len().to_string(),
            reason,
            first.text("type"),
            first.text("dead_attempts"),
            first.text("dead_error"),
            jobs.join(" "),
        ]);
    }
    table.to_string()
}

/// Counts the letters by reason.
pub(super) fn by_reason(letters: &[DeadLetter]) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for letter in letters {
        *reasons.entry(letter.text("dead_reason")).or_default() += 1;
    }
    reasons
}

/// Returns the `XADD` of all of a letter's fields to the lane it came from.
pub(super) fn replay(letter: &DeadLetter) -> Result<Command> {
    let stream = plan::stream(letter.text("dead_origin").parse()?);
    let words = [&b"XADD"[..], stream.as_bytes(), b"*"];
    let fields = letter.fields.fields().flat_map(|(name, value)| [name, value]);
    Ok(Command::new(words.into_iter().chain(fields)))
}
