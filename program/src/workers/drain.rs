//! `workers drain` and `workers resume`: keep one worker from taking jobs, without access to its host.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use streamfleet::Broker;
use streamfleet::job::ConsumerName;
use streamfleet_engine::admin::WorkerInfo;
use streamfleet_operations::Error;
use streamfleet_operations::workers::{self, Order, WorkerAsked};
use streamfleet_service::config::nearest;

use crate::Context;
use crate::actor::{ActorArgs, told};
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
    let asked = workers::ask(&broker, &actor.actor(), &worker, order).await;
    if let Err(Error::NotFound(why)) = &asked {
        let hint = hint(&broker, &worker).await;
        return Err(Error::NotFound(format!("{why}{hint}")).into());
    }
    let mut changed = told(asked?);
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

/// Names the worker that is probably meant by a name that no live worker has.
async fn hint(broker: &Broker, name: &ConsumerName) -> String {
    let known = broker.workers().await.map(|listed| listed.found).unwrap_or_default();
    let near = nearest(name.as_str(), known.iter().map(|worker| worker.consumer.as_str()));
    near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// Waits until the worker has done what it was asked for, or is gone.
async fn wait(
    (broker, context): (&Broker, &Context),
    name: &ConsumerName,
    (order, timeout): (Order, Duration),
    (changed, bar): (&mut WorkerAsked, &ProgressBar),
) -> anyhow::Result<Exit> {
    let (first, deadline) = (changed.running, Instant::now() + timeout);
    loop {
        let worker = workers::look_up(broker, name).await?;
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
                let goes_on = match order {
                    Order::Drain { .. } => "goes on draining",
                    Order::Resume => "will take jobs all the same",
                };
                output::print_stderr(&format!("interrupted; {name} {goes_on}"));
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
        Order::Drain { exit } => !exit && worker.facts.get("state").is_some_and(|state| state == "drained"),
        Order::Resume => worker.has_heard(),
    };
    if is_done { Reached::End } else { Reached::NotYet }
}

/// By whom the same was asked for before, and why, in words.
fn before(asked: &WorkerAsked) -> String {
    let why = asked.asked_why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    match &asked.asked_by {
        Some(by) => format!("; {by} had asked for that before{why}"),
        None => "; nobody had drained it".to_owned(),
    }
}

fn line(changed: &WorkerAsked) -> String {
    let WorkerAsked { worker, asked, state, running, .. } = changed;
    let text = match (*asked, *state) {
        ("drain", "drained") => format!("{worker} is drained: it takes no job until somebody resumes it"),
        ("drain", "draining") => format!("{worker} drains: it takes no further job, and {running} still run"),
        (_, "gone") => format!("{worker} is gone"),
        ("resume", "running") => format!("{worker} takes jobs"),
        _ => format!("{worker} was asked to {asked}; see `streamfleet workers`"),
    };
    let before = if changed.changed { String::new() } else { before(changed) };
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
        let changed = |asked, state, by: Option<&str>| WorkerAsked {
            worker: "w".to_owned(),
            asked,
            changed: by.is_none(),
            asked_by: by.filter(|by| !by.is_empty()).map(str::to_owned),
            asked_why: by.filter(|by| *by == "bob").map(|_| "its disk".to_owned()),
            state,
            running: 3,
        };
        let drained = line(&changed("drain", "drained", None));
        assert_eq!(drained, "w is drained: it takes no job until somebody resumes it");
        let draining = line(&changed("drain", "draining", Some("bob")));
        assert!(draining.ends_with("and 3 still run; bob had asked for that before: its disk"), "{draining}");
        let resumed = line(&changed("resume", "running", Some("")));
        assert_eq!(resumed, "w takes jobs; nobody had drained it");
        assert_eq!(line(&changed("drain", "gone", None)), "w is gone");
        assert!(line(&changed("drain", "asked", None)).starts_with("w was asked to drain"));
    }
}
