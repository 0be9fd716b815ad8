//! `streamfleet campaigns`: bulk replays that the fleet carries out. `dead replay --rate` begins them.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::QueueName;
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{Campaign, CampaignError, Noted};

use super::actor::{self, ActorArgs};
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View};
use super::times::{Clock, rfc3339};
use super::{Context, queues};

/// The arguments of `campaigns`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  streamfleet campaigns list --queue mail\n  streamfleet campaigns pause 0b5ff109 --reason 'the mail server is slow'"
)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, global = true, default_value = "default")]
    queue: QueueName,
    #[command(subcommand)]
    action: Action,
}

/// What to do with campaigns.
#[derive(clap::Subcommand)]
enum Action {
    /// List the campaigns, newest first. Those that are over are listed for 30 days.
    #[command(
        after_help = "Examples:\n  streamfleet campaigns list\n  streamfleet campaigns list --queue mail --watch"
    )]
    List {
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Show how a campaign fares.
    #[command(after_help = "Example:\n  streamfleet campaigns show 0b5ff109 --watch")]
    Show {
        /// The campaign.
        id: String,
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Pause a campaign. Jobs that it has replayed go on.
    #[command(
        after_help = "Example:\n  streamfleet campaigns pause 0b5ff109 --reason 'the mail server is slow'"
    )]
    Pause(Change),
    /// Continue a campaign that was paused.
    #[command(after_help = "Example:\n  streamfleet campaigns resume 0b5ff109")]
    Resume(Change),
    /// Stop a campaign for good. Jobs that it has replayed go on.
    #[command(after_help = "Example:\n  streamfleet campaigns stop 0b5ff109 --by ann")]
    Stop(Change),
}

/// The arguments of the commands that change a campaign.
#[derive(clap::Args)]
struct Change {
    /// The campaign.
    id: String,
    #[command(flatten)]
    actor: ActorArgs,
}

/// The campaigns, for JSON output.
pub(crate) type Page = List<Report, Facts>;

/// What is known about all campaigns, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = CampaignFacts)]
pub(crate) struct Facts {
    queue: String,
}

/// One campaign, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Campaign)]
pub(crate) struct Report {
    id: String,
    state: &'static str,
    /// Why it was paused or stopped.
    why: String,
    filter: String,
    who: String,
    created: String,
    created_ms: u64,
    changed: String,
    changed_ms: u64,
    rate: f64,
    canary: u64,
    stop_at: Option<f64>,
    max_replays: u64,
    /// How many letters matched when it began, if they were counted.
    planned: Option<u64>,
    replayed: u64,
    succeeded: u64,
    died: u64,
    died_otherwise: u64,
    needs_decision: u64,
    cancelled: u64,
    running: u64,
    skipped: u64,
    #[serde(skip)]
    campaign: Campaign,
}

impl From<Campaign> for Report {
    fn from(campaign: Campaign) -> Self {
        let (rules, counts) = (campaign.rules, campaign.counts);
        let filter = match campaign.selection.filter.to_string() {
            filter if filter.is_empty() => "--all".to_owned(),
            filter => filter,
        };
        Self {
            id: campaign.id.clone(),
            state: campaign.state.as_str(),
            why: campaign.why.clone(),
            filter,
            who: campaign.who.clone(),
            created: rfc3339(campaign.created),
            created_ms: campaign.created.as_ms(),
            changed: rfc3339(campaign.changed),
            changed_ms: campaign.changed.as_ms(),
            rate: rules.rate,
            canary: rules.canary,
            stop_at: rules.stop_at,
            max_replays: rules.max_replays,
            planned: campaign.planned,
            replayed: counts.replayed,
            succeeded: counts.succeeded,
            died: counts.died,
            died_otherwise: counts.died_otherwise,
            needs_decision: counts.needs_decision,
            cancelled: counts.cancelled,
            running: counts.alive(),
            skipped: counts.skipped,
            campaign,
        }
    }
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    let campaigns = queue.campaigns();
    match args.action {
        Action::List { repeat } => {
            repeat.run(context.output, async || list(&broker, &queue, context).await).await
        }
        Action::Show { id, repeat } => {
            repeat.run(context.output, async || show(&id, &queue, context).await).await
        }
        Action::Pause(change) => {
            let done = campaigns.pause(&change.id, &change.actor.action("campaigns pause")).await;
            changed(done, &change.id, &queue, context).await
        }
        Action::Resume(change) => {
            let done = campaigns.resume(&change.id, &change.actor.action("campaigns resume")).await;
            changed(done, &change.id, &queue, context).await
        }
        Action::Stop(change) => {
            let done = campaigns.stop(&change.id, &change.actor.action("campaigns stop")).await;
            changed(done, &change.id, &queue, context).await
        }
    }
}

