//! What a command about many jobs shows: the plan, and what became of the jobs.

use std::collections::BTreeMap;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobType, State};
use streamfleet_engine::admin::{BulkAction, BulkPlan, BulkSelection, BulkTally, KeptBack};

use crate::{output, unserved};

/// How many types a plan shows.
const SHOWN: usize = 10;

/// The most types about which the workers of another queue are asked.
const MAX_ASKED: usize = 20;

/// The plan and its outcome, for JSON output.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BulkReport)]
pub(crate) struct Report {
    queue: String,
    /// The queue that gets the jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    filter: String,
    dry_run: bool,
    /// How many jobs matched beforehand.
    pub(crate) planned: u64,
    types: Vec<Count>,
    states: Vec<Count>,
    /// The first of them.
    sample: Vec<Sample>,
    /// What else to know beforehand.
    remarks: Vec<String>,
    /// How many were cancelled, made due, or moved.
    changed: u64,
    /// How many run and were asked to stop.
    requested: u64,
    /// How many had ended or moved by themselves.
    gone: u64,
    /// How many were left alone, by reason.
    #[schema(value_type = BTreeMap<String, u64>)]
    kept: BTreeMap<&'static str, u64>,
    failed: u64,
    errors: Vec<String>,
    undecided: u64,
    unread: Vec<String>,
    interrupted: bool,
    #[serde(skip)]
    action: BulkAction,
}

/// How many jobs have a type or a state.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BulkCount)]
struct Count {
    name: String,
    jobs: u64,
}

/// One job of the sample.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = BulkSample)]
struct Sample {
    id: String,
    #[serde(rename = "type")]
    job_type: String,
    state: &'static str,
}

impl Report {
    pub(crate) fn new(queue: &Queue, selection: &BulkSelection, plan: &BulkPlan, dry_run: bool) -> Self {
        let to = match &selection.action {
            BulkAction::Move(to) => Some(to.to_string()),
            BulkAction::Cancel | BulkAction::RunNow | BulkAction::Drop | BulkAction::Purge => None,
        };
        let sample = plan.sample.iter().map(|job| Sample {
            id: job.id.clone(),
            job_type: job.job_type.clone(),
            state: job.state.as_str(),
        });
        let state = |(state, jobs): &(State, u64)| Count { name: state.to_string(), jobs: *jobs };
        let job_type = |(name, jobs): &(String, u64)| Count { name: name.clone(), jobs: *jobs };
        Self {
            queue: queue.name().to_string(),
            to,
            filter: selection.filter.to_string(),
            dry_run,
            planned: plan.jobs,
            types: plan.types.iter().map(job_type).collect(),
            states: plan.states.iter().map(state).collect(),
            sample: sample.collect(),
            remarks: Vec::new(),
            changed: 0,
            requested: 0,
            gone: 0,
            kept: BTreeMap::new(),
            failed: 0,
            errors: Vec::new(),
            undecided: plan.undecided,
            unread: plan.unread.clone(),
            interrupted: false,
            action: selection.action.clone(),
        }
    }

    /// Remarks on what keeps the jobs from running in the other queue, or from getting there: types that no live worker of
    /// it knows, and too many jobs. `max_depth` is the limit of the configuration.
    pub(crate) async fn note_target(&mut self, queue: &Queue, to: &Queue, max_depth: Option<u64>) {
        match queue.bulk().room_in(to.name(), max_depth).await {
            Ok(Some(room)) if room < self.planned => {
                let name = to.name();
                self.remarks.push(format!(
                    "the queue {name} accepts {} at the moment (max_depth); the rest stay",
                    further(room)
                ));
            }
            Ok(_) => {}
            Err(error) => {
                self.remarks.push(format!("the limit of the queue {} is unknown: {error}", to.name()))
            }
        }
        for count in self.types.iter().take(MAX_ASKED) {
            if let Ok(job_type) = count.name.parse::<JobType>()
                && let Some(remark) = unserved::remark(to, &job_type).await
            {
                self.remarks.push(remark);
            }
        }
    }

