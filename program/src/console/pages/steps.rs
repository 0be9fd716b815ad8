//! The steps of a job, and what a person decides about those with an unknown outcome.

use askama::Template;
use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;
use streamfleet::job::{
    JobId, Plan, PlannedStep, Standing, StepKind, StepName, StepRecord, StepState, Verdict,
};
use streamfleet_engine::admin::StepsStatus;
use streamfleet_operations::steps::{Decision, decide};
use streamfleet_operations::{Actor, Error};

use super::action::Done;
use super::excerpt;
use super::form::{Field, Form, reason};
use super::frame::{Frame, lead_to, utc};
use super::section::Section;
use super::table::{step_key, step_look};
use super::target;
use crate::console::access::Person;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// The steps with their verdicts.
#[derive(Debug, Template)]
#[template(path = "steps.html")]
pub(super) struct Verdicts {
    steps: Vec<Line>,
    /// What the columns and links are called.
    frame: Frame,
}

impl askama::filters::HtmlSafe for Verdicts {}

/// One step.
#[derive(Debug)]
struct Line {
    name: String,
    kind: &'static str,
    class: &'static str,
    state: &'static str,
    attempts: u32,
    when: String,
    error: String,
    decision: String,
    /// What somebody may decide: the key of its name, and where.
    choices: Vec<(&'static str, String)>,
}

impl Verdicts {
    /// The steps of a job; `None` without a plan. `decides` says whether the person may decide.
    pub(super) fn of(
        frame: &Frame,
        (queue, id): (&str, &str),
        steps: &StepsStatus,
        decides: bool,
    ) -> Option<Self> {
        let plan = steps.ledger.plan.as_ref()?;
        let line = |step: &PlannedStep| line(frame, (steps, plan, step), (queue, id), decides);
        Some(Self { steps: plan.steps().iter().map(line).collect(), frame: frame.clone() })
    }
}

fn line(
    frame: &Frame,
    (steps, plan, step): (&StepsStatus, &Plan, &PlannedStep),
    (queue, id): (&str, &str),
    decides: bool,
) -> Line {
    let none = StepRecord::default();
    let record = steps.ledger.get(&step.name).unwrap_or(&none);
    let (class, key) = match plan.standing(&steps.ledger, &step.name) {
        Standing::As(state) => step_look(state),
        Standing::Skipped => ("state cancelled", "step.skipped"),
    };
    let link = |verdict: Verdict| {
        Link::queue(queue, &["jobs", id, "steps", step.name.as_str(), "decide"])
            .with("verdict", verdict.as_str())
    };
    let verdicts = if decides { verdicts_on((steps, plan, step), record.state) } else { &[] };
    let error = record.errors.last().map(|error| frame.said(&error.text)).filter(|error| !error.is_empty());
    let decision = record.decision.as_ref().map(|decision| {
        let reason = if decision.reason.is_empty() { "" } else { ": " };
        let verdict = frame.t(verdict_key(decision.verdict));
        format!("{verdict} · {}{reason}{}", decision.by, frame.written(&decision.reason))
    });
    Line {
        name: step.name.to_string(),
        kind: frame.t(step_key(step.kind)),
        class,
        state: frame.t(key),
        attempts: record.attempts,
        when: record.since.map(|since| frame.distance(since, steps.now)).unwrap_or_default(),
        error: excerpt::of(error.unwrap_or_default(), excerpt::CELL),
        decision: decision.unwrap_or_default(),
        choices: verdicts.iter().map(|verdict| (verdict_key(*verdict), link(*verdict).to_string())).collect(),
    }
}

/// What a person may decide about a step in this state.
fn verdicts_on(
    (steps, plan, step): (&StepsStatus, &Plan, &PlannedStep),
    state: StepState,
) -> &'static [Verdict] {
    let is_dead = steps.dead.is_some();
    match () {
        () if waits(step.kind, state, is_dead) => &Verdict::ALL,
        // Somebody has declared it done without its result.
        () if is_dead && plan.may_amend(&steps.ledger, &step.name) => &[Verdict::Done],
        () => &[],
    }
}

