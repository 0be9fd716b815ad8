//! `workers drain` and `workers resume`: keep one worker from taking jobs, without access to its host.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::ProgressBar;
use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::{ConsumerName, QueueName};
use streamfleet_engine::admin::{Action, Drain, DrainOutcome, WorkerInfo};
use streamfleet_service::config::nearest;

use crate::Context;
use crate::actor::{ActorArgs, note};
use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::times::{duration, short};

/// How often a worker is looked at.
const EVERY: Duration = Duration::from_millis(250);

/// How `workers drain` is used.
const DRAIN_EXAMPLES: &str = "\
Examples:
  streamfleet workers drain web-3-4711-0b5ff109 --reason 'its disk is failing'
  streamfleet workers drain web-3-4711-0b5ff109 --exit --timeout 30m
  streamfleet workers drain web-3-4711-0b5ff109 --detach --by ann";

/// How `workers resume` is used.
const RESUME_EXAMPLES: &str = "\
Examples:
  streamfleet workers resume web-3-4711-0b5ff109";

/// Who asks a worker for something, and for how long to wait for it.
#[derive(clap::Args)]
struct Request {
    /// The worker, as `workers` lists it.
    #[arg(value_name = "NAME")]
    worker: ConsumerName,
    #[command(flatten)]
    actor: ActorArgs,
    /// Do not wait until the worker has done it.
    #[arg(long, conflicts_with = "timeout")]
    detach: bool,
    /// For how long to wait. Interrupting the wait changes nothing, either.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// The arguments of `workers drain`.
#[derive(clap::Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    request: Request,
    /// End the process once nothing runs, with the exit code 0. Kubernetes and most service managers start a new one in its
    /// place, which takes jobs.
    #[arg(long)]
    exit: bool,
}

/// The arguments of `workers resume`.
#[derive(clap::Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    request: Request,
}

/// What became of a request to a worker, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = WorkerAsked)]
pub(crate) struct Changed {
    worker: String,
    /// `drain` or `resume`: what it was asked for.
    asked: &'static str,
    /// False if it had been asked for that before.
    changed: bool,
    /// By whom, then.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_by: Option<String>,
    /// How far it is: `asked`, `draining`, `drained`, `running`, or `gone` if no process has this name any more.
    state: &'static str,
    /// How many jobs it runs.
    running: u64,
}

/// What a request to a worker leads to.
pub(crate) enum Asked {
    /// The worker will hear of it.
    Noted(Changed),
    /// The worker has this version, which looks for no requests.
    TooOld(String),
    /// No live worker has this name.
    Unknown,
}

/// What a worker is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Take no further job, and with `exit` end once nothing runs.
    Drain { exit: bool },
    /// Take jobs.
    Resume,
}

impl Order {
    /// The command that gives it, which the audit notes.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Drain { .. } => "workers drain",
            Self::Resume => "workers resume",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Drain { .. } => "drain",
            Self::Resume => "resume",
        }
    }
}

/// Drains a worker.
pub(super) async fn drain(args: DrainArgs, context: &Context) -> anyhow::Result<Exit> {
    carry_out(args.request, Order::Drain { exit: args.exit }, context).await
}

/// Lets a worker take jobs again.
pub(super) async fn resume(args: ResumeArgs, context: &Context) -> anyhow::Result<Exit> {
    carry_out(args.request, Order::Resume, context).await
}

async fn carry_out(request: Request, order: Order, context: &Context) -> anyhow::Result<Exit> {
    let Request { worker, actor, detach, timeout } = request;
    let broker = context.broker().await?;
    let action = actor.action(order.command());
    let mut changed = match ask(&broker, &worker, order, &action).await? {
        Asked::Noted(changed) => changed,
        Asked::TooOld(version) => {
            output::print_stderr(&too_old(&worker, &version));
            return Ok(Exit::Failed);
        }
        Asked::Unknown => {
            output::print_stderr(&unknown(&broker, &worker).await);
            return Ok(Exit::NotFound);
        }
    };
    let exit = if detach {
        Exit::Done
    } else {
        let bar = output::progress(context.output, Some(changed.running), "jobs ended");
        let exit = wait((&broker, context), &worker, (order, timeout), (&mut changed, &bar)).await;
        bar.finish_and_clear();
        exit?
    };
    context.output.print_named(&changed, |changed| vec![changed.worker.clone()], line)?;
    Ok(exit)
}