/// Reads the campaigns, the newest first. The remarks are about those that cannot be read.
pub(crate) async fn page(queue: &Queue) -> anyhow::Result<(Page, Vec<String>)> {
    const FAILED: &str = "failed to read the campaigns";
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for id in queue.campaigns().ids().await.context(FAILED)?.keys() {
        match queue.campaigns().get(id).await {
            Ok(campaign) => found.extend(campaign.map(Report::from)),
            // One campaign of another version must not hide the others.
            Err(error) if error.kind() == "contract" => {
                remarks.push(format!("the campaign {id} cannot be read: {error}"));
            }
            Err(error) => return Err(error).context(FAILED),
        }
    }
    found.sort_by_key(|report| std::cmp::Reverse(report.created_ms));
    let facts = Facts { queue: queue.name().to_string() };
    Ok((Page { items: found, next: None, facts, former: None }, remarks))
}

async fn list(broker: &Broker, queue: &Queue, context: &Context) -> anyhow::Result<Listing> {
    let (page, remarks) = page(queue).await?;
    let is_empty = page.items.is_empty() && remarks.is_empty();
    if is_empty && queues::report_unknown(broker, queue.name(), context).await {
        return Ok(Listing::not_found());
    }
    remarks.iter().for_each(|remark| output::print_stderr(remark));
    let names = |page: &Page| page.items.iter().map(|report| report.id.clone()).collect();
    Ok(Listing::new(context.output.rendered(&page, names, |page| table(page, &context.clock))?))
}

async fn show(id: &str, queue: &Queue, context: &Context) -> anyhow::Result<Listing> {
    let found = queue.campaigns().get(id).await.context("failed to read the campaign")?;
    let Some(campaign) = found else {
        output::print_stderr(&format!("the queue {} has no campaign {id}", queue.name()));
        return Ok(Listing::not_found());
    };
    let report = Report::from(campaign);
    let names = |report: &Report| vec![report.id.clone()];
    Ok(Listing::new(context.output.rendered(&report, names, |report| facts(report, &context.clock))?))
}

async fn changed(
    done: Result<Noted<()>, CampaignError>,
    id: &str,
    queue: &Queue,
    context: &Context,
) -> anyhow::Result<Exit> {
    match done {
        Ok(done) => actor::told(done),
        Err(CampaignError::Redis(error)) => return Err(error).context("failed to change the campaign"),
        Err(CampaignError::Unknown) => {
            output::print_stderr(&format!("the queue {} has no campaign {id}", queue.name()));
            return Ok(Exit::NotFound);
        }
        Err(error) => {
            output::print_stderr(&format!("{error}; nothing was changed"));
            return Ok(Exit::Failed);
        }
    }
    let report = queue.campaigns().get(id).await.context("failed to read the campaign")?.map(Report::from);
    let names = |report: &Option<Report>| report.iter().map(|report| report.id.clone()).collect();
    let shown = |report: &Option<Report>| report.as_ref().map(|report| facts(report, &context.clock));
    context.output.print_named(&report, names, shown)?;
    Ok(Exit::Done)
}

fn table(page: &Page, clock: &Clock) -> View {
    if page.items.is_empty() {
        return format!("the queue {} has no campaigns", page.facts.queue).into();
    }
    let mut table = output::table(&[
        Column::id("campaign"),
        Column::state("state"),
        Column::from("begun"),
        Column::wide("by"),
        Column::from("replayed"),
        Column::from("succeeded"),
        Column::from("died again"),
        Column::wide("skipped"),
        Column::from("filter"),
        Column::from("why"),
    ]);
    for report in &page.items {
        table.add_row([
            report.id.clone(),
            report.state.to_owned(),
            clock.time(report.campaign.created),
            report.who.clone(),
            report.replayed.to_string(),
            report.succeeded.to_string(),
            (report.died + report.died_otherwise + report.needs_decision).to_string(),
            report.skipped.to_string(),
            report.filter.clone(),
            report.why.clone(),
        ]);
    }
    table.into()
}

fn facts(report: &Report, clock: &Clock) -> View {
    let planned = report.planned.map_or_else(String::new, |planned| format!(" of {planned}"));
    let ended = format!(
        "{} succeeded, {} died of the same error, {} of another, {} wait for a decision, {} cancelled, {} still running",
        report.succeeded,
        report.died,
        report.died_otherwise,
        report.needs_decision,
        report.cancelled,
        report.running
    );
    let waits = (report.campaign.is_read() && report.running > 0 && !report.campaign.state.is_over())
        .then(|| format!("{} jobs that have not ended; jobs removed by hand never do", report.running));
    let stop = report.stop_at.map_or_else(String::new, |share| format!(", stops at {share} % deaths"));
    output::facts(&[
        ("campaign", Some(report.id.clone())),
        ("state", Some(report.state.to_owned())),
        ("why", Some(report.why.clone()).filter(|why| !why.is_empty())),
        ("filter", Some(report.filter.clone())),
        ("begun", Some(format!("{} by {}", clock.time(report.campaign.created), report.who))),
        ("rules", Some(format!("{:.4} jobs/s, canary {}{stop}", report.rate, report.canary))),
        ("replayed", Some(format!("{}{planned}, {} skipped", report.replayed, report.skipped))),
        ("jobs", Some(ended)),
        ("waits for", waits),
    ])
}
