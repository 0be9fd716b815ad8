//! `streamfleet steps`: the steps of one job, and what a person decides about them.

mod decide;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobId, Plan, QueueName, Standing, StepKind, StepRecord, StepState};
use streamfleet_engine::admin::StepsStatus;

use super::exit::Exit;
use super::output::{self, Column, View, harmless};
use super::times::{Clock, rfc3339};
use super::{Context, Wrong, results, status};

/// How `steps` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet steps order-7
  streamfleet steps decide order-7 charge done --reason \"receipt 17 of the bank\"";

/// The arguments of `steps`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The job's id, or the entry id that XADD returned.
    #[arg(required = true)]
    id: Option<JobId>,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
}

/// What to do with steps, except show them.
#[derive(clap::Subcommand)]
enum Action {
    /// Decide about a step that failed, or that may or may not have done its work.
    Decide(decide::Args),
}

/// The steps of a job, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = JobSteps)]
pub(crate) struct Report {
    id: String,
    queue: String,
    /// True if the job is in the dead stream.
    dead: bool,
    /// True if a step waits for a person.
    needs_decision: bool,
    steps: Vec<Line>,
}

/// One step, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = JobStep)]
struct Line {
    step: String,
    kind: &'static str,
    state: &'static str,
    after: Vec<String>,
    attempts: u32,
    worker: Option<String>,
    since: Option<String>,
    since_ms: Option<u64>,
    due: Option<String>,
    due_ms: Option<u64>,
    result: Option<serde_json::Value>,
    errors: Vec<ErrorLine>,
    decision: Option<DecisionLine>,
}

/// One error of a step, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = StepError)]
struct ErrorLine {
    at: String,
    at_ms: u64,
    kind: String,
    error: String,
}

/// What a person decided, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = StepDecision)]
struct DecisionLine {
    at: String,
    at_ms: u64,
    verdict: &'static str,
    by: String,
    reason: String,
}

/// Shows the steps, or decides about one.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match (args.action, args.id) {
        (Some(Action::Decide(decide)), _) => decide::run(decide, context).await,
        (None, Some(id)) => show_steps(&id, args.queue, context).await,
        (None, None) => Err(Wrong("the job id is missing: streamfleet steps ID".to_owned()).into()),
    }
}

async fn show_steps(id: &JobId, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
    let queue = context.broker().await?.queue(queue);
    let Some((id, steps)) = find(&queue, id).await? else {
        output::print_stderr(&format!(
            "the queue {} has no steps of the job {id}: its type has no steps, none of them has started, or their states have \
             expired",
            queue.name()
        ));
        return Ok(Exit::NotFound);
    };
    let plan = steps.ledger.plan.clone().context("the states of the steps lack their plan")?;
    let report = report(&queue, &id, (&steps, &plan));
    let names = |report: &Report| report.steps.iter().map(|line| line.step.clone()).collect();
    context.output.print_named(&report, names, |report| show(report, (&steps, &plan), &context.clock))?;
    Ok(Exit::Done)
}

/// Returns the steps of a job; `None` if it has none, or if its ledger has expired.
pub(crate) async fn look_up(queue: &Queue, id: &JobId) -> anyhow::Result<Option<Report>> {
    let Some((id, steps)) = find(queue, id).await? else { return Ok(None) };
    let plan = steps.ledger.plan.clone().context("the states of the steps lack their plan")?;
    Ok(Some(report(queue, &id, (&steps, &plan))))
}

fn report(queue: &Queue, id: &JobId, (steps, plan): (&StepsStatus, &Plan)) -> Report {
    Report {
        id: id.to_string(),
        queue: queue.name().to_string(),
        dead: steps.dead.is_some(),
        needs_decision: undecided(steps, plan).next().is_some(),
        steps: plan.steps().iter().map(|step| line(steps, plan, step)).collect(),
    }
}

