//! What a command about many jobs shows: the plan, and what became of the jobs.

use streamfleet_operations::jobs::bulk::{BulkCount, BulkReport, Change};

use crate::output;

/// How many types a plan shows.
const SHOWN: usize = 10;

/// Shows what is about to happen.
pub(super) fn plan(report: &BulkReport, change: &Change) -> String {
    let filter = if report.filter.is_empty() { "all of them" } else { report.filter.as_str() };
    let target = report.to.as_ref().map_or_else(String::new, |to| format!(" to the queue {to}"));
    let jobs = output::counted(report.planned, "job", "jobs");
    let mut lines =
        vec![format!("{jobs} of the queue {} would be {}{target}: {filter}", report.queue, verb(change))];
    if report.planned > 0 {
        lines.push(counts("type", &report.types).to_string());
        lines.extend(more(&report.types));
        lines.push(counts("state", &report.states).to_string());
        let mut sample = output::table(&["sample", "type", "state"]);
        for job in &report.sample {
            sample.add_row([job.id.clone(), job.job_type.clone(), job.state.to_owned()]);
        }
        lines.push(sample.to_string());
        lines.extend(effect(change).map(str::to_owned));
    }
    lines.extend(report.remarks.iter().cloned());
    lines.extend(left_over(report));
    lines.join("\n")
}

/// Shows what became of the jobs.
pub(super) fn outcome(report: &BulkReport, change: &Change) -> String {
    let mut parts = vec![format!("{} {}", report.changed, verb(change))];
    if report.requested > 0 {
        parts.push(format!("{} running and asked to stop", report.requested));
    }
    if report.gone > 0 {
        parts.push(format!("{} gone already", report.gone));
    }
    parts.extend(report.kept.iter().map(|(why, count)| format!("{count} left alone ({why})")));
    if report.failed > 0 {
        parts.push(format!("{} failed: {}", report.failed, report.errors.join("; ")));
    }
    let mut lines = vec![parts.join(", ")];
    lines.extend(left_over(report));
    lines.extend(report.task.as_ref().map(|task| format!("by the task {task}")));
    lines.join("\n")
}

/// What happens to the jobs.
fn verb(change: &Change) -> &'static str {
    match change {
        Change::Cancel => "cancelled",
        Change::RunNow => "made due now",
        Change::Move { .. } => "moved",
    }
}

/// What a person may not expect.
fn effect(change: &Change) -> Option<&'static str> {
    match change {
        Change::Cancel => Some("running jobs are asked to stop"),
        Change::Move { .. } => Some("jobs that a worker takes meanwhile stay"),
        Change::RunNow => None,
    }
}

fn left_over(report: &BulkReport) -> Vec<String> {
    let mut lines = report.unread.clone();
    if report.undecided > 0 {
        let jobs = output::counted(report.undecided, "job is left alone", "jobs are left alone");
        lines.push(format!("{jobs}, because the filter cannot read their payloads"));
    }
    lines
}

fn counts(what: &'static str, counts: &[BulkCount]) -> output::Table {
    let mut table = output::table(&["jobs", what]);
    for count in counts.iter().take(SHOWN) {
        let name = if count.name.is_empty() { "(others)" } else { count.name.as_str() };
        table.add_row([count.jobs.to_string(), name.to_owned()]);
    }
    table
}

fn more(counts: &[BulkCount]) -> Option<String> {
    counts.len().checked_sub(SHOWN).filter(|more| *more > 0).map(|more| format!("and {more} more types"))
}
