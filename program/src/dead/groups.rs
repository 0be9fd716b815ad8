//! `dead groups`: the dead letters by what killed their jobs. As fast with a million letters as with one.

use anyhow::Context as _;
use streamfleet::job::{QueueName, Timestamp};
use streamfleet::{Broker, Queue};
use streamfleet_operations::dead::{self, Group, GroupFacts, OTHER};

use crate::Context;
use crate::exit::Exit;
use crate::output::{self, Column, List, Listing, Repeat, View};
use crate::queues;
use crate::times::short;

/// How `dead groups` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dead groups --queue mail
  streamfleet dead groups --recount
  streamfleet dead list --group 0b5ff10951f305e7";

/// The arguments of `dead groups`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The maximum number of groups.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_001))]
    limit: u64,
    /// Count all dead letters again first: also those of older versions, and without those deleted by hand.
    #[arg(long, conflicts_with = "watch")]
    recount: bool,
    #[command(flatten)]
    repeat: Repeat,
}

/// The groups.
type Page = List<Group, GroupFacts>;

/// Lists the groups.
pub(super) async fn run(
    args: Args,
    broker: &Broker,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let queue = broker.queue(queue);
    if args.recount {
        recount(&queue, context).await?;
    }
    args.repeat.run(context.output, async || list(&args, broker, &queue, context).await).await
}

async fn recount(queue: &Queue, context: &Context) -> anyhow::Result<()> {
    let total = queue.snapshot().await.context("failed to count the dead letters")?.dead;
    let bar = output::progress(context.output, Some(total), "dead letters");
    let counted = queue.dead_letters().recount(|counted| bar.set_position(counted)).await;
    bar.finish_and_clear();
    match counted.context("failed to count the dead letters again")? {
        Some(_) => Ok(()),
        None => {
            Err(anyhow::anyhow!("somebody else began to count them again meanwhile, or it took too long"))
        }
    }
}

async fn list(args: &Args, broker: &Broker, queue: &Queue, context: &Context) -> anyhow::Result<Listing> {
    let now = queue.snapshot().await.context("failed to ask for the time")?.now;
    let page = dead::groups(queue, args.limit).await?;
    let names = |page: &Page| page.items.iter().map(|group| group.group.clone()).collect();
    let (show, page_of) = (|page: &Page| show(page, now), (&page, page.facts.total == 0));
    let listing = queues::listing(page_of, (broker, queue), context, (names, show)).await?;
    Ok(remarks(&page).into_iter().fold(listing, Listing::remark))
}

fn remarks(page: &Page) -> Vec<String> {
    let mut remarks = Vec::new();
    if page.facts.uncounted > 0 {
        let (one, more) = ("dead letter is not counted", "dead letters are not counted");
        let count = output::counted(page.facts.uncounted, one, more);
        remarks.push(format!(
            "{count}: --recount counts all of them, once no process of an older version is left"
        ));
    }
    if page.facts.overcounted > 0 {
        let one = "dead letter is counted that no longer exists";
        let count =
            output::counted(page.facts.overcounted, one, "dead letters are counted that no longer exist");
        remarks.push(format!("{count}: --recount counts those that do"));
    }
    if page.items.iter().any(|group| group.group == OTHER) {
        remarks.push(format!(
            "there are too many groups: the group {OTHER} has the dead letters of all further ones"
        ));
    }
    remarks
}

fn show(page: &Page, now: Timestamp) -> View {
    let GroupFacts { queue, total, groups, .. } = &page.facts;
    if page.items.is_empty() {
        return format!("the queue {queue} has {total} dead letters in 0 groups").into();
    }
    let ago = |ms: u64| format!("{} ago", short(now.since(ms.into())));
    let table = output::table_of(
        &page.items,
        &[
            (Column::id("group"), &|group| group.group.clone()),
            (Column::id("letters"), &|group| group.count.to_string()),
            (Column::from("type"), &|group| group.job_type.clone().unwrap_or_default()),
            (Column::from("reason"), &|group| group.reason.unwrap_or_default().to_owned()),
            (Column::wide("first"), &|group| ago(group.first_ms)),
            (Column::from("last"), &|group| ago(group.last_ms)),
            (Column::wide("letter"), &|group| group.letter.clone().unwrap_or_default()),
            (Column::from("error"), &|group| group.error.clone()),
        ],
    );
    let more = if page.items.len() < *groups { "; show more with --limit" } else { "" };
    View::from(table).then(format!("{} of {groups} groups of {total} dead letters{more}", page.items.len()))
}