/// Finds the ledger of a job by the job's id, or by the entry id that XADD returned.
async fn find(queue: &Queue, id: &JobId) -> anyhow::Result<Option<(JobId, StepsStatus)>> {
    const FAILED: &str = "failed to read the steps";
    if let Some(steps) = queue.steps().of(id).await.context(FAILED)? {
        return Ok(Some((id.clone(), steps)));
    }
    let Some(id) = status::find(queue, id).await?.map(|status| status.id) else { return Ok(None) };
    Ok(queue.steps().of(&id).await.context(FAILED)?.map(|steps| (id, steps)))
}

/// The steps that wait for a person.
fn undecided<'a>(steps: &'a StepsStatus, plan: &'a Plan) -> impl Iterator<Item = &'a str> {
    let waits = |kind, state| match state {
        StepState::Failed | StepState::Unknown => true,
        StepState::Started => kind == StepKind::Once && steps.dead.is_some(),
        StepState::Pending | StepState::Done | StepState::Exhausted | StepState::GivenUp => false,
    };
    let waiting = plan.steps().iter().filter(move |step| waits(step.kind, steps.ledger.state(&step.name)));
    waiting.map(|step| step.name.as_str())
}

/// The steps of a job on one line.
pub(super) fn summary(steps: &StepsStatus) -> Option<String> {
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

fn line(steps: &StepsStatus, plan: &Plan, step: &streamfleet::job::PlannedStep) -> Line {
    let none = StepRecord::default();
    let record = steps.ledger.get(&step.name).unwrap_or(&none);
    let error = |error: &streamfleet::job::StepError| ErrorLine {
        at: rfc3339(error.at),
        at_ms: error.at.as_ms(),
        kind: error.kind.clone(),
        error: error.text.clone(),
    };
    let decision = |decision: &streamfleet::job::Decision| DecisionLine {
        at: rfc3339(decision.at),
        at_ms: decision.at.as_ms(),
        verdict: decision.verdict.as_str(),
        by: decision.by.clone(),
        reason: decision.reason.clone(),
    };
    Line {
        step: step.name.to_string(),
        kind: step.kind.as_str(),
        state: match plan.standing(&steps.ledger, &step.name) {
            Standing::As(state) => state.as_str(),
            Standing::Skipped => "skipped",
        },
        after: step.after.iter().map(ToString::to_string).collect(),
        attempts: record.attempts,
        worker: Some(record.worker.clone()).filter(|worker| !worker.is_empty()),
        since: record.since.map(rfc3339),
        since_ms: record.since.map(|time| time.as_ms()),
        due: record.due.map(rfc3339),
        due_ms: record.due.map(|time| time.as_ms()),
        result: record.result.as_deref().map(results::value),
        errors: record.errors.iter().map(error).collect(),
        decision: record.decision.as_ref().map(decision),
    }
}

fn show(report: &Report, (steps, plan): (&StepsStatus, &Plan), clock: &Clock) -> View {
    let mut table = output::table(&[
        Column::from("step"),
        Column::from("kind"),
        Column::wide("after"),
        Column::state("state"),
        Column::wide("attempts"),
        Column::from("when"),
        Column::from("last error"),
    ]);
    for line in &report.steps {
        let since = plan.steps().iter().find(|step| step.name.as_str() == line.step);
        let since = since.and_then(|step| steps.ledger.get(&step.name)?.since);
        let error = harmless(line.errors.last().map_or("", |error| &error.error));
        let when = since.map_or_else(String::new, |since| clock.with_age(since, steps.now));
        let decided = line.decision.as_ref().map(|decision| {
            let why = if decision.reason.is_empty() { "" } else { ": " };
            format!(
                " ({} by {}{why}{})",
                decision.verdict,
                harmless(&decision.by),
                harmless(&decision.reason)
            )
        });
        let state = format!("{}{}", line.state, decided.unwrap_or_default());
        let (after, attempts) = (line.after.join(", "), line.attempts.to_string());
        table.add_row([line.step.as_str(), line.kind, &after, &state, &attempts, &when, &error]);
    }
    let first = undecided(steps, plan).next();
    let hint = first
        .map(|step| format!("decide with: streamfleet steps decide {} {step} done|run|give-up", report.id));
    View::from(table).then(hint)
}
