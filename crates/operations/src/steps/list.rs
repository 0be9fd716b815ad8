//! The steps of one job.

use serde::Serialize;
use serde_json::Value;
use streamfleet::Queue;
use streamfleet::job::{
    Decision, JobId, Plan, PlannedStep, Standing, StepError, StepKind, StepRecord, StepState, Timestamp,
    Verdict,
};
use streamfleet_engine::admin::StepsStatus;

use crate::Error;
use crate::jobs::{self, results};
use crate::times::rfc3339;

/// The steps of a job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct JobSteps {
    /// The job.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// True if the job is in the dead stream.
    pub dead: bool,
    /// True if a step waits for a person.
    pub needs_decision: bool,
    /// The steps, in the order of the plan.
    pub steps: Vec<JobStep>,
    /// The steps that wait for a person.
    #[serde(skip)]
    pub undecided: Vec<String>,
    /// When they were read, by Redis's clock.
    #[serde(skip)]
    pub now: Timestamp,
}

/// One step.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct JobStep {
    /// Its name.
    pub step: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its state.
    pub state: &'static str,
    /// The steps after which it runs.
    pub after: Vec<String>,
    /// How often it was started.
    pub attempts: u32,
    /// The worker that runs it, or ran it last.
    pub worker: Option<String>,
    /// When its last run began.
    pub begun: Option<String>,
    /// When its last run began, in milliseconds since 1970.
    pub begun_ms: Option<u64>,
    /// The steps whose last runs went on at the same time as its own.
    pub beside: Vec<String>,
    /// Since when it is in this state.
    pub since: Option<String>,
    /// Since when it is in this state, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// When it is due.
    pub due: Option<String>,
    /// When it is due, in milliseconds since 1970.
    pub due_ms: Option<u64>,
    /// What it returned.
    pub result: Option<Value>,
    /// Its last errors, oldest first.
    pub errors: Vec<StepErrorReport>,
    /// What a person decided about it.
    pub decision: Option<StepDecision>,
    /// What a person may decide about it now.
    pub verdicts: Vec<&'static str>,
}

/// One error of a step.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = StepError)]
#[non_exhaustive]
pub struct StepErrorReport {
    /// When.
    pub at: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What kind of error it is.
    pub kind: String,
    /// What went wrong.
    pub error: String,
}

/// What a person decided about a step.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct StepDecision {
    /// When.
    pub at: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// `done`, `run` or `give-up`.
    pub verdict: &'static str,
    /// Who.
    pub by: String,
    /// Why; may be empty.
    pub reason: String,
}

/// Shows the steps of a job.
///
/// # Errors
///
/// [`Error::NotFound`] if it has none, or if their states have expired; [`Error::Redis`].
pub async fn list(queue: &Queue, id: &JobId) -> Result<JobSteps, Error> {
    let none = || {
        Error::NotFound(format!(
            "the queue {} has no steps of the job {id}: its type has no steps, none of them has started, or their states have \
             expired",
            queue.name()
        ))
    };
    let (id, steps) = find(queue, id).await?.ok_or_else(none)?;
    let plan = steps.ledger.plan.as_ref();
    let plan = plan.ok_or_else(|| Error::Conflict("the states of the steps lack their plan".to_owned()))?;
    let undecided: Vec<String> = undecided(&steps, plan).map(str::to_owned).collect();
    Ok(JobSteps {
        id: id.to_string(),
        queue: queue.name().to_string(),
        dead: steps.dead.is_some(),
        needs_decision: !undecided.is_empty(),
        steps: plan.steps().iter().map(|step| report(&steps, plan, step)).collect(),
        undecided,
        now: steps.now,
    })
}

/// Finds the ledger of a job by the job's id, or by the entry id that XADD returned.
pub(super) async fn find(queue: &Queue, id: &JobId) -> Result<Option<(JobId, StepsStatus)>, Error> {
    const FAILED: &str = "failed to read the steps";
    if let Some(steps) = queue.steps().of(id).await.map_err(Error::redis(FAILED))? {
        return Ok(Some((id.clone(), steps)));
    }
    let Some(id) = jobs::find(queue, id).await?.map(|status| status.id) else { return Ok(None) };
    Ok(queue.steps().of(&id).await.map_err(Error::redis(FAILED))?.map(|steps| (id, steps)))
}

/// The steps that wait for a person.
fn undecided<'a>(steps: &'a StepsStatus, plan: &'a Plan) -> impl Iterator<Item = &'a str> {
    let waiting =
        plan.steps().iter().filter(move |step| waits(steps, step.kind, steps.ledger.state(&step.name)));
    waiting.map(|step| step.name.as_str())
}

