//! `streamfleet reproduce`: runs a job of Redis here once, to find its mistake. Nothing in Redis changes.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;
use streamfleet::handlers::{Exec, ExecConfig};
use streamfleet::job::{EntryId, Envelope, JobId, JobSpec, Lane, Outcome, QueueName, State, StepName};
use streamfleet::worker::{Reproduced, ReproducedRun, Specimen};
use streamfleet::{Fleet, FleetConfig, Queue, Steps};

use super::exit::Exit;
use super::output::{self, View, harmless, listed};
use super::times::{duration, short};
use super::{Context, Wrong, results, status};

/// How `reproduce` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet reproduce order-7 --queue mail
  streamfleet reproduce 1700000000000-0 --timeout 10m
  streamfleet reproduce order-7 --steps -o json
  streamfleet reproduce order-7 --command python3 send.py --verbose";

/// The arguments of `reproduce`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The id of the job, of its entry, or of its dead letter.
    id: JobId,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// Of a job made of steps, run those that are not done, one after another, until one fails. Those of the kind `once`, too:
    /// what they do is done again. Without this, no step runs.
    #[arg(long)]
    steps: bool,
    /// How long a run may take, instead of what the job or its type says.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Run this program instead of the configured handler, with the variables of this shell. It takes all arguments that
    /// follow, so it comes last.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    command: Vec<String>,
}

/// What became of the job here, for JSON output.
#[derive(Serialize)]
struct Report {
    id: String,
    queue: String,
    #[serde(rename = "type")]
    job_type: String,
    /// Its state in Redis, which stays.
    state: &'static str,
    runs: Vec<Run>,
    /// The steps that are done in Redis.
    done: Vec<DoneStep>,
    /// The steps that did not run.
    left: Vec<String>,
}

/// One run, for JSON output.
#[derive(Serialize)]
struct Run {
    step: Option<String>,
    outcome: &'static str,
    /// The kind of failure, if it failed.
    kind: Option<&'static str>,
    error: Option<String>,
    result: Option<Value>,
    duration_ms: u64,
    progress: Option<Progress>,
    /// The last lines that it logged or wrote.
    log: Vec<String>,
    #[serde(skip)]
    took: Duration,
}

/// The last progress of a run, for JSON output.
#[derive(Serialize)]
struct Progress {
    percent: u8,
    note: String,
}

/// A step that is done in Redis, for JSON output.
#[derive(Serialize)]
struct DoneStep {
    step: String,
    result: Option<Value>,
}

/// A job as Redis has it.
struct Found {
    id: JobId,
    state: State,
    entry: EntryId,
    lane: Lane,
    fields: Envelope,
}

/// Runs the job.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let queue = context.broker().await?.queue(args.queue.clone());
    let Some(found) = find(&queue, &args.id).await? else {
        let (queue, id) = (queue.name(), &args.id);
        output::print_stderr(&format!("the queue {queue} has no job {id}, or its payload is gone"));
        return Ok(Exit::NotFound);
    };
    if found.state == State::Running {
        output::print_stderr(&format!("the job {} is running: here, it would run a second time", found.id));
        return Ok(Exit::Failed);
    }
    let specimen = match specimen(&queue, &found, args.timeout).await? {
        Ok(specimen) => specimen,
        Err(why) => {
            output::print_stderr(&format!("the entry is not a job: {why}"));
            return Ok(Exit::Failed);
        }
    };
    let fleet = fleet(&specimen, args.command, context)?;
    let job_type = specimen.job.job_type.to_string();
    let reproduced = fleet.reproduce(specimen, args.steps).await.map_err(|why| anyhow::anyhow!(why))?;
    // The fleet was made for this type.
    let reproduced = reproduced.context("the type has no handler")?;
    let is_done = reproduced.runs.iter().all(|run| matches!(run.outcome, Outcome::Done(_)));
    let report = report(&queue, &found, job_type, reproduced);
    context.output.print(&report, show)?;
    Ok(if is_done { Exit::Done } else { Exit::Failed })
}

/// Finds a job whose fields Redis still has.
async fn find(queue: &Queue, id: &JobId) -> anyhow::Result<Option<Found>> {
    if let Some(status) = status::find(queue, id).await? {
        let fields = queue.fields(&status).await.context("failed to read the job")?;
        let entry = status.entry.or(status.dead).unwrap_or(EntryId::new(0, 0));
        let (state, lane) = (status.state, status.lane);
        return Ok(fields.map(|fields| Found { id: status.id, state, entry, lane, fields }));
    }
    let Ok(entry) = id.to_string().parse::<EntryId>() else { return Ok(None) };
    let letter = queue.dead_letters().get(entry).await.context("failed to read the dead letter")?;
    Ok(letter.map(|letter| {
        let (id, state, lane) = (letter.job(), State::Dead, Lane::Normal);
        Found { id, state, entry, lane, fields: letter.fields }
    }))
}

/// Returns the job with what is known about its steps, or why its fields are not a job.
async fn specimen(
    queue: &Queue,
    found: &Found,
    timeout: Option<Duration>,
) -> anyhow::Result<Result<Specimen, String>> {
    let mut job = match JobSpec::parse(&found.fields, found.entry, found.lane) {
        Ok(job) => job,
        Err(malformed) => return Ok(Err(malformed.to_string())),
    };
    job.id = found.id.clone();
    job.timeout = timeout.or(job.timeout);
    let steps = queue.steps().of(&job.id).await.context("failed to read the steps")?;
    let ledger = steps.map(|steps| steps.ledger).unwrap_or_default();
    Ok(Ok(Specimen { queue: queue.name().clone(), job, envelope: found.fields.clone(), ledger }))
}

