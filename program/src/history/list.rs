//! `streamfleet history list`: jobs that ended, the latest first.

use streamfleet::job::QueueName;
use streamfleet_operations::history::{self, PastJob, PastJobs};
use streamfleet_sql::Database;

use super::wanted::WantedArgs;
use crate::Context;
use crate::exit::Exit;
use crate::output::{self, Column, View};

/// How `history list` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet history list --state dead --since 7d
  streamfleet history list --key customer=9 --limit 500 -o jsonl";

/// The arguments of `history list`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    #[command(flatten)]
    wanted: WantedArgs,
    /// The maximum number of jobs.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Start after this place, to get the next page.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

/// Lists the jobs.
pub(super) async fn run(args: Args, database: &Database, context: &Context) -> anyhow::Result<Exit> {
    let wanted = args.wanted.wanted(context);
    let page = (args.after.as_deref(), usize::from(args.limit));
    let found = history::list(database, &args.queue, wanted, page).await?;
    let names = |found: &PastJobs| found.items.iter().map(|job| job.id.clone()).collect();
    context.output.print_named(&found, names, |found| show(found, context))?;
    Ok(if found.items.is_empty() && found.next.is_none() { Exit::NotFound } else { Exit::Done })
}

fn show(found: &PastJobs, context: &Context) -> View {
    if found.items.is_empty() {
        return match &found.next {
            Some(next) => format!("none so far; next page: --after {next}").into(),
            None => "the history has no such job".to_owned().into(),
        };
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let table = output::table_of(
        &found.items,
        &[
            (Column::id("ID"), &|job: &PastJob| job.id.clone()),
            ("TYPE".into(), &|job: &PastJob| job.job_type.clone()),
            (Column::state("STATE"), &|job: &PastJob| job.state.to_owned()),
            ("ENDED".into(), &|job: &PastJob| context.clock.time(job.ended_ms)),
            ("ATTEMPTS".into(), &|job: &PastJob| job.attempts.to_string()),
            (Column::prose("ERROR"), &|job: &PastJob| text(&job.error)),
            (Column::wide("GENERATION"), &|job: &PastJob| job.generation.clone()),
            (Column::wide("WORKER"), &|job: &PastJob| text(&job.worker)),
            (Column::wide("VERSION"), &|job: &PastJob| text(&job.version)),
            (Column::wide("PAYLOAD"), &|job: &PastJob| job.payload_state.to_owned()),
        ],
    );
    let hint = found.items.iter().any(|job| job.returns_as.is_some()).then(|| {
        "to run such jobs again: streamfleet history replay, or history restore, with these conditions"
            .to_owned()
    });
    let next = found.next.as_ref().map(|next| format!("next page: --after {next}"));
    View::from(table).then(hint).then(next)
}
