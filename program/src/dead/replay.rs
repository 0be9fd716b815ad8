//! `dead replay` and `dead drop`: at once if the letters are named, or else by a task.

use streamfleet::job::QueueName;
use streamfleet_operations::dead::Sweep;

use super::begin::{self, RulesArgs};
use super::sweep::{self, Args};
use crate::exit::Exit;
use crate::tasks::TaskArgs;
use crate::{Context, Wrong};

/// The arguments of `dead replay`.
#[derive(clap::Args)]
pub(super) struct Replay {
    /// Which steps of a job to run: those that have not succeeded, or all of them. With `all`, steps that are done
    /// run again, including steps of the kind `once`.
    #[arg(long, value_name = "WHICH", default_value = "failed")]
    steps: Which,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    args: Args,
}

/// Which steps a replay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Those that have not succeeded. A `once` step that has been started waits for a decision.
    Failed,
    /// All of them: the states of all steps are discarded.
    All,
}

impl Replay {
    /// Begins a task that replays the letters, or replays those that are named.
    pub(super) async fn run(self, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
        let way = match self.steps {
            Which::Failed => Sweep::Replay,
            Which::All => Sweep::ReplayAllSteps,
        };
        if self.args.ids.is_empty() {
            return begin::run(self.args, way, self.rules, queue, context).await;
        }
        by_id_only(self.rules.are_given())?;
        sweep::run(self.args, way, queue, context).await
    }
}

/// The arguments of `dead drop`.
#[derive(clap::Args)]
pub(super) struct Drop {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    args: Args,
}

impl Drop {
    /// Begins a task that drops the letters, or drops those that are named.
    pub(super) async fn run(self, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
        let Self { task, args } = self;
        if args.ids.is_empty() {
            return begin::run(args, Sweep::Drop, RulesArgs::of(task), queue, context).await;
        }
        by_id_only(task.are_given())?;
        sweep::run(args, Sweep::Drop, queue, context).await
    }
}

/// Refuses the rules of a task beside ids.
fn by_id_only(are_rules_given: bool) -> Result<(), Wrong> {
    if are_rules_given {
        let why = "letters that are named are changed at once: the rules of a task need a filter or --all";
        return Err(Wrong(why.to_owned()));
    }
    Ok(())
}
