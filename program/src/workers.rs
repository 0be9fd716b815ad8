//! `streamfleet workers`: the live workers, as they report themselves, and consumers of earlier workers that still have
//! entries. `drain` keeps one from taking jobs, and `resume` lets it take them again.

mod drain;

use std::time::Duration;

use streamfleet::Broker;
use streamfleet_operations::workers::{self, UnlistedLane, WorkerDrain, WorkerFacts, WorkerList};

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
    let WorkerDrain { by, why, exit, heard, since_at, .. } = drain;
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let then = if *exit { "; it ends when nothing runs" } else { "" };
    let heard = if *heard { "" } else { "; it has not confirmed that yet" };
    let text = format!("{worker} was asked to drain by {by} at {}{why}{then}{heard}", clock.time(*since_at));
    harmless(&text)
}

fn show(report: &WorkerList, clock: &Clock) -> View {
    let WorkerFacts { stale, unlisted, .. } = &report.facts;
    let mut view: View = if report.items.is_empty() {
        "no live workers".to_owned().into()
    } else {
        let mut table = output::table(&[
            Column::from("worker"),
            Column::state("state"),
            Column::from("queues"),
            Column::wide("types"),
            Column::from("running/slots"),
            Column::wide("version"),
            Column::wide("config"),
            Column::wide("started"),
        ]);
        for worker in &report.items {
            table.add_row([
                harmless(&worker.consumer),
                harmless(&worker.state),
                harmless(&worker.queues.join(", ")),
                harmless(&worker.types.join(", ")),
                format!("{}/{}", worker.running, worker.slots),
                harmless(&worker.version),
                harmless(worker.config.as_deref().unwrap_or_default()),
                worker.started_at.map(|at| clock.time(at)).unwrap_or_default(),
            ]);
        }
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
        let mut table = output::table(&["consumer", "queue", "pending", "idle for"]);
        for stale in stale {
            table.add_row([
                harmless(&stale.consumer),
                stale.queue.clone(),
                stale.pending.to_string(),
                short(Duration::from_millis(stale.idle_ms)),
            ]);
        }
        view = view.then(heading.to_owned()).then(table);
    }
    for UnlistedLane { queue, lane, error, .. } in unlisted {
        view = view.then(format!("failed to list the consumers of the queue {queue}, lane {lane}: {error}"));
    }
    view
}
