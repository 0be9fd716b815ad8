//! `streamfleet audit`: what people did to a queue, newest first.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{EntryId, QueueName};
use streamfleet_engine::admin::PastAction;

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View};
use super::queues;
use super::times::{Clock, rfc3339};

/// What the error says if Redis fails.
const FAILED: &str = "failed to read the audit";

/// How `audit` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet audit
  streamfleet audit --queue mail --limit 10 -o wide
  streamfleet audit --deletions
  streamfleet audit --alerts";

/// The arguments of `audit`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// Show who deleted which queues, instead of the actions on one queue.
    #[arg(long, conflicts_with = "queue")]
    deletions: bool,
    /// Show who acknowledged which incidents, instead of the actions on one queue.
    #[arg(long, conflicts_with_all = ["queue", "deletions"])]
    alerts: bool,
    /// The maximum number of actions. About the last 10,000 of a queue are kept.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Start after this action, to get the next page.
    #[arg(long, value_name = "ENTRY")]
    after: Option<EntryId>,
    #[command(flatten)]
    repeat: Repeat,
}

/// A page of actions, for JSON output. `next` is the value of `--after` for the next page.
pub(crate) type Page = List<Noted, Facts>;

/// What is known about all actions, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AuditFacts)]
pub(crate) struct Facts {
    /// `null` for the list of queues that were deleted, and for the actions on incidents.
    queue: Option<String>,
    #[serde(skip)]
    none: &'static str,
}

/// One action, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AuditNote)]
pub(crate) struct Noted {
    entry: String,
    at: String,
    at_ms: u64,
    who: String,
    what: String,
    /// A filter, or ids.
    target: String,
    /// How many jobs it concerned.
    count: Option<u64>,
    why: String,
    /// How it ended. Empty in the note that was made before it began.
    outcome: String,
    #[serde(skip)]
    past: PastAction,
}

/// Lists the actions.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    let look = async || {
        let page = if args.deletions {
            let past = broker.deletions().recent(args.after, args.limit).await;
            page(past.context(FAILED)?, Err("no queue was deleted"), args.limit)
        } else if args.alerts {
            let past = broker.incidents().audit(args.after, args.limit).await;
            page(past.context(FAILED)?, Err("nobody acknowledged an incident"), args.limit)
        } else {
            of_queue(&queue, args.after, args.limit).await?
        };
        let is_empty = page.items.is_empty() && !args.deletions && !args.alerts;
        if is_empty && queues::report_unknown(&broker, queue.name(), context).await {
            return Ok(Listing::not_found());
        }
        let names = |page: &Page| page.items.iter().map(|noted| noted.entry.clone()).collect();
        Ok(Listing::new(context.output.rendered(&page, names, |page| show(page, &context.clock))?))
    };
    args.repeat.run(context.output, look).await
}

/// Reads a page of what people did to a queue, newest first.
pub(crate) async fn of_queue(queue: &Queue, after: Option<EntryId>, limit: u64) -> anyhow::Result<Page> {
    let past = queue.audit().recent(after, limit).await.context(FAILED)?;
    Ok(page(past, Ok(queue.name().to_string()), limit))
}

/// A page of the audit of a queue, or of a list that says this if it is empty.
fn page(past: Vec<PastAction>, of: Result<String, &'static str>, limit: u64) -> Page {
    let facts = Facts { none: of.as_ref().err().copied().unwrap_or_default(), queue: of.ok() };
    let next = past.last().filter(|_| past.len() as u64 == limit).map(|past| past.entry.to_string());
    Page { items: past.into_iter().map(noted).collect(), next, facts, former: None }
}

fn noted(past: PastAction) -> Noted {
    let action = past.action.clone();
    Noted {
        entry: past.entry.to_string(),
        at: rfc3339(past.at()),
        at_ms: past.at().as_ms(),
        who: action.who,
        what: action.what,
        target: action.target,
        count: action.count,
        why: action.why,
        outcome: action.outcome,
        past,
    }
}

fn show(page: &Page, clock: &Clock) -> View {
    if page.items.is_empty() {
        let none = page.facts.queue.as_ref().map(|queue| format!("nothing is noted about the queue {queue}"));
        return none.unwrap_or_else(|| page.facts.none.to_owned()).into();
    }
    let mut table = output::table(&[
        Column::from("at"),
        Column::from("who"),
        Column::from("what"),
        Column::from("jobs"),
        Column::from("outcome"),
        Column::from("why"),
        Column::from("target"),
    ]);
    for noted in &page.items {
        table.add_row([
            clock.time(noted.past.at()),
            noted.who.clone(),
            noted.what.clone(),
            noted.count.map_or_else(String::new, |count| count.to_string()),
            noted.outcome.clone(),
            noted.why.clone(),
            noted.target.clone(),
        ]);
    }
    let more = page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --after {next}"));
    View::from(table).then(format!("{} actions{more}", page.items.len()))
}