/// Asks a worker for something, and notes that in the audit of its queues.
pub(crate) async fn ask(
    broker: &Broker,
    name: &ConsumerName,
    order: Order,
    action: &Action,
) -> anyhow::Result<Asked> {
    let Some(known) = look_up(broker, name).await? else { return Ok(Asked::Unknown) };
    if !known.can_drain() {
        return Ok(Asked::TooOld(fact(&known, "version").to_owned()));
    }
    let outcome = match order {
        Order::Drain { exit } => {
            broker.drain_worker(name, &Drain::new(&action.who, &action.why).exits(exit)).await
        }
        Order::Resume => broker.resume_worker(name, &action.who, &action.why).await,
    };
    let asked_by =
        match outcome.with_context(|| format!("{name} may or may not be asked to {}", order.word()))? {
            DrainOutcome::Noted => None,
            DrainOutcome::Already { by, .. } => Some(by),
            DrainOutcome::Unknown => return Ok(Asked::Unknown),
        };
    let told = match order {
        Order::Drain { exit: true } => "asked to drain and end",
        Order::Drain { exit: false } => "asked to drain",
        Order::Resume => "asked to take jobs",
    };
    let before = asked_by.as_deref().map(before).unwrap_or_default();
    let noted = action.clone().target(name.to_string()).outcome(format!("{told}{before}"));
    for queue in queues_of(&known) {
        note(&broker.queue(queue), &noted).await;
    }
    Ok(Asked::Noted(Changed {
        worker: name.to_string(),
        asked: order.word(),
        changed: asked_by.is_none(),
        asked_by: asked_by.filter(|by| !by.is_empty()),
        state: "asked",
        running: running(&known),
    }))
}

/// The queues that a worker serves.
pub(crate) fn queues_of(worker: &WorkerInfo) -> impl Iterator<Item = QueueName> + '_ {
    fact(worker, "queues").split(',').filter_map(|name| name.parse().ok())
}

/// Why a worker cannot be asked for anything.
pub(crate) fn too_old(worker: &ConsumerName, version: &str) -> String {
    harmless(&format!(
        "the worker {worker} has the version {version}, which cannot be drained from elsewhere: send SIGTERM to its process"
    ))
}

/// Looks a worker up.
pub(crate) async fn look_up(broker: &Broker, name: &ConsumerName) -> anyhow::Result<Option<WorkerInfo>> {
    broker.worker(name).await.context("failed to look up the worker")
}

fn fact<'a>(worker: &'a WorkerInfo, name: &str) -> &'a str {
    worker.facts.get(name).map_or("", String::as_str)
}

/// How many jobs a worker runs.
fn running(worker: &WorkerInfo) -> u64 {
    fact(worker, "running").parse().unwrap_or(0)
}

/// Says that no worker has this name, and which one may be meant.
async fn unknown(broker: &Broker, name: &ConsumerName) -> String {
    let known = broker.workers().await.map(|listed| listed.found).unwrap_or_default();
    let near = nearest(name.as_str(), known.iter().map(|worker| worker.consumer.as_str()));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    harmless(&format!("there is no live worker {name}{hint}"))
}

