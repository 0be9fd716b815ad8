//! `streamfleet audit`: what people did, newest first: to queues, which queues they deleted, and about incidents.

use anyhow::Context as _;
use streamfleet::Broker;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::{AuditCursor, AuditSearch, AuditSource, Missing};
use streamfleet_operations::audit::{self, AuditList, Wanted};

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, Listing, Repeat, View};
use super::queues;
use super::times::{self, Bound, Clock};

/// How `audit` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet audit
  streamfleet audit --since 1d --who ann --action 'dead replay'
  streamfleet audit --queue mail --limit 10 -o wide
  streamfleet audit --since '2026-12-01 18:00' --until '2026-12-02 06:00' -o jsonl
  streamfleet audit --deletions
  streamfleet audit --alerts";

/// The arguments of `audit`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only actions on this queue; may be repeated. Default: on all queues, deletions of queues, and actions on incidents.
    #[arg(long, short)]
    queue: Vec<QueueName>,
    /// Only who deleted which queues.
    #[arg(long, conflicts_with = "queue")]
    deletions: bool,
    /// Only who acknowledged which incidents.
    #[arg(long, conflicts_with_all = ["queue", "deletions"])]
    alerts: bool,
    #[command(flatten)]
    wanted: WantedArgs,
    /// The maximum number of actions. About the last 10,000 of a queue are kept.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Start after this action, to get the next page.
    #[arg(long, value_name = "ENTRY")]
    after: Option<AuditCursor>,
    #[command(flatten)]
    repeat: Repeat,
}

/// Which actions are wanted.
#[derive(clap::Args)]
struct WantedArgs {
    /// Only actions since this time, or so long ago, such as 1d.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    since: Option<Bound>,
    /// Only actions before this time, or more than so long ago.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    until: Option<Bound>,
    /// Only actions of people with this in their names.
    #[arg(long, value_name = "TEXT")]
    who: Option<String>,
    /// Only actions that begin with these words, such as `dead` or `dead replay`.
    #[arg(long, value_name = "WORDS")]
    action: Option<String>,
    /// Only actions with this in what they were done to, such as the id of a job or the name of a gate.
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
}

/// Lists the actions.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let WantedArgs { since, until, who, action, target } = args.wanted;
    let wanted = Wanted { since, until, who, action, target };
    let none = match (args.deletions, args.alerts) {
        (true, _) => "no queue was deleted",
        (false, true) => "nobody acknowledged an incident",
        (false, false) => "nothing is noted",
    };
    let is_all = args.queue.is_empty() && !args.deletions && !args.alerts;
    let look = async || {
        let (mut sources, missing) =
            if is_all { everything(&broker).await? } else { (queues_of(&args.queue), Vec::new()) };
        sources.extend(args.deletions.then_some(AuditSource::Deletions));
        sources.extend(args.alerts.then_some(AuditSource::Alerts));
        let (after, limit) = (args.after.clone(), args.limit);
        let search = AuditSearch { sources, after, limit, most: u64::MAX, ..AuditSearch::default() };
        let page = audit::find(&broker, search, &wanted, &context.clock, str::to_owned).await?;
        if let ([], [queue]) = (&page.items[..], &args.queue[..])
            && queues::report_unknown(&broker, queue, context).await
        {
            return Ok(Listing::not_found());
        }
        let names = |page: &AuditList| page.items.iter().map(|noted| noted.entry.clone()).collect();
        let text = context.output.rendered(&page, names, |page| show(page, none, &context.clock))?;
        let next = page.next.filter(|_| context.output.is_items_only());
        let next = next.map(|next| format!("next page: --after {next}"));
        let remarks = page.facts.unread.into_iter().chain(next);
        Ok(remarks.fold(Listing::new(text), Listing::remark).without(&missing))
    };
    args.repeat.run(context.output, look).await
}

/// All audits, and the servers of which it is not known whether they have any.
pub(crate) async fn everything(broker: &Broker) -> anyhow::Result<(Vec<AuditSource>, Vec<Missing>)> {
    let listed = broker.queues_and_audits().await.context("failed to list the audits")?;
    let mut sources = queues_of(&listed.1);
    sources.extend([AuditSource::Deletions, AuditSource::Alerts]);
    Ok((sources, listed.0.missing))
}

pub(crate) fn queues_of<'a>(names: impl IntoIterator<Item = &'a QueueName>) -> Vec<AuditSource> {
    names.into_iter().cloned().map(AuditSource::Queue).collect()
}

fn show(page: &AuditList, none: &str, clock: &Clock) -> View {
    let queue = &page.facts.queue;
    if page.items.is_empty() {
        let of_queue = queue.as_ref().map(|queue| format!("nothing is noted about the queue {queue}"));
        let none = of_queue.unwrap_or_else(|| none.to_owned());
        return match &page.next {
            Some(next) => format!("{none} so far; next page: --after {next}").into(),
            None => none.into(),
        };
    }
    let mut table = output::table(&[
        Column::from("at"),
        Column::from("who"),
        Column::from("what"),
        // One that was asked for is in every row.
        if queue.is_some() { Column::wide("queue") } else { Column::from("queue") },
        Column::from("jobs"),
        Column::from("outcome"),
        Column::from("why"),
        Column::from("target"),
    ]);
    for noted in &page.items {
        table.add_row([
            clock.time(noted.at_ms),
            noted.who.clone(),
            noted.what.clone(),
            noted.queue.clone().unwrap_or_default(),
            noted.count.map_or_else(String::new, |count| count.to_string()),
            noted.outcome.clone(),
            noted.why.clone(),
            noted.target.clone(),
        ]);
    }
    let more = page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --after {next}"));
    View::from(table).then(format!("{} actions{more}", page.items.len()))
}
