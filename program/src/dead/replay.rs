//! `dead replay`: at once, or by a campaign.

use streamfleet::job::QueueName;
use streamfleet_operations::dead::Sweep;

use super::campaign::{self, CampaignArgs};
use super::sweep::{self, Args};
use crate::exit::Exit;
use crate::{Context, Wrong};

/// The arguments of `dead replay`.
#[derive(clap::Args)]
pub(super) struct Replay {
    /// Which steps of a job to run: those that have not succeeded, or all of them. With `all`, steps that are done
    /// run again, including steps of the kind `once`.
    #[arg(long, value_name = "WHICH", default_value = "failed")]
    steps: Which,
    #[command(flatten)]
    campaign: CampaignArgs,
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
    /// Replays the letters, or begins a campaign that does.
    pub(super) async fn run(self, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
        let way = match self.steps {
            Which::Failed => Sweep::Replay,
            Which::All => Sweep::ReplayAllSteps,
        };
        match self.campaign.rules() {
            None => sweep::run(self.args, way, queue, context).await,
            Some(_) if way == Sweep::ReplayAllSteps => {
                Err(Wrong("--steps all does not work with a campaign".to_owned()).into())
            }
            Some(_) if self.args.limit.is_some() => Err(Wrong(
                "--limit does not work with a campaign; --canary replays a few jobs first".to_owned(),
            )
            .into()),
            Some(rules) => campaign::start(self.args, rules, queue, context).await,
        }
    }
}
