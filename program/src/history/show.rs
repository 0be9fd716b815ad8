//! `streamfleet history show`: all that the history has about a job's id.

use streamfleet::job::{JobId, QueueName};
use streamfleet_operations::Error;
use streamfleet_operations::history::{self, PastAttempt, PastJob, PastLife};
use streamfleet_sql::Database;

use crate::Context;
use crate::exit::Exit;
use crate::input::input;
use crate::output::{self, Column, View, shell_word};

/// How `history show` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet history show order-7
  streamfleet history show order-7 --queue mail -o json";

/// The arguments of `history show`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The job's id.
    id: JobId,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
}

/// Shows the lives of the job, the latest first.
pub(super) async fn run(args: Args, database: &Database, context: &Context) -> anyhow::Result<Exit> {
    let lives = history::show(database, &args.queue, &args.id).await?;
    print(&lives, &args.queue, context)
}

/// Shows a job if the history has it.
pub(super) async fn found(
    database: &Database,
    (queue, id): (&QueueName, &JobId),
    context: &Context,
) -> anyhow::Result<bool> {
    match history::show(database, queue, id).await {
        Ok(lives) => print(&lives, queue, context).map(|_| true),
        Err(Error::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn print(lives: &Vec<PastLife>, queue: &QueueName, context: &Context) -> anyhow::Result<Exit> {
    let names = |lives: &Vec<PastLife>| lives.iter().map(|life| life.job.generation.clone()).collect();
    context.output.print_named(lives, names, |lives| view(lives, queue, context))?;
    Ok(Exit::Done)
}

/// Tells a job in words.
fn view(lives: &[PastLife], queue: &QueueName, context: &Context) -> View {
    lives.iter().fold(View::default(), |view, life| view.then(one(life, queue, context)))
}

/// The command that runs a job again.
fn again(job: &PastJob, queue: &QueueName) -> String {
    format!("streamfleet history replay --queue {queue} --state {} --id {}", job.state, shell_word(&job.id))
}

fn one(life: &PastLife, queue: &QueueName, context: &Context) -> View {
    let job = &life.job;
    let facts = output::facts(&[
        ("id", Some(job.id.clone())),
        ("type", Some(job.job_type.clone())),
        ("state", Some(job.state.to_owned())),
        ("source", Some("the history".to_owned())),
        ("generation", Some(job.generation.clone())),
        ("accepted", Some(context.clock.time(job.created_ms))),
        ("ended", Some(context.clock.time(job.ended_ms))),
        ("reason", job.reason.clone()),
        ("error", job.error.clone()),
        ("result", life.result.as_ref().map(ToString::to_string)),
        ("worker", job.worker.clone()),
        ("version", job.version.clone()),
        ("replay of", job.root.clone()),
        ("to run it again", job.returns_as.map(|_| again(job, queue))),
        ("payload", life.input.is_none().then(|| job.payload_state.to_owned())),
    ]);
    let took = |run: &PastAttempt| {
        run.started_ms
            .map(|started| format!("{} ms", run.ended_ms.saturating_sub(started)))
            .unwrap_or_default()
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let runs = output::table_of(
        &life.runs,
        &[
            ("ATTEMPT".into(), &|run: &PastAttempt| run.number.to_string()),
            ("OUTCOME".into(), &|run: &PastAttempt| run.outcome.clone()),
            ("TOOK".into(), &took),
            ("WORKER".into(), &|run: &PastAttempt| text(&run.worker)),
            (Column::prose("ERROR"), &|run: &PastAttempt| text(&run.error)),
        ],
    );
    facts.then(life.input.as_ref().map(input)).then((!life.runs.is_empty()).then_some(runs))
}
