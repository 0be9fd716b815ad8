//! What a command is about to do to which dead letters, shown before it asks.

use anyhow::Context as _;
use streamfleet::Queue;
use streamfleet_engine::admin::{DeadGroup, Selection, SelectionPlan};

use super::groups::OTHER;
use crate::Context;
use crate::{confirm, output};

/// How many groups a plan shows.
const SHOWN: usize = 10;

/// Shows which letters are selected, on stderr, and returns how many.
pub(super) async fn show(queue: &Queue, selection: &Selection, context: &Context) -> anyhow::Result<u64> {
    let bar = output::progress(context.output, Some(selection.total), "dead letters");
    let plan = queue.dead_letters().plan(selection, |read| bar.set_position(read)).await;
    bar.finish_and_clear();
    let plan = plan.context("failed to read the dead letters")?;
    output::print_stderr(&text(&plan, selection));
    Ok(plan.letters)
}

/// Asks a person.
pub(super) fn confirmed(question: &str, letters: u64, queue: &Queue) -> anyhow::Result<bool> {
    let noun = if letters == 1 { "dead letter" } else { "dead letters" };
    confirm::yes(&format!("{question} {letters} {noun} of the queue {}?", queue.name()))
}

fn text(plan: &SelectionPlan, selection: &Selection) -> String {
    let filter = match selection.filter.to_string() {
        filter if filter.is_empty() => "all of them".to_owned(),
        filter => filter,
    };
    let mut lines = vec![format!("{} of {} dead letters: {filter}", plan.letters, selection.total)];
    if plan.letters > 0 {
        lines.push(table(&plan.groups).to_string());
    }
    if plan.groups.len() > SHOWN {
        lines.push(format!("and {} more groups", plan.groups.len() - SHOWN));
    }
    if plan.undecided > 0 {
        lines.push(format!(
            "{} dead letters are left alone, because the filter cannot read their payloads",
            plan.undecided
        ));
    }
    lines.join("\n")
}

/// The largest groups. The letter of each is a sample.
fn table(groups: &[DeadGroup]) -> output::Table {
    let mut table = output::table(&["letters", "type", "reason", "sample", "error"]);
    for group in groups.iter().take(SHOWN) {
        let unnamed = if group.fingerprint.is_some() { "" } else { OTHER };
        table.add_row([
            group.count.to_string(),
            group.job_type.as_ref().map_or_else(|| unnamed.to_owned(), ToString::to_string),
            group.reason.map_or_else(String::new, |reason| reason.to_string()),
            group.sample.map_or_else(String::new, |letter| letter.to_string()),
            group.error.clone(),
        ]);
    }
    table
}
