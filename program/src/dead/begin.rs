//! `dead replay` with `--rate`, `--canary` and the like, and `dead drop` of what a filter matches: each begins a task.

use anyhow::Context as _;
use streamfleet::Queue;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::ReplayRules;
use streamfleet_operations::dead::{self, Selected, Sweep, Swept};

use super::plan;
use super::sweep::{self, Args};
use crate::actor::told;
use crate::exit::Exit;
use crate::tasks::{self, TaskArgs};
use crate::{Context, Wrong, bulk, output};

/// The arguments that make a replay a task.
#[derive(clap::Args)]
pub(super) struct RulesArgs {
    /// Let the fleet replay this many jobs per time, such as 50/s, 300/m or 10/h. Default of a task: 100/s.
    #[arg(long, value_parser = tasks::rate)]
    rate: Option<f64>,
    /// Let the fleet replay this many jobs first. All of them must succeed before the rest is replayed.
    #[arg(long, value_name = "JOBS")]
    canary: Option<u64>,
    /// Let the fleet replay, and stop when more than this share of the jobs dies again of the same error, such as 5%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    stop_at: Option<f64>,
    /// Leave jobs alone that tasks have replayed this often. Default of a task: 3.
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..))]
    max_replays: Option<u64>,
    #[command(flatten)]
    pub(super) wait: tasks::WaitArgs,
}

impl RulesArgs {
    /// Returns the rules of the task; `None` if none is wanted.
    pub(super) fn rules(&self) -> Option<ReplayRules> {
        let Self { rate, canary, stop_at, max_replays, wait } = self;
        let is_plain = rate.is_none() && canary.is_none() && stop_at.is_none() && max_replays.is_none();
        if is_plain && !wait.detach {
            return None;
        }
        let mut rules = ReplayRules::default().canary(canary.unwrap_or(0)).stop_at(*stop_at);
        if let Some(rate) = rate {
            rules = rules.rate(*rate);
        }
        if let Some(most) = max_replays {
            rules = rules.max_replays(*most);
        }
        Some(rules)
    }
}

/// Reads a share in percent.
fn percent(text: &str) -> Result<f64, String> {
    const RULE: &str = "a share must be a number of percent from 0% to 100%, such as 5% or 0.5%";
    let share = text.strip_suffix('%').ok_or(RULE)?.parse::<f64>().map_err(|_| RULE)?;
    if (0.0..=100.0).contains(&share) { Ok(share) } else { Err(RULE.to_owned()) }
}

/// Begins a task that replays letters, and waits for its end.
pub(super) async fn replay(
    args: Args,
    (rules, wait): (ReplayRules, tasks::WaitArgs),
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let actor = super::actor(&args.actor)?;
    let Some((queue, letters)) = selected(&args, Sweep::Replay, queue, context).await? else {
        output::print_stderr("there are no dead letters to replay");
        return Ok(Exit::Done);
    };
    let begun = told(dead::begin_replay(&queue, &actor, &letters, rules).await?);
    tasks::finish(&queue, begun, wait, context).await
}

/// Begins a task that drops letters, and waits for its end.
pub(super) async fn drop(
    args: Args,
    task: TaskArgs,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let actor = super::actor(&args.actor)?;
    let Some((queue, letters)) = selected(&args, Sweep::Drop, queue.clone(), context).await? else {
        let none = Swept::of_none(&queue);
        context.output.print(&none, |none| sweep::show(none, Sweep::Drop))?;
        return Ok(Exit::Done);
    };
    let begun = told(dead::begin_drop(&queue, &actor, &letters, task.rate).await?);
    if task.wait.detach {
        return tasks::print(&begun, context);
    }
    let ended = tasks::wait(&queue, &begun, context).await?;
    let swept = Swept::of_drop(&ended);
    swept.errors.iter().for_each(|error| output::print_stderr(error));
    context.output.print(&swept, |swept| sweep::show(swept, Sweep::Drop))?;
    Ok(if swept.failed > 0 && swept.done() == 0 { Exit::Redis } else { tasks::exit(&ended) })
}

/// Returns which letters are meant; `None` if there are none. Shows a plan and asks first, unless that was confirmed.
async fn selected(
    args: &Args,
    way: Sweep,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Option<(Queue, Selected)>> {
    let filter = args.letters.filter(&context.clock)?;
    args.check(&filter, way)?;
    if !args.ids.is_empty() {
        let why = "a task selects dead letters by a filter or --all, not by ids";
        return Err(Wrong(why.to_owned()).into());
    }
    let broker = bulk::connect(context).await?.ok_or_else(plan::cancelled)?;
    let queue = broker.queue(queue);
    let selected = queue.dead_letters().select(filter).await;
    let selection = selected.context("failed to read the dead letters")?;
    let planned = if !args.yes {
        let letters = plan::show(&queue, &selection, way, context).await?;
        if letters > 0 {
            plan::confirm(sweep::question(way), letters, &queue, context).await?;
        }
        Some(letters)
    } else if way == Sweep::Drop {
        Some(plan::count(&queue, &selection, context).await?.letters)
    } else {
        None
    };
    let is_none = planned == Some(0) || selection.last.is_none();
    Ok((!is_none).then_some((queue, Selected { selection, planned })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_units() {
        assert_eq!([percent("5%"), percent("0.5%"), percent("100%")], [Ok(5.0), Ok(0.5), Ok(100.0)]);
        for text in ["", "5", "-1%", "101%", "NaN%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
