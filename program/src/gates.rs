//! `streamfleet gates`: lists the rules of gates, and changes their limits while the fleet runs.

use streamfleet::job::{GateName, QueueName, Rate, Timestamp};
use streamfleet::{Broker, Queue};
use streamfleet_operations::gates::{
    self, BreakerText, Gate, GateChanged, clear_limits, limits_in_effect, set_limits,
};

use super::actor::{ActorArgs, told};
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View, harmless};
use super::times::Clock;
use super::{Context, Wrong, queues};

/// The arguments of `gates`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  streamfleet gates list --queue mail\n  streamfleet gates set type:mail.send --rate 100/s --queue mail"
)]
pub(crate) struct Args {
    /// The queue. Default: `default`.
    #[arg(long, short, global = true, default_value = "default")]
    queue: QueueName,
    #[command(subcommand)]
    action: Action,
}

/// What to do with gates.
#[derive(clap::Subcommand)]
enum Action {
    /// List the gates that have a rule, and the values of fields for which jobs wait, with the jobs that hold a place or wait.
    #[command(
        after_help = "Examples:\n  streamfleet gates list\n  streamfleet gates list --queue mail --watch=2s"
    )]
    List {
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Set limits of a gate. Those that are not named stay as they are; `none` removes one.
    #[command(
        after_help = "Examples:\n  streamfleet gates set queue --concurrency 10\n  streamfleet gates set type:mail.send --rate 100/s --queue mail\n  streamfleet gates set key:h.tenant --concurrency 2 --rate none\n  streamfleet gates set type:pay --breaker 50%/20/1m/30s"
    )]
    Set {
        /// The gate: queue, type:<type>, key:<field> for each value of a field, or key:<field>=<value> for one.
        gate: GateName,
        /// How many jobs may run at once in the whole fleet, or `none`.
        #[arg(long, value_name = "N", value_parser = some::<Concurrency>)]
        concurrency: Option<OrNone<Concurrency>>,
        /// How many jobs may start in a period, such as 100/s or 600/10m, or `none`.
        #[arg(long, value_name = "RATE", value_parser = some::<Rate>)]
        rate: Option<OrNone<Rate>>,
        /// When failures close the gate: the share of failures, of how many attempts, within what time, and for how long; or `none`.
        #[arg(long, value_name = "SHARE/N/TIME/TIME", value_parser = some::<BreakerText>)]
        breaker: Option<OrNone<BreakerText>>,
        /// Do not ask before the limits of a queue that does not exist are set.
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        actor: ActorArgs,
    },
    /// Remove the limits that were set, so that those of the workers' configuration apply again.
    #[command(after_help = "Example:\n  streamfleet gates clear type:mail.send --queue mail")]
    Clear {
        /// The gate.
        gate: GateName,
        #[command(flatten)]
        actor: ActorArgs,
    },
}

/// A limit, or none.
#[derive(Debug, Clone, Copy)]
struct OrNone<T>(Option<T>);

/// How many jobs may run at once: at least 1.
#[derive(Debug, Clone, Copy)]
struct Concurrency(u32);

fn some<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<OrNone<T>, String> {
    if text == "none" {
        return Ok(OrNone(None));
    }
    text.parse::<T>().map(|limit| OrNone(Some(limit))).map_err(|error| error.to_string())
}

impl std::str::FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse::<u32>().ok().filter(|number| *number > 0);
        number.map(Self).ok_or_else(|| "expected at least 1; to stop all jobs, use `pause`".to_owned())
    }
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    match &args.action {
        Action::List { .. } => {}
        Action::Set { yes, .. } => queues::check_before_change(&broker, &queue, !yes, context).await?,
        Action::Clear { .. } => queues::check_before_change(&broker, &queue, false, context).await?,
    }
    match args.action {
        Action::List { repeat } => {
            let look = async || list(&broker, &queue, context).await;
            repeat.run(context.output, look).await
        }
        Action::Set { gate, concurrency, rate, breaker, actor, .. } => {
            if concurrency.is_none() && rate.is_none() && breaker.is_none() {
                let what =
                    "no limit was named: give --concurrency, --rate or --breaker, or use `gates clear`";
                return Err(Wrong(what.to_owned()).into());
            }
            let mut limits = limits_in_effect(&queue, &gate).await?;
            if let Some(OrNone(concurrency)) = concurrency {
                limits = limits.concurrency(concurrency.map(|Concurrency(jobs)| jobs));
            }
            if let Some(OrNone(rate)) = rate {
                limits = limits.rate(rate);
            }
            if let Some(OrNone(breaker)) = breaker {
                limits = limits.breaker(breaker.map(|BreakerText(breaker)| breaker));
            }
            print(&told(set_limits(&queue, &actor.actor(), &gate, limits).await?), context)
        }
        Action::Clear { gate, actor } => {
            print(&told(clear_limits(&queue, &actor.actor(), &gate).await?), context)
        }
    }
}

fn print(changed: &GateChanged, context: &Context) -> anyhow::Result<Exit> {
    changed.remark.iter().for_each(|remark| output::print_stderr(remark));
    context.output.print_named(changed, |changed| vec![changed.gate.clone()], line)?;
    Ok(Exit::Done)
}

fn line(changed: &GateChanged) -> String {
    let GateChanged { queue, gate, done, changed: is_new, .. } = changed;
    let limits = changed.limits();
    let gate = harmless(gate);
    match (*done, is_new) {
        ("cleared", false) => {
            format!("nobody had set limits of {gate} in the queue {queue}; in effect: {limits}")
        }
        _ => format!("limits of {gate} in the queue {queue}: {limits}"),
    }
}

async fn list(broker: &Broker, queue: &Queue, context: &Context) -> anyhow::Result<Listing> {
    let (page, now) = gates::list(queue).await?;
    let names = |all: &List<Gate>| all.items.iter().map(|one| one.gate.clone()).collect();
    let show = |all: &List<Gate>| show(&all.items, queue, (&context.clock, now));
    queues::listing((&page, page.items.is_empty()), (broker, queue), context, (names, show)).await
}

fn show(reports: &[Gate], queue: &Queue, (clock, now): (&Clock, Timestamp)) -> View {
    if reports.is_empty() {
        return format!("no gate of the queue {} has a rule", queue.name()).into();
    }
    let why = |report: &Gate| {
        let Some(by) = &report.paused_by else { return "-".to_owned() };
        let reason = report.reason.as_deref().filter(|reason| !reason.is_empty());
        harmless(&reason.map_or_else(|| by.clone(), |reason| format!("{by}: {reason}")))
    };
    let until =
        |report: &Gate| report.until_ms.map_or_else(|| "-".to_owned(), |ends| clock.with_age(ends, now));
    let table = output::table_of(
        reports,
        &[
            (Column::from("gate"), &|report| harmless(&report.gate)),
            (Column::state("state"), &|report| report.state.to_owned()),
            (Column::from("until"), &until),
            (Column::from("limits"), &Gate::limits),
            (Column::wide("source"), &|report| report.source.unwrap_or("-").to_owned()),
            (Column::from("held"), &|report| report.held.to_string()),
            (Column::from("waiting"), &|report| report.waiting.to_string()),
            (Column::prose("why"), &why),
        ],
    );
    table.into()
}
