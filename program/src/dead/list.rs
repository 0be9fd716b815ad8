//! `dead list`: a page of dead letters. Of a payload, only the size is shown.

use streamfleet::job::{EntryId, QueueName, Timestamp};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::Filter;
use streamfleet_operations::dead::{self, Letter, LetterFacts, Listing as Wanted};

use super::Letters;
use crate::Context;
use crate::exit::Exit;
use crate::output::{self, Column, List, Listing, Repeat, View, harmless};
use crate::times::short;
use crate::{history, queues};

/// The most letters of a page, unless somebody says so.
const USUAL: u64 = 50;

/// How `dead list` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dead list --queue mail --dead-reason exhausted --limit 10
  streamfleet dead list --where payload.customer=9 --error refused --older-than 1h
  streamfleet dead list --type mail.send -o name | xargs -r streamfleet dead replay";

/// The arguments of `dead list`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The maximum number of dead letters.
    #[arg(long, default_value_t = USUAL, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Start after this dead letter, to get the next page.
    #[arg(long, value_name = "LETTER")]
    after: Option<EntryId>,
    /// List the oldest dead letters first.
    #[arg(long)]
    oldest_first: bool,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    letters: Letters,
}

impl Default for Args {
    fn default() -> Self {
        let (repeat, letters) = (Repeat::default(), Letters::default());
        Self { limit: USUAL, after: None, oldest_first: false, repeat, letters }
    }
}

/// A page of letters.
type Page = List<Letter, LetterFacts>;

/// Lists the letters.
pub(super) async fn run(
    args: Args,
    broker: &Broker,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let (queue, filter) = (broker.queue(queue), args.letters.filter(&context.clock)?);
    let Args { limit, after, oldest_first, repeat, .. } = args;
    let wanted = Wanted { filter, limit, after, oldest_first, task: None };
    let look = async || list(&wanted, (broker, &queue), context).await;
    repeat.run(context.output, look).await
}

async fn list(
    wanted: &Wanted,
    (broker, queue): (&Broker, &Queue),
    context: &Context,
) -> anyhow::Result<Listing> {
    let (page, now) = dead::list(queue, wanted, &context.shutdown).await?;
    let page = Page { former: Some("letters"), ..page };
    let names = |page: &Page| page.items.iter().map(|letter| letter.letter.clone()).collect();
    let elsewhere = elsewhere(queue.name(), context);
    let show = |page: &Page| show(page, &wanted.filter, now).then(elsewhere);
    let page_of = (&page, page.facts.total == 0);
    let listing = queues::listing(page_of, (broker, queue), context, (names, show)).await?;
    Ok(match page.facts.undecided {
        0 => listing,
        count => {
            let count = output::counted(count, "dead letter is left out", "dead letters are left out");
            listing.remark(format!("{count}: the filter cannot read their payloads"))
        }
    })
}

/// Where the letters are that Redis does not have any more.
fn elsewhere(queue: &QueueName, context: &Context) -> Option<String> {
    let old = super::limits(queue, &context.effective).retention;
    let old = old.map_or_else(String::new, |age| format!(", and those older than {},", short(age)));
    let which = format!("letters that were replayed or dropped{old}");
    history::elsewhere(&which, &format!("list --queue {queue} --state dead"), context)
}

fn show(page: &Page, filter: &Filter, now: Timestamp) -> View {
    let LetterFacts { queue, total, .. } = &page.facts;
    if page.items.is_empty() {
        let which = if filter.is_empty() { "" } else { ", but none matches the filter" };
        let total = output::counted(*total, "dead letter", "dead letters");
        return format!("the queue {queue} has {total}{which}").into();
    }
    let table = output::table_of(
        &page.items,
        &[
            (Column::id("letter"), &|letter| letter.letter.clone()),
            (Column::wide("job"), &|letter| harmless(&letter.id)),
            (Column::from("type"), &|letter| harmless(&letter.job_type)),
            (Column::from("reason"), &|letter| harmless(&letter.reason)),
            (Column::wide("kind"), &|letter| harmless(&letter.kind)),
            (Column::wide("attempts"), &|letter| letter.attempts.to_string()),
            (Column::from("died"), &|letter| format!("{} ago", short(now.since(letter.died_ms.into())))),
            (Column::from("error"), &|letter| harmless(&letter.error)),
        ],
    );
    let more = page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --after {next}"));
    View::from(table).then(format!("{} of {total} dead letters{more}", page.items.len()))
}
