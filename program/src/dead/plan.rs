//! What a command is about to do to which dead letters, shown before it asks.

use anyhow::Context as _;
use streamfleet::Queue;
use streamfleet::job::DeadReason;
use streamfleet_engine::admin::{DeadGroup, Selection, SelectionPlan};
use streamfleet_operations::dead::{OTHER, Selected, Sweep};

use crate::output::{self, Column};
use crate::{Context, confirm};

/// How many groups a plan shows.
const SHOWN: usize = 10;

/// What holds for letters whose jobs have a step that waits for a decision.
pub(super) const DECIDE: &str = "cannot succeed before a person has decided about a step: streamfleet steps JOB, and then streamfleet \
                                 steps decide JOB STEP VERDICT";

/// Counts the letters that are selected.
///
/// # Errors
///
/// Another error than those of Redis if a signal comes first.
pub(super) async fn count(
    queue: &Queue,
    selection: &Selection,
    context: &Context,
) -> anyhow::Result<SelectionPlan> {
    let bar = output::progress(context.output, Some(selection.total), "dead letters");
    let plan = tokio::select! {
        biased;
        () = context.shutdown.requested() => None,
        plan = queue.dead_letters().plan(selection, |read| bar.set_position(read)) => Some(plan),
    };
    bar.finish_and_clear();
    plan.ok_or_else(confirm::cancelled)?.context("failed to read the dead letters")
}

/// Asks a person.
///
/// # Errors
///
/// An error if the person does not agree, or a signal comes first.
pub(super) async fn confirm(
    question: &str,
    letters: u64,
    queue: &Queue,
    context: &Context,
) -> anyhow::Result<()> {
    let noun = if letters == 1 { "dead letter" } else { "dead letters" };
    let question = format!("{question} {letters} {noun} of the queue {}?", queue.name());
    confirm::proceed(&question, context).await
}

/// Says which letters are selected.
pub(super) fn text(plan: &SelectionPlan, letters: &Selected, way: Sweep) -> String {
    let Selected { selection, existing, .. } = letters;
    let which = match (selection.filter.to_string(), selection.limit) {
        (filter, None) if filter.is_empty() => "all of them".to_owned(),
        (filter, None) => filter,
        (filter, Some(limit)) if filter.is_empty() => format!("the oldest, at most {limit}"),
        (filter, Some(limit)) => format!("the oldest, at most {limit}, of {filter}"),
    };
    let mut lines = vec![format!("{} of {existing} dead letters: {which}", plan.letters)];
    if plan.letters > 0 {
        lines.push(table(&plan.groups).to_string());
    }
    if plan.groups.len() > SHOWN {
        lines.push(format!("and {} more groups", plan.groups.len() - SHOWN));
    }
    let deciding = plan.groups.iter().filter(|group| group.reason == Some(DeadReason::NeedsDecision));
    let deciding: u64 = deciding.map(|group| group.count).sum();
    if deciding > 0 && way == Sweep::Replay {
        lines.push(format!("{deciding} of them {DECIDE}"));
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
    let job_type = |group: &DeadGroup| match (&group.job_type, &group.fingerprint) {
        (Some(name), _) => name.to_string(),
        (None, Some(_)) => String::new(),
        (None, None) => OTHER.to_owned(),
    };
    output::table_of(
        &groups[..groups.len().min(SHOWN)],
        &[
            (Column::from("letters"), &|group| group.count.to_string()),
            (Column::from("type"), &job_type),
            (Column::from("reason"), &|group| group.reason.map_or_else(String::new, |why| why.to_string())),
            (Column::from("sample"), &|group| group.sample.map_or_else(String::new, |id| id.to_string())),
            (Column::from("error"), &|group| group.error.clone()),
        ],
    )
}
