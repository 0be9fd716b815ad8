//! `dead replay` with `--rate`, `--canary` or `--stop-at`: begins a campaign, which the fleet carries out.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::{CampaignError, CampaignRules};
use streamfleet_operations::DEAD_REPLAY;
use streamfleet_operations::dead::Sweep;

use super::plan;
use super::sweep::Args;
use crate::exit::Exit;
use crate::{Context, Wrong, actor, output};

/// The arguments that make a replay a campaign.
#[derive(clap::Args)]
pub(super) struct CampaignArgs {
    /// Let the fleet replay this many jobs per time, such as 50/s, 300/m or 10/h. Default of a campaign: 100/s.
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// Let the fleet replay this many jobs first. All of them must succeed before the rest is replayed.
    #[arg(long, value_name = "JOBS")]
    canary: Option<u64>,
    /// Let the fleet replay, and stop when more than this share of the jobs dies again of the same error, such as 5%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    stop_at: Option<f64>,
    /// Leave jobs alone that campaigns have replayed this often. Default of a campaign: 3.
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..))]
    max_replays: Option<u64>,
}

impl CampaignArgs {
    /// Returns the rules of the campaign; `None` if none is wanted.
    pub(super) fn rules(&self) -> Option<CampaignRules> {
        let Self { rate, canary, stop_at, max_replays } = self;
        if rate.is_none() && canary.is_none() && stop_at.is_none() && max_replays.is_none() {
            return None;
        }
        let mut rules = CampaignRules::default().canary(canary.unwrap_or(0)).stop_at(*stop_at);
        if let Some(rate) = rate {
            rules = rules.rate(*rate);
        }
        if let Some(most) = max_replays {
            rules = rules.max_replays(*most);
        }
        Some(rules)
    }
}

/// Reads a rate, and returns how many per second.
fn rate(text: &str) -> Result<f64, String> {
    const RULE: &str = "a rate must be a number per time, such as 50/s, 300/m or 10/h, from 1/h to 10000/s";
    let (count, unit) = text.split_once('/').ok_or(RULE)?;
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(RULE.to_owned()),
    };
    let rate = count.parse::<u32>().map_err(|_| RULE)?;
    let per_second = f64::from(rate) / seconds;
    if rate == 0 || per_second > 10_000.0 { Err(RULE.to_owned()) } else { Ok(per_second) }
}

/// Reads a share in percent.
fn percent(text: &str) -> Result<f64, String> {
    const RULE: &str = "a share must be a number of percent from 0% to 100%, such as 5% or 0.5%";
    let share = text.strip_suffix('%').ok_or(RULE)?.parse::<f64>().map_err(|_| RULE)?;
    if (0.0..=100.0).contains(&share) { Ok(share) } else { Err(RULE.to_owned()) }
}

/// The new campaign, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = CampaignBegun)]
pub(crate) struct Report {
    pub(crate) campaign: String,
    pub(crate) queue: String,
    /// How many letters match, if they were counted.
    pub(crate) planned: Option<u64>,
}

/// Begins a campaign.
pub(super) async fn start(
    args: Args,
    rules: CampaignRules,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let filter = args.letters.filter(&context.clock)?;
    args.check(&filter, Sweep::Replay)?;
    if !args.ids.is_empty() {
        return Err(
            Wrong("a campaign selects dead letters by a filter or --all, not by ids".to_owned()).into()
        );
    }
    let queue = context.broker().await?.queue(queue);
    let selection = queue.dead_letters().select(filter).await.context("failed to read the dead letters")?;
    let target = if selection.filter.is_empty() { "--all".to_owned() } else { selection.filter.to_string() };
    let mut action = super::actor(&args.actor)?.action(&DEAD_REPLAY).target(target);
    if !args.yes {
        let planned = plan::show(&queue, &selection, Sweep::Replay, context).await?;
        if planned > 0 {
            plan::confirm("Begin a campaign that replays", planned, &queue, context).await?;
        }
        action = action.count(planned);
    }
    let planned = action.count;
    let id = match (planned, queue.campaigns()) {
        (Some(0), _) => Err(CampaignError::NoLetters),
        (_, campaigns) => campaigns.start(&selection, rules, &action).await,
    };
    let id = match id {
        Ok(id) => actor::told(id),
        Err(CampaignError::Redis(error)) => return Err(error).context("failed to begin the campaign"),
        Err(CampaignError::NoLetters) => {
            output::print_stderr("there are no dead letters to replay");
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error.into()),
    };
    let report = Report { campaign: id, queue: queue.name().to_string(), planned };
    context.output.print_named(&report, |report| vec![report.campaign.clone()], show)?;
    Ok(Exit::Done)
}

fn show(report: &Report) -> String {
    let Report { campaign, queue, .. } = report;
    format!(
        "campaign {campaign} begins; to follow it: streamfleet campaigns show {campaign} --queue {queue} --watch"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_have_units() {
        assert_eq!([rate("50/s"), rate("300/m"), rate("36/h")], [Ok(50.0), Ok(5.0), Ok(0.01)]);
        for text in ["", "50", "0/s", "50/d", "-1/s", "1.5/s", "20000/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!([percent("5%"), percent("0.5%"), percent("100%")], [Ok(5.0), Ok(0.5), Ok(100.0)]);
        for text in ["", "5", "-1%", "101%", "NaN%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