/// Waits until the worker has done what it was asked for, or is gone.
async fn wait(
    (broker, context): (&Broker, &Context),
    name: &ConsumerName,
    (order, timeout): (Order, Duration),
    (changed, bar): (&mut Changed, &ProgressBar),
) -> anyhow::Result<Exit> {
    let (first, deadline) = (changed.running, Instant::now() + timeout);
    loop {
        let worker = look_up(broker, name).await?;
        changed.look(worker.as_ref());
        match reached(worker.as_ref(), order) {
            Reached::End => return Ok(Exit::Done),
            Reached::Reverted => {
                output::print_stderr("somebody else has asked the worker for something else meanwhile");
                return Ok(Exit::Failed);
            }
            Reached::NotYet => {}
        }
        bar.set_position(first.saturating_sub(changed.running));
        if Instant::now() >= deadline {
            let not_yet = if changed.state == "asked" { "has not confirmed that" } else { "is not done" };
            output::print_stderr(&format!("{name} {not_yet} after {}; the request stays", short(timeout)));
            return Ok(Exit::Unfinished);
        }
        tokio::select! {
            biased;
            () = context.shutdown.requested() => {
                output::print_stderr(&format!("interrupted; the request to {name} stays"));
                return Ok(Exit::Unfinished);
            }
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// How far a worker is with what it was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Reached {
    /// It has not heard of it, or is not done.
    NotYet,
    /// It has done it, or is gone.
    End,
    /// Another request took its place.
    Reverted,
}

fn reached(worker: Option<&WorkerInfo>, order: Order) -> Reached {
    let Some(worker) = worker else { return Reached::End };
    if worker.drain().is_some() != matches!(order, Order::Drain { .. }) {
        return Reached::Reverted;
    }
    let is_done = match order {
        Order::Drain { exit } => !exit && fact(worker, "state") == "drained",
        Order::Resume => worker.has_heard(),
    };
    if is_done { Reached::End } else { Reached::NotYet }
}

impl Changed {
    /// Notes how far the worker is.
    fn look(&mut self, worker: Option<&WorkerInfo>) {
        self.running = worker.map_or(0, running);
        self.state = match worker {
            None => "gone",
            Some(worker) if !worker.has_heard() => "asked",
            Some(worker) => match fact(worker, "state") {
                "draining" => "draining",
                "drained" => "drained",
                _ => "running",
            },
        };
    }
}

/// By whom the same was asked for before, in words.
fn before(by: &str) -> String {
    if by.is_empty() {
        "; nobody had drained it".to_owned()
    } else {
        format!("; {by} had asked for that before")
    }
}

fn line(changed: &Changed) -> String {
    let Changed { worker, asked, state, running, .. } = changed;
    let text = match (*asked, *state) {
        ("drain", "drained") => format!("{worker} is drained: it takes no job until somebody resumes it"),
        ("drain", "draining") => format!("{worker} drains: it takes no further job, and {running} still run"),
        (_, "gone") => format!("{worker} is gone"),
        ("resume", "running") => format!("{worker} takes jobs"),
        _ => format!("{worker} was asked to {asked}; see `streamfleet workers`"),
    };
    let before =
        if changed.changed { String::new() } else { before(changed.asked_by.as_deref().unwrap_or_default()) };
    harmless(&format!("{text}{before}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_gone_has_drained_and_taken_jobs() {
        for order in [Order::Drain { exit: true }, Order::Drain { exit: false }, Order::Resume] {
            assert_eq!(reached(None, order), Reached::End);
        }
    }

    #[test]
    fn a_line_says_how_far_the_worker_is() {
        let changed = |asked, state, by: Option<&str>| Changed {
            worker: "w".to_owned(),
            asked,
            changed: by.is_none(),
            asked_by: by.filter(|by| !by.is_empty()).map(str::to_owned),
            state,
            running: 3,
        };
        let drained = line(&changed("drain", "drained", None));
        assert_eq!(drained, "w is drained: it takes no job until somebody resumes it");
        let draining = line(&changed("drain", "draining", Some("bob")));
        assert!(draining.ends_with("and 3 still run; bob had asked for that before"), "{draining}");
        let resumed = line(&changed("resume", "running", Some("")));
        assert_eq!(resumed, "w takes jobs; nobody had drained it");
        assert_eq!(line(&changed("drain", "gone", None)), "w is gone");
        assert!(line(&changed("drain", "asked", None)).starts_with("w was asked to drain"));
    }
}
