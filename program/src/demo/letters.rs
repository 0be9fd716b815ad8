//! The dead letters, grouped by what killed their jobs, and the replay of one with plain Redis commands.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use streamfleet::admin::{DeadLetter, stream_name};
use streamfleet::job::Lane;

use super::command::Command;
use crate::output::{self, harmless};

/// How many jobs of a group are named.
const NAMED: usize = 3;

/// Returns a table of all letters, with one row per reason and fingerprint.
pub(super) fn table(letters: &[DeadLetter]) -> String {
    let mut groups: BTreeMap<(String, String), Vec<&DeadLetter>> = BTreeMap::new();
    for letter in letters {
        groups.entry((letter.text("dead_reason"), letter.text("dead_fingerprint"))).or_default().push(letter);
    }
    let mut table = output::table(&["letters", "reason", "type", "attempts", "last error", "jobs"]);
    for ((reason, _), letters) in &groups {
        let Some(first) = letters.first() else { continue };
        let mut jobs: Vec<_> = letters.iter().take(NAMED).map(|letter| letter.job().to_string()).collect();
        if letters.len() > NAMED {
            jobs.push("…".to_owned());
        }
        table.add_row([
            letters.len().to_string(),
            harmless(reason),
            harmless(&first.text("type")),
            first.text("dead_attempts"),
            harmless(&first.text("dead_error")),
            harmless(&jobs.join(" ")),
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

/// Returns the `XADD` of all of a letter's fields to the lane it came from. Workers ignore fields that begin with
/// `dead_`.
pub(super) fn replay(letter: &DeadLetter) -> Result<Command> {
    let lane: Lane = letter.text("dead_origin").parse().ok().context("the letter has no valid lane")?;
    let stream = stream_name(&"sf".parse()?, &super::queue()?, lane);
    let words = [&b"XADD"[..], stream.as_bytes(), b"*"];
    let fields = letter.fields.fields().flat_map(|(name, value)| [name, value]);
    Ok(Command::new(words.into_iter().chain(fields)))
}

/// Returns the `XDEL` of a letter.
pub(super) fn delete(letter: &DeadLetter) -> Command {
    Command::new(["XDEL", super::DEAD, &letter.entry.to_string()])
}