/// Whether a step waits for a person.
fn waits(steps: &StepsStatus, kind: StepKind, state: StepState) -> bool {
    match state {
        StepState::Failed | StepState::Unknown => true,
        StepState::Started => kind == StepKind::Once && steps.dead.is_some(),
        StepState::Pending | StepState::Done | StepState::Exhausted | StepState::GivenUp => false,
    }
}

/// The steps of a job on one line.
pub(crate) fn summary(steps: &StepsStatus) -> Option<String> {
    let plan = steps.ledger.plan.as_ref()?;
    let done = plan.steps().iter().filter(|step| steps.ledger.state(&step.name) == StepState::Done);
    let waiting: Vec<&str> = undecided(steps, plan).collect();
    let decide = if waiting.is_empty() {
        String::new()
    } else {
        format!("; waiting for a decision: {}", waiting.join(", "))
    };
    Some(format!("{} of {} done{decide}", done.count(), plan.steps().len()))
}

fn report(steps: &StepsStatus, plan: &Plan, step: &PlannedStep) -> JobStep {
    let none = StepRecord::default();
    let record = steps.ledger.get(&step.name).unwrap_or(&none);
    let error = |error: &StepError| StepErrorReport {
        at: rfc3339(error.at),
        at_ms: error.at.as_ms(),
        kind: error.kind.clone(),
        error: error.text.clone(),
    };
    let decision = |decision: &Decision| StepDecision {
        at: rfc3339(decision.at),
        at_ms: decision.at.as_ms(),
        verdict: decision.verdict.as_str(),
        by: decision.by.clone(),
        reason: decision.reason.clone(),
    };
    JobStep {
        step: step.name.to_string(),
        kind: step.kind.as_str(),
        state: match plan.standing(&steps.ledger, &step.name) {
            Standing::As(state) => state.as_str(),
            Standing::Skipped => "skipped",
        },
        after: step.after.iter().map(ToString::to_string).collect(),
        attempts: record.attempts,
        worker: Some(record.worker.clone()).filter(|worker| !worker.is_empty()),
        begun: record.begun.map(rfc3339),
        begun_ms: record.begun.map(|time| time.as_ms()),
        beside: beside(steps, plan, step),
        since: record.since.map(rfc3339),
        since_ms: record.since.map(|time| time.as_ms()),
        due: record.due.map(rfc3339),
        due_ms: record.due.map(|time| time.as_ms()),
        result: record.result.as_deref().map(results::value),
        errors: record.errors.iter().map(error).collect(),
        decision: record.decision.as_ref().map(decision),
        verdicts: verdicts(steps, plan, step).iter().map(|verdict| verdict.as_str()).collect(),
    }
}

/// The steps whose last runs went on at the same time as that of this one.
fn beside(steps: &StepsStatus, plan: &Plan, step: &PlannedStep) -> Vec<String> {
    let Some((begun, ended)) = last_run(steps, step) else { return Vec::new() };
    let others = plan.steps().iter().filter(|other| other.name != step.name);
    let overlaps =
        |other: &&PlannedStep| last_run(steps, other).is_some_and(|(from, to)| from < ended && begun < to);
    others.filter(overlaps).map(|other| other.name.to_string()).collect()
}

/// When the last run of a step began and ended; now, if it goes on.
fn last_run(steps: &StepsStatus, step: &PlannedStep) -> Option<(Timestamp, Timestamp)> {
    let record = steps.ledger.get(&step.name)?;
    let begun = record.begun?;
    let ended = match (record.state, &record.decision) {
        (StepState::Started, _) => steps.now,
        // What a person decided is no end of a run.
        (_, Some(decision)) if decision.at >= begun => begun,
        _ => record.since?,
    };
    Some((begun, ended))
}

/// What a person may decide about a step.
fn verdicts(steps: &StepsStatus, plan: &Plan, step: &PlannedStep) -> &'static [Verdict] {
    let state = steps.ledger.state(&step.name);
    // A replay runs an exhausted step again, unless somebody decides otherwise.
    let may_change = waits(steps, step.kind, state) || state == StepState::Exhausted;
    match () {
        () if may_change => &Verdict::ALL,
        // Somebody has declared it done without its result.
        () if steps.dead.is_some() && plan.may_amend(&steps.ledger, &step.name) => &[Verdict::Done],
        () => &[],
    }
}
