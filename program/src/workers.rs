//! `streamfleet workers`: the live workers, as they report themselves, and consumers of earlier workers that still have
//! entries. `drain` keeps one from taking jobs, and `resume` lets it take them again.

mod drain;

use std::time::Duration;

use streamfleet::Broker;
use streamfleet_operations::workers::{self, UnlistedLane, Worker, WorkerDrain, WorkerFacts, WorkerList};

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, Listing, Repeat, View, harmless};
use super::times::{Clock, short};

/// How `workers` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet workers -o wide
  streamfleet workers --watch
  streamfleet workers drain web-3-4711-0b5ff109 --reason 'its disk is failing'";

/// How `workers list` is used.
const LIST_EXAMPLES: &str = "\
Examples:
  streamfleet workers list -o wide";

/// The arguments of `workers`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    repeat: Repeat,
}

/// What to do with workers.
#[derive(clap::Subcommand)]
enum What {
    /// List the workers, as `workers` does.
    #[command(after_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Keep a worker from taking jobs. It gives back what it has not started, and finishes what runs.
    ///
    /// The request is for the one process of this name: names are never reused, so a process that takes its place takes jobs.
    Drain(drain::DrainArgs),
    /// Let a worker that drains take jobs again.
    Resume(drain::ResumeArgs),
}

impl Args {
    /// Whether a signal stops it gracefully.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.what, Some(What::Drain(_) | What::Resume(_)))
    }
}

/// Lists the workers, or drains or resumes one.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let repeat = match args.what {
        Some(What::Drain(args)) => return drain::drain(args, context).await,
        Some(What::Resume(args)) => return drain::resume(args, context).await,
        Some(What::List { repeat }) => repeat,
        None => args.repeat,
    };
    let broker = context.broker().await?;
    repeat.run(context.output, async || list(&broker, context).await).await
}

async fn list(broker: &Broker, context: &Context) -> anyhow::Result<Listing> {
    let (report, missing) = workers::list(broker).await?;
    let report = WorkerList { former: Some("live"), ..report };
    let names = |report: &WorkerList| report.items.iter().map(|worker| worker.consumer.clone()).collect();
    let shown = context.output.rendered(&report, names, |report| show(report, &context.clock))?;
    Ok(Listing::new(shown).without(&missing))
}

/// A request to this worker in words.
fn line(worker: &str, drain: &WorkerDrain, clock: &Clock) -> String {
    let WorkerDrain { by, why, exit, heard, since_ms, .. } = drain;
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let then = if *exit { "; it ends when nothing runs" } else { "" };
    let heard = if *heard { "" } else { "; it has not confirmed that yet" };
    let text = format!("{worker} was asked to drain by {by} at {}{why}{then}{heard}", clock.time(*since_ms));
    harmless(&text)
}

fn show(report: &WorkerList, clock: &Clock) -> View {
    let WorkerFacts { stale, unlisted, .. } = &report.facts;
    let mut view: View = if report.items.is_empty() {
        "no live workers".to_owned().into()
    } else {
        let started = |worker: &Worker| worker.started_ms.map(|at| clock.time(at)).unwrap_or_default();
        let table = output::table_of(
            &report.items,
            &[
                (Column::from("worker"), &|worker| harmless(&worker.consumer)),
                (Column::state("state"), &|worker| harmless(&worker.state)),
                (Column::from("queues"), &|worker| harmless(&worker.queues.join(", "))),
                (Column::wide("types"), &|worker| harmless(&worker.types.join(", "))),
                (Column::from("running/slots"), &|worker| format!("{}/{}", worker.running, worker.slots)),
                (Column::wide("version"), &|worker| harmless(&worker.version)),
                (Column::wide("config"), &|worker| harmless(worker.config.as_deref().unwrap_or_default())),
                (Column::wide("started"), &started),
            ],
        );
        table.into()
    };
    for worker in &report.items {
        if let Some(drain) = &worker.drain {
            view = view.then(line(&worker.consumer, drain, clock));
        }
    }
    for pool in report.items.iter().flat_map(|worker| &worker.pools_down) {
        view = view.then(pool.to_string());
    }
    if !stale.is_empty() {
        let heading =
            "consumers without a live worker (other workers take over their pending jobs after the lease):";
        let table = output::table_of(
            stale,
            &[
                (Column::from("consumer"), &|stale| harmless(&stale.consumer)),
                (Column::from("queue"), &|stale| stale.queue.clone()),
                (Column::from("pending"), &|stale| stale.pending.to_string()),
                (Column::from("idle for"), &|stale| short(Duration::from_millis(stale.idle_ms))),
            ],
        );
        view = view.then(heading.to_owned()).then(table);
    }
    for UnlistedLane { queue, lane, error, .. } in unlisted {
        view = view.then(format!("failed to list the consumers of the queue {queue}, lane {lane}: {error}"));
    }
    view
}
