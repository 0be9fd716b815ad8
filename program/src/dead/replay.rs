//! `dead replay`: at once, or by a task. `dead drop`: by a task, unless it is limited or the letters are named.

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
    /// Replays the letters, or begins a task that does.
    pub(super) async fn run(self, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
        let way = match self.steps {
            Which::Failed => Sweep::Replay,
            Which::All => Sweep::ReplayAllSteps,
        };
        match self.rules.rules() {
            None => sweep::run(self.args, way, queue, context).await,
            Some(_) if way == Sweep::ReplayAllSteps => {
                Err(Wrong("--steps all does not work with a task".to_owned()).into())
            }
            Some(_) if self.args.limit.is_some() => {
                let why = "--limit does not work with a task; --canary replays a few jobs first";
                Err(Wrong(why.to_owned()).into())
            }
            Some(rules) => begin::replay(self.args, (rules, self.rules.wait), queue, context).await,
        }
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
    /// Begins a task that drops the letters, or drops those that are named, or only the first ones.
    pub(super) async fn run(self, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
        let Self { task, args } = self;
        if args.ids.is_empty() && args.limit.is_none() {
            return begin::drop(args, task, queue, context).await;
        }
        if task.are_given() {
            let why = "--rate and --detach select dead letters by a filter or --all, without --limit";
            return Err(Wrong(why.to_owned()).into());
        }
        sweep::run(args, Sweep::Drop, queue, context).await
    }
}
