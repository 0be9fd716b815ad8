//! `dead replay` and `dead drop` of what a filter matches: each begins a task, and waits for it.

use streamfleet::Queue;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::ReplayRules;
use streamfleet_operations::Actor;
use streamfleet_operations::dead::{self, LetterPlan, Selected, Sweep, Swept};

use super::plan;
use super::sweep::{self, Args};
use crate::actor::told;
use crate::exit::Exit;
use crate::tasks::{self, TaskArgs};
use crate::{Context, bulk, confirm, output, queues};

/// How a task goes about its letters.
#[derive(clap::Args, Default)]
pub(crate) struct RulesArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Replay this many jobs first. All of them must succeed before the rest is replayed.
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1..))]
    canary: Option<u64>,
    /// Stop when more than this share of the jobs dies again of the same error, such as 5%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    stop_at: Option<f64>,
    /// Leave jobs alone that tasks have replayed this often. Default: 3.
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..))]
    max_replays: Option<u64>,
}

impl RulesArgs {
    /// The rules of a task that watches nothing.
    pub(super) fn of(task: TaskArgs) -> Self {
        Self { task, ..Self::default() }
    }

    /// Whether anything was said.
    pub(super) fn are_given(&self) -> bool {
        let Self { task, canary, stop_at, max_replays } = self;
        task.are_given() || canary.is_some() || stop_at.is_some() || max_replays.is_some()
    }

    /// Begins a task that replays letters, and waits for its end unless nobody wants to.
    pub(crate) async fn replay(
        &self,
        way: Sweep,
        (queue, actor): (&Queue, &Actor),
        letters: &Selected,
        context: &Context,
    ) -> anyhow::Result<Exit> {
        let begun = told(dead::begin_replay(queue, actor, letters, self.rules(way)).await?);
        tasks::finish(queue, begun, self.task.wait, context).await
    }

    fn rules(&self, way: Sweep) -> ReplayRules {
        let usual = ReplayRules::default();
        usual
            .rate(self.task.rate)
            .canary(self.canary.unwrap_or(0))
            .stop_at(self.stop_at)
            .max_replays(self.max_replays.unwrap_or(usual.max_replays))
            .all_steps(way == Sweep::ReplayAllSteps)
    }
}

/// Reads a share in percent.
fn percent(text: &str) -> Result<f64, String> {
    const RULE: &str = "a share must be a number of percent from 0% to 100%, such as 5% or 0.5%";
    let share = text.strip_suffix('%').ok_or(RULE)?.parse::<f64>().map_err(|_| RULE)?;
    if (0.0..=100.0).contains(&share) { Ok(share) } else { Err(RULE.to_owned()) }
}

/// Begins a task that replays or drops letters, and waits for its end. Shows a plan and asks first, unless that was confirmed.
pub(super) async fn run(
    args: Args,
    way: Sweep,
    rules: RulesArgs,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let filter = args.letters.filter(&context.clock)?;
    args.check(&filter, way)?;
    let actor = super::actor(&args.actor)?;
    sweep::warn(way);
    let broker = bulk::connect(context).await?.ok_or_else(confirm::cancelled)?;
    let queue = broker.queue(queue);
    let mut letters = Selected::now(&queue, filter, args.limit).await?;
    if letters.is_none() && queues::report_unknown(&broker, queue.name(), context).await {
        return Ok(Exit::NotFound);
    }
    if args.dry_run || !args.yes {
        let counted = plan::count(&queue, &letters.selection, context).await?;
        letters.planned = Some(counted.letters);
        let text = plan::text(&counted, &letters, way);
        if args.dry_run {
            let plan = LetterPlan::of(&queue, &letters.selection, Some(counted));
            context.output.print(&plan, |_| text)?;
            return Ok(Exit::Done);
        }
        if !args.yes {
            output::print_stderr(&text);
            if counted.letters > 0 {
                plan::confirm(sweep::question(way), counted.letters, &queue, context).await?;
            }
        }
    } else {
        // Nobody who has confirmed this waits until many letters are counted.
        letters.count_few(&queue).await?;
    }
    if letters.is_none() {
        output::print_stderr("no dead letter matches");
        let none = Swept::of_none(queue.name());
        context.output.print(&none, |none| sweep::show(none, way))?;
        return Ok(Exit::Done);
    }
    if way == Sweep::Drop {
        return drop(&queue, &actor, &letters, rules.task, context).await;
    }
    rules.replay(way, (&queue, &actor), &letters, context).await
}

async fn drop(
    queue: &Queue,
    actor: &Actor,
    letters: &Selected,
    task: TaskArgs,
    context: &Context,
) -> anyhow::Result<Exit> {
    let begun = told(dead::begin_drop(queue, actor, letters, task.rate).await?);
    if task.wait.detach {
        return tasks::print(&begun, context);
    }
    let ended = tasks::wait(queue, &begun, context).await?;
    let swept = Swept::of_drop(&ended);
    swept.errors.iter().for_each(|error| output::print_stderr(error));
    context.output.print(&swept, |swept| sweep::show(swept, Sweep::Drop))?;
    Ok(if swept.failed > 0 && swept.done() == 0 { Exit::Redis } else { tasks::exit(&ended) })
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
