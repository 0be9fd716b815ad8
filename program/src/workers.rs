//! `streamfleet workers`: the live workers, as they report themselves, and consumers of earlier workers that still have
//! entries. `drain` keeps one from taking jobs, and `resume` lets it take them again.

mod drain;

pub(crate) use drain::{Asked, Changed, Order, ask, look_up, queues_of, too_old};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::{Lane, Timestamp};
use streamfleet_engine::admin::{Drain, Listed, Missing, WorkerInfo};
use streamfleet_operations::unserved::PoolReport;

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View, harmless};
use super::times::{Clock, rfc3339, short};

/// The live workers, for JSON output.
pub(crate) type Report = List<Live, Facts>;

/// What is known besides the live workers, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = WorkerFacts)]
pub(crate) struct Facts {
    stale: Vec<Stale>,
    /// The lanes whose consumers could not be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unlisted: Vec<Unlisted>,
}

/// A lane whose consumers could not be listed, and why.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = UnlistedLane)]
struct Unlisted {
    queue: String,
    lane: &'static str,
    error: String,
}

/// A live worker.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Worker)]
pub(crate) struct Live {
    consumer: String,
    state: String,
    queues: Vec<String>,
    types: Vec<String>,
    running: u64,
    slots: u64,
    version: String,
    /// A short text that workers with equal configurations share; null if the worker does not say.
    config: Option<String>,
    /// When it started, as far as its last sign of life tells.
    started: Option<String>,
    started_ms: Option<u64>,
    /// The request to drain that somebody has made; null if there is none.
    drain: Option<Drained>,
    /// Its pools of which no program can start or keeps running; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pools_down: Vec<PoolReport>,
    #[serde(skip)]
    started_at: Option<Timestamp>,
}

/// A request to a worker to take no further job.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = WorkerDrain)]
pub(crate) struct Drained {
    by: String,
    why: String,
    since: String,
    since_ms: u64,
    /// True if the process ends once it runs nothing.
    exit: bool,
    /// True if the worker has confirmed it.
    heard: bool,
    #[serde(skip)]
    at: Timestamp,
}

/// A consumer that a group knows, but whose worker is not live.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = StaleConsumer)]
struct Stale {
    consumer: String,
    queue: String,
    pending: u64,
    idle_ms: u64,
}

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

/// Reads the workers, and names the servers that could not be asked.
pub(crate) async fn page(broker: &Broker) -> anyhow::Result<(Report, Vec<Missing>)> {
    // The groups are read first: a worker that stops in between is then in neither list, rather than in the wrong one.
    let Known { consumers: known, unlisted, mut missing } = known(broker).await?;
    let Listed { found: live, missing: more } =
        broker.workers().await.context("failed to list the workers")?;
    missing.extend(more);
    missing.sort_by(|one, other| one.node.cmp(&other.node));
    missing.dedup_by(|one, other| one.node == other.node);
    let names: BTreeSet<_> = live.iter().map(|worker| worker.consumer.clone()).collect();
    let stale = known.into_iter().filter(|consumer| !names.contains(&consumer.consumer)).collect();
    let facts = Facts { stale, unlisted };
    let items = live.into_iter().map(live_report).collect();
    Ok((Report { items, next: None, facts, former: None }, missing))
}

impl Facts {
    /// Leaves out what is about other queues than these.
    pub(crate) fn retain(&mut self, is_shown: impl Fn(&str) -> bool) {
        self.stale.retain(|stale| is_shown(&stale.queue));
        self.unlisted.retain(|unlisted| is_shown(&unlisted.queue));
    }
}

impl Live {
    /// Leaves out other queues than these, and returns whether any are left.
    pub(crate) fn retain(&mut self, is_shown: impl Fn(&str) -> bool) -> bool {
        self.queues.retain(|queue| is_shown(queue));
        !self.queues.is_empty()
    }
}

async fn list(broker: &Broker, context: &Context) -> anyhow::Result<Listing> {
    let (report, missing) = page(broker).await?;
    let report = Report { former: Some("live"), ..report };
    let names = |report: &Report| report.items.iter().map(|worker| worker.consumer.clone()).collect();
    let shown = context.output.rendered(&report, names, |report| show(report, &context.clock))?;
    Ok(Listing::new(shown).without(&missing))
}

/// The consumers that the groups know.
struct Known {
    consumers: Vec<Stale>,
    unlisted: Vec<Unlisted>,
    /// The servers that could not be asked for queues.
    missing: Vec<Missing>,
}

/// The consumers of every queue's groups: their pending entries in all lanes, and their shortest idle time. A lane that
/// cannot be read does not hide the others.
async fn known(broker: &Broker) -> anyhow::Result<Known> {
    let (mut known, mut unlisted) = (Vec::new(), Vec::new());
    let Listed { found: queues, missing } = broker.queues().await.context("failed to list the queues")?;
    for name in queues {
        let queue = broker.queue(name);
        let mut members: BTreeMap<String, (u64, Duration)> = BTreeMap::new();
        for lane in Lane::ALL {
            let consumers = queue.consumers(lane).await.unwrap_or_else(|error| {
                let (queue, error) = (queue.name().to_string(), queue.with_keys(&error));
                unlisted.push(Unlisted { queue, lane: lane.as_str(), error });
                Vec::new()
            });
            for consumer in consumers {
                let (pending, idle) = members.entry(consumer.name).or_insert((0, Duration::MAX));
                *pending += consumer.pending;
                *idle = consumer.idle.min(*idle);
            }
        }
        known.extend(members.into_iter().map(|(consumer, (pending, idle))| Stale {
            consumer,
            queue: queue.name().to_string(),
            pending,
            idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
        }));
    }
    Ok(Known { consumers: known, unlisted, missing })
}

fn live_report(worker: WorkerInfo) -> Live {
    let fact = |name: &str| worker.facts.get(name).cloned().unwrap_or_default();
    let list = |name: &str| {
        fact(name).split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let count = |name: &str| fact(name).parse().unwrap_or(0);
    Live {
        state: fact("state"),
        queues: list("queues"),
        types: list("types"),
        running: count("running"),
        slots: count("slots"),
        version: fact("version"),
        config: worker.facts.get("config").cloned(),
        started: worker.started().map(rfc3339),
        started_ms: worker.started().map(Timestamp::as_ms),
        started_at: worker.started(),
        drain: worker.drain().map(|drain| Drained::of(drain, worker.has_heard())),
        pools_down: worker.pools_down().into_iter().map(PoolReport::from).collect(),
        consumer: worker.consumer,
    }
}

impl Drained {
    fn of(drain: Drain, heard: bool) -> Self {
        let (since, since_ms) = (rfc3339(drain.since), drain.since.as_ms());
        Self { by: drain.by, why: drain.why, since, since_ms, exit: drain.exits, heard, at: drain.since }
    }

    /// The request to this worker in words.
    fn line(&self, worker: &str, clock: &Clock) -> String {
        let Self { by, why, exit, heard, at, .. } = self;
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let then = if *exit { "; it ends when nothing runs" } else { "" };
        let heard = if *heard { "" } else { "; it has not confirmed that yet" };
        let text = format!("{worker} was asked to drain by {by} at {}{why}{then}{heard}", clock.time(*at));
        harmless(&text)
    }
}

fn show(report: &Report, clock: &Clock) -> View {
    let Facts { stale, unlisted } = &report.facts;
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
            view = view.then(drain.line(&worker.consumer, clock));
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
    for Unlisted { queue, lane, error } in unlisted {
        view = view.then(format!("failed to list the consumers of the queue {queue}, lane {lane}: {error}"));
    }
    view
}