/// Whether a step waits for a person, or may be decided about.
pub(super) fn waits(kind: StepKind, state: StepState, is_dead: bool) -> bool {
    match state {
        StepState::Failed | StepState::Unknown | StepState::Exhausted => true,
        StepState::Started => kind == StepKind::Once && is_dead,
        StepState::Pending | StepState::Done | StepState::GivenUp => false,
    }
}

/// The key of a verdict's name.
fn verdict_key(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Done => "verdict.done",
        Verdict::Run => "verdict.run",
        Verdict::GiveUp => "verdict.give_up",
    }
}

/// The key of what a verdict means.
fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Done => "verdict.done_line",
        Verdict::Run => "verdict.run_line",
        Verdict::GiveUp => "verdict.give_up_line",
    }
}

/// What is to be decided.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    verdict: String,
    #[serde(default)]
    reason: String,
    /// What later steps get as the result of one that is done, as JSON; empty for none.
    #[serde(default)]
    result: String,
}

fn verdict(name: &str) -> Result<Verdict, Problem> {
    Verdict::named(name).ok_or_else(|| Problem::field("verdict", "a verdict must be done, run or give-up"))
}

/// Asks before a decision, and shows the evidence.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    Path((name, id, step)): Path<(String, String, String)>,
    Query(order): Query<Order>,
) -> Result<Response, Problem> {
    let (queue, verdict) = (target::queue(&site, &name)?, verdict(&order.verdict)?);
    let (id, step): (JobId, StepName) = (target::job(&id)?, target::part("step", &step)?);
    let steps = queue.steps().of(&id).await;
    let steps = steps.map_err(|error| target::redis("the steps could not be read", &queue, &error))?;
    let steps = steps.ok_or_else(|| Problem::not_found(format!("the job {id} has no steps")))?;
    let record = steps.ledger.get(&step).cloned().unwrap_or_default();
    let back = Link::job(&name, &id.to_string());
    let to = Link::queue(&name, &["jobs", &id.to_string(), "steps", step.as_str(), "decide"]);
    let values = [("step", step.as_str()), ("job", &*id.to_string())];
    let (_, state) = step_look(record.state);
    let worker = [("state", frame.t(state)), ("worker", record.worker.as_str())];
    let mut form = Form::new(&frame, frame.fill("verdict.title", &values), (&to, &back))
        .line(frame.t(meaning(verdict)))
        .line(frame.fill("verdict.evidence", &worker));
    for error in record.errors.iter().filter(|_| frame.sees_payloads()) {
        form = form.line(format!("{} · {}: {}", utc(error.at), error.kind, frame.said(&error.text)));
    }
    let result = (verdict == Verdict::Done)
        .then(|| Field::area(&frame, "result", "verdict.result").hint(&frame, "verdict.result_hint"));
    let form = form.field(Field::hidden("verdict", verdict.as_str())).fields(result);
    let form = form.field(Field::reason(&frame));
    Ok(form.button(verdict_key(verdict)).drastic().page(Section::Decisions))
}

/// Decides.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path((name, id, step)): Path<(String, String, String)>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let (queue, verdict) = (target::queue(&site, &name)?, verdict(&order.verdict)?);
    let (job, step): (JobId, StepName) = (target::job(&id)?, target::part("step", &step)?);
    let retention = site.effective().config.fleet_config().worker.retention_of(queue.name());
    let result = Some(order.result.trim()).filter(|result| !result.is_empty()).map(str::to_owned);
    let back = Link::job(&name, &job.to_string());
    let input = Decision { job, step, verdict, result, retention };
    let decided = match decide(&queue, &Actor::new(person.name(), &reason(&order.reason)), &input).await {
        Ok(decided) => decided,
        Err(error @ Error::Redis { .. }) => return Err(error.into()),
        Err(error) => return Ok(lead_to(&back, &Done::not(error.to_string()).message())),
    };
    let key = match decided.value.job {
        "written" => "verdict.written",
        "replayed" => "verdict.replayed",
        _ => "verdict.is_done",
    };
    let text = frame.fill(key, &[("step", input.step.as_str())]);
    Ok(lead_to(&back, &Done::new(text).unnoted(&frame, decided.unnoted).message()))
}