/// Returns a fleet that knows only the type of this job: with the configured handler, or with this command.
fn fleet(specimen: &Specimen, command: Vec<String>, context: &Context) -> anyhow::Result<Fleet> {
    let job_type = &specimen.job.job_type;
    let mut effective = context.effective.clone();
    effective.config.types.retain(|name, _| name == job_type);
    effective.config.cron.clear();
    let section = effective.config.types.get(job_type);
    if command.is_empty() {
        if section.is_none() {
            let why = format!("the configuration has no handler for the type {job_type}: give a --command");
            return Err(Wrong(why).into());
        }
        return Ok(effective.fleet().map_err(|invalid| Wrong(invalid.to_string()))?.build());
    }
    let policy = section.map(|section| section.policy.clone()).unwrap_or_default();
    let config = ExecConfig::new(command).pass_env(variables());
    let exec = || Exec::new(config.clone()).map_err(|error| Wrong(error.to_string()));
    let mut builder = Fleet::builder(FleetConfig::default());
    match &specimen.ledger.plan {
        None => builder.register(job_type.clone(), policy, exec()?),
        Some(plan) => {
            let mut steps = Steps::builder();
            for step in plan.steps() {
                let name = step.name.as_str();
                steps =
                    steps.step(name, step.kind, exec()?).after(name, step.after.iter().map(StepName::as_str));
            }
            builder.register_steps(job_type.clone(), policy, steps.build()?);
        }
    }
    Ok(builder.build())
}

/// The variables of this shell that a program gets: all but those that this program reads.
fn variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| !name.starts_with("STREAMFLEET_")).collect()
}

fn report(queue: &Queue, found: &Found, job_type: String, reproduced: Reproduced) -> Report {
    let Reproduced { runs, done, left } = reproduced;
    let done = done.into_iter().map(|(step, result)| DoneStep {
        step: step.to_string(),
        result: result.as_deref().map(results::value),
    });
    Report {
        id: found.id.to_string(),
        queue: queue.name().to_string(),
        job_type,
        state: found.state.as_str(),
        runs: runs.into_iter().map(Run::of).collect(),
        done: done.collect(),
        left: left.iter().map(ToString::to_string).collect(),
    }
}

impl Run {
    fn of(run: ReproducedRun) -> Self {
        let ReproducedRun { step, outcome, elapsed, progress, lines } = run;
        let (mut kind, mut result) = (None, None);
        let (word, error) = match outcome {
            Outcome::Done(returned) => {
                result = returned.as_deref().map(results::value);
                ("done", None)
            }
            Outcome::Failed(failure) => {
                kind = Some(failure.kind.as_str());
                ("failed", Some(failure.error))
            }
            Outcome::Snoozed(pause) => ("snoozed", Some(format!("it asks to run again in {}", short(pause)))),
            Outcome::Dropped(why) => ("dropped", Some(why)),
            Outcome::Lost(why) => ("lost", Some(why)),
            Outcome::Invalid(why) | Outcome::Malformed(why) => ("invalid", Some(why)),
            Outcome::Interrupted
            | Outcome::NotDue(_)
            | Outcome::Parked(_)
            | Outcome::Unroutable
            | Outcome::Expired
            | Outcome::Cancelled => ("interrupted", None),
        };
        Self {
            step: step.map(|step| step.to_string()),
            outcome: word,
            kind,
            error,
            result,
            duration_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            progress: progress.map(|(percent, note)| Progress { percent, note }),
            log: lines,
            took: elapsed,
        }
    }

    fn view(&self) -> View {
        let kind = self.kind.map(|kind| format!(" ({kind})")).unwrap_or_default();
        let progress =
            self.progress.as_ref().map(|progress| format!("{} % {}", progress.percent, progress.note));
        let facts = output::facts(&[
            ("step", self.step.clone()),
            ("outcome", Some(format!("{}{kind}", self.outcome))),
            ("took", Some(short(self.took))),
            ("error", self.error.clone()),
            ("result", self.result.as_ref().map(|result| results::shown(&result.to_string()))),
            ("progress", progress),
        ]);
        let lines =
            self.log.iter().map(|line| format!("| {}", harmless(line))).collect::<Vec<_>>().join("\n");
        facts.then(Some(lines).filter(|lines| !lines.is_empty()))
    }
}

fn show(report: &Report) -> View {
    let Report { id, queue, job_type, state, runs, done, left } = report;
    let mut view = View::default();
    for run in runs {
        view = view.then(run.view());
    }
    if !done.is_empty() {
        view = view.then(format!("done before: {}", listed(done.iter().map(|done| done.step.clone()))));
    }
    if !left.is_empty() {
        let hint = if runs.is_empty() { "; --steps runs them here" } else { "" };
        view = view.then(format!("not run: {}{hint}", listed(left)));
    }
    let (id, job_type) = (harmless(id), harmless(job_type));
    view.then(format!(
        "the job {id} ({job_type}) of the queue {queue} is {state}, as before: nothing was recorded"
    ))
}
