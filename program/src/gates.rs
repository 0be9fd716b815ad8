//! `streamfleet gates`: lists the rules of gates, and changes their limits while the fleet runs.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::{Breaker, FairShare, GateName, Limits, QueueName, Rate, Timestamp};
use streamfleet::{Broker, Queue};
pub(crate) use streamfleet_engine::admin::GateStanding as Standing;
use streamfleet_engine::admin::GateStatus;

use super::actor::{ActorArgs, note};
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View, harmless};
use super::times::{Clock, duration, rfc3339};
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
        #[arg(long, value_name = "SHARE/N/TIME/TIME", value_parser = some::<BreakerArg>)]
        breaker: Option<OrNone<BreakerArg>>,
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

/// A breaker as an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BreakerArg(pub(crate) Breaker);

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

impl std::str::FromStr for BreakerArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape =
            || "expected a share, a number of attempts and two times, such as 50%/20/1m/30s".to_owned();
        let parts: Vec<&str> = text.split('/').collect();
        let [share, min, window, cooldown] = parts[..] else { return Err(shape()) };
        let percent: f64 = share.strip_suffix('%').and_then(|share| share.parse().ok()).ok_or_else(shape)?;
        let min = min.parse().map_err(|_| shape())?;
        let breaker = Breaker::new(percent / 100.0, min, duration(window)?, duration(cooldown)?);
        breaker.map(Self).map_err(|error| error.to_string())
    }
}

/// One gate, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Gate)]
pub(crate) struct Report {
    gate: String,
    /// `open`, `paused` or `tripped`; `unreadable` if nothing passes until its rule is set again; `ignored` if the rule is one of
    /// too many, and stops nobody; `shared` for the line that says how the queue is shared.
    state: &'static str,
    paused_by: Option<String>,
    reason: Option<String>,
    paused_since: Option<String>,
    paused_since_ms: Option<u64>,
    until: Option<String>,
    until_ms: Option<u64>,
    concurrency: Option<u32>,
    rate: Option<String>,
    breaker: Option<String>,
    /// `command` if somebody has set the limits, `config` if they are those of a configuration.
    source: Option<&'static str>,
    held: u64,
    waiting: u64,
    #[serde(skip)]
    ends: Option<Timestamp>,
}

/// What became of a gate's limits, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = GateChanged)]
pub(crate) struct Changed {
    queue: String,
    gate: String,
    /// `set` or `cleared`.
    done: &'static str,
    /// False if it was already so.
    changed: bool,
    concurrency: Option<u32>,
    rate: Option<String>,
    breaker: Option<String>,
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    match &args.action {
        Action::List { .. } => {}
        Action::Set { .. } | Action::Clear { .. } => {
            queues::report_before_change(&broker, &queue, context).await;
        }
    }
    match args.action {
        Action::List { repeat } => {
            let look = async || list(&broker, &queue, context).await;
            repeat.run(context.output, look).await
        }
        Action::Set { gate, concurrency, rate, breaker, actor } => {
            if concurrency.is_none() && rate.is_none() && breaker.is_none() {
                let what =
                    "no limit was named: give --concurrency, --rate or --breaker, or use `gates clear`";
                return Err(Wrong(what.to_owned()).into());
            }
            let mut limits = current(&queue, &gate).await?;
            if let Some(OrNone(concurrency)) = concurrency {
                limits = limits.concurrency(concurrency.map(|Concurrency(jobs)| jobs));
            }
            if let Some(OrNone(rate)) = rate {
                limits = limits.rate(rate);
            }
            if let Some(OrNone(breaker)) = breaker {
                limits = limits.breaker(breaker.map(|BreakerArg(breaker)| breaker));
            }
            let changed = queue.gates().set(&gate, &limits).await.context("the limits were not set")?;
            let limits_set = shown_limits(limits);
            note(&queue, &actor.action("gates set").target(format!("{gate}: {limits_set}"))).await;
            print(&queue, &gate, ("set", changed, limits), context)
        }
        Action::Clear { gate, actor } => {
            let changed = queue.gates().clear(&gate).await.context("the limits were not cleared")?;
            if changed {
                note(&queue, &actor.action("gates clear").target(gate.to_string())).await;
            }
            let limits = current(&queue, &gate).await?;
            print(&queue, &gate, ("cleared", changed, limits), context)
        }
    }
}

/// The limits in effect for a gate.
pub(crate) async fn current(queue: &Queue, gate: &GateName) -> anyhow::Result<Limits> {
    let rules = queue.gates().rules().await.context("failed to read the rules")?;
    Ok(rules.get(gate).map(streamfleet::job::Rule::limits).unwrap_or_default())
}