    /// Takes what became of the jobs.
    pub(crate) fn take(&mut self, tally: BulkTally, interrupted: bool) {
        (self.changed, self.requested, self.gone) = (tally.changed, tally.requested, tally.gone);
        self.kept =
            tally.kept.into_iter().map(|(why, count): (KeptBack, u64)| (why.as_str(), count)).collect();
        (self.failed, self.errors) = (tally.failed, tally.errors);
        (self.undecided, self.unread) = (tally.undecided, tally.unread);
        self.interrupted = interrupted;
    }

    /// Returns true if nothing failed and nothing was left out by accident.
    pub(crate) fn is_complete(&self) -> bool {
        !self.interrupted && self.failed == 0 && self.unread.is_empty()
    }

    /// What happens to the jobs.
    fn verb(&self) -> &'static str {
        match self.action {
            BulkAction::Cancel => "cancelled",
            BulkAction::RunNow => "made due now",
            BulkAction::Move(_) => "moved",
            BulkAction::Drop => "dropped",
            BulkAction::Purge => "cancelled or dropped",
        }
    }
}

/// Shows what is about to happen.
pub(super) fn plan(report: &Report) -> String {
    let filter = if report.filter.is_empty() { "all of them" } else { report.filter.as_str() };
    let target = report.to.as_ref().map_or_else(String::new, |to| format!(" to the queue {to}"));
    let jobs = noun(report.planned);
    let mut lines =
        vec![format!("{jobs} of the queue {} would be {}{target}: {filter}", report.queue, report.verb())];
    if report.planned > 0 {
        lines.push(counts("type", &report.types).to_string());
        lines.extend(more(&report.types));
        lines.push(counts("state", &report.states).to_string());
        let mut sample = output::table(&["sample", "type", "state"]);
        for job in &report.sample {
            sample.add_row([job.id.clone(), job.job_type.clone(), job.state.to_owned()]);
        }
        lines.push(sample.to_string());
        lines.extend(effect(report).map(str::to_owned));
    }
    lines.extend(report.remarks.iter().cloned());
    lines.extend(left_over(report));
    lines.join("\n")
}

/// Shows what became of the jobs.
pub(super) fn outcome(report: &Report) -> String {
    let mut parts = vec![format!("{} {}", report.changed, report.verb())];
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
    if report.interrupted {
        lines.push("interrupted; to continue, give the same command again".to_owned());
    }
    lines.join("\n")
}

/// What a person may not expect.
fn effect(report: &Report) -> Option<&'static str> {
    match report.action {
        BulkAction::Cancel => Some("running jobs are asked to stop"),
        BulkAction::Move(_) => Some("jobs that a worker takes meanwhile stay"),
        BulkAction::RunNow | BulkAction::Drop | BulkAction::Purge => None,
    }
}

fn left_over(report: &Report) -> Vec<String> {
    let mut lines = report.unread.clone();
    if report.undecided > 0 {
        let count = report.undecided;
        lines.push(format!("{count} jobs are left alone, because the filter cannot read their payloads"));
    }
    lines
}

fn counts(what: &'static str, counts: &[Count]) -> output::Table {
    let mut table = output::table(&["jobs", what]);
    for count in counts.iter().take(SHOWN) {
        let name = if count.name.is_empty() { "(others)" } else { count.name.as_str() };
        table.add_row([count.jobs.to_string(), name.to_owned()]);
    }
    table
}

fn more(counts: &[Count]) -> Option<String> {
    counts.len().checked_sub(SHOWN).filter(|more| *more > 0).map(|more| format!("and {more} more types"))
}

/// A number of further jobs.
fn further(count: u64) -> String {
    match count {
        0 => "no further jobs".to_owned(),
        1 => "1 further job".to_owned(),
        _ => format!("{count} further jobs"),
    }
}

/// A number of jobs.
fn noun(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}