fn print(
    queue: &Queue,
    gate: &GateName,
    (done, changed, limits): (&'static str, bool, Limits),
    context: &Context,
) -> anyhow::Result<Exit> {
    let changed = Changed::of((queue, gate), done, changed, limits);
    context.output.print_named(&changed, |changed| vec![changed.gate.clone()], line)?;
    Ok(Exit::Done)
}

impl Changed {
    /// The limits that are in effect after a change.
    pub(crate) fn of(
        (queue, gate): (&Queue, &GateName),
        done: &'static str,
        changed: bool,
        limits: Limits,
    ) -> Self {
        Self {
            queue: queue.name().to_string(),
            gate: gate.to_string(),
            done,
            changed,
            concurrency: limits.concurrency,
            rate: limits.rate.map(|rate| rate.to_string()),
            breaker: limits.breaker.map(|breaker| breaker.to_string()),
        }
    }
}

fn line(changed: &Changed) -> String {
    let Changed { queue, gate, done, changed: is_new, concurrency, rate, breaker } = changed;
    let limits = shown(*concurrency, rate.as_deref(), breaker.as_deref());
    let gate = harmless(gate);
    match (*done, is_new) {
        ("cleared", false) => {
            format!("nobody had set limits of {gate} in the queue {queue}; in effect: {limits}")
        }
        _ => format!("limits of {gate} in the queue {queue}: {limits}"),
    }
}

/// Limits, as people read them.
pub(crate) fn shown_limits(limits: Limits) -> String {
    let (rate, breaker) =
        (limits.rate.map(|rate| rate.to_string()), limits.breaker.map(|breaker| breaker.to_string()));
    shown(limits.concurrency, rate.as_deref(), breaker.as_deref())
}

fn shown(concurrency: Option<u32>, rate: Option<&str>, breaker: Option<&str>) -> String {
    let concurrency = concurrency.map(|jobs| format!("{jobs} at once"));
    let breaker = breaker.map(|breaker| format!("breaker {breaker}"));
    let all: Vec<String> = [concurrency, rate.map(str::to_owned), breaker].into_iter().flatten().collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// Reads the gates that have a rule, and the time.
pub(crate) async fn page(queue: &Queue) -> anyhow::Result<(List<Report>, Timestamp)> {
    let handle = queue.gates();
    let listed = tokio::try_join!(handle.list(), handle.rules(), queue.clock());
    let (gates, rules, now) = listed.context("failed to list the gates")?;
    let mut reports: Vec<Report> = gates.iter().map(|gate| report(gate, now)).collect();
    if let Some(share) = rules.fair() {
        let snapshot = queue.snapshot().await.context("failed to count the jobs that wait for their turn")?;
        reports.push(shared(share, snapshot.in_fair_rooms));
    }
    Ok((List::from(reports), now))
}

async fn list(broker: &Broker, queue: &Queue, context: &Context) -> anyhow::Result<Listing> {
    let (page, now) = page(queue).await?;
    if page.items.is_empty() && queues::report_unknown(broker, queue.name(), context).await {
        return Ok(Listing::not_found());
    }
    let names = |all: &List<Report>| all.items.iter().map(|one| one.gate.clone()).collect();
    let show = |all: &List<Report>| show(&all.items, queue, (&context.clock, now));
    Ok(Listing::new(context.output.rendered(&page, names, show)?))
}

fn report(GateStatus { rule, held, waiting, tripped_until, .. }: &GateStatus, now: Timestamp) -> Report {
    let (closed, limits) = (rule.closed.as_ref(), rule.limits());
    let tripped = tripped_until.filter(|until| *until > now);
    let ends = closed.map_or(tripped, |closed| closed.until);
    let state = Standing::of(rule, *tripped_until, now).as_str();
    let source = rule.set.map(|_| "command").or(rule.configured.map(|_| "config"));
    Report {
        gate: rule.gate.to_string(),
        state,
        paused_by: closed.map(|closed| closed.by.clone()),
        reason: closed.map(|closed| closed.reason.clone()),
        paused_since: closed.map(|closed| rfc3339(closed.since)),
        paused_since_ms: closed.map(|closed| closed.since.as_ms()),
        until: ends.map(rfc3339),
        until_ms: ends.map(Timestamp::as_ms),
        concurrency: limits.concurrency,
        rate: limits.rate.map(|rate| rate.to_string()),
        breaker: limits.breaker.map(|breaker| breaker.to_string()),
        source,
        held: *held,
        waiting: *waiting,
        ends,
    }
}

/// How the queue is shared, as one more line.
fn shared(share: &FairShare, waiting: u64) -> Report {
    Report {
        gate: format!("fair:{}", share.field()),
        state: "shared",
        paused_by: None,
        reason: None,
        paused_since: None,
        paused_since_ms: None,
        until: None,
        until_ms: None,
        concurrency: None,
        rate: None,
        breaker: None,
        source: Some("config"),
        held: 0,
        waiting,
        ends: None,
    }
}

fn show(reports: &[Report], queue: &Queue, (clock, now): (&Clock, Timestamp)) -> View {
    if reports.is_empty() {
        return format!("no gate of the queue {} has a rule", queue.name()).into();
    }
    let mut table = output::table(&[
        Column::from("gate"),
        Column::state("state"),
        Column::from("until"),
        Column::from("limits"),
        Column::wide("source"),
        Column::from("held"),
        Column::from("waiting"),
        Column::prose("why"),
    ]);
    for report in reports {
        let by = report.paused_by.as_ref().map(|by| {
            let reason = report.reason.as_deref().filter(|reason| !reason.is_empty());
            reason.map_or_else(|| by.clone(), |reason| format!("{by}: {reason}"))
        });
        table.add_row([
            harmless(&report.gate),
            report.state.to_owned(),
            report.ends.map_or_else(|| "-".to_owned(), |ends| clock.with_age(ends, now)),
            shown(report.concurrency, report.rate.as_deref(), report.breaker.as_deref()),
            report.source.unwrap_or("-").to_owned(),
            report.held.to_string(),
            report.waiting.to_string(),
            by.map_or_else(|| "-".to_owned(), |by| harmless(&by)),
        ]);
    }
    table.into()
}
