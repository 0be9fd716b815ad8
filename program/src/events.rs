//! `streamfleet events`: the events of a queue's jobs, and, with `--follow`, new ones as they happen.

use std::time::Duration;

use anyhow::Context as _;
use streamfleet::Queue;
use streamfleet::job::{EntryId, QueueName};
use streamfleet_engine::admin::PastEvent;
use streamfleet_operations::events::{self, Event, Events};

use super::exit::Exit;
use super::output::{self, harmless};
use super::times::Clock;
use super::{Context, queues};

/// How often to look for new events.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// How many events are read at once while following.
const PAGE: u64 = 1000;

/// The pause before a retry while Redis is unreachable.
const PAUSE: Duration = Duration::from_secs(2);

/// How `events` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet events --queue mail --limit 10
  streamfleet events --follow -o json | jq 'select(.event == \"failed_handle\")'";

/// The arguments of `events`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// The maximum number of events; with --follow, of past events.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Start after this event, to get the next page. Default: the newest events.
    #[arg(long, value_name = "EVENT")]
    after: Option<EntryId>,
    /// Continue with new events until interrupted; with --json, one object per line.
    #[arg(long, short)]
    follow: bool,
}

/// Lists or follows events.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    let page = events::list(&queue, args.after, args.limit).await?;
    let is_unknown = page.items.is_empty() && queues::report_unknown(&broker, queue.name(), context).await;
    // Those who follow may wait for the first event.
    if is_unknown && !args.follow {
        return Ok(Exit::NotFound);
    }
    if args.follow {
        let last = page.items.last().map(|event| event.past.entry).or(args.after);
        if print_events(context, &page.items)? {
            follow(&queue, last, context).await?;
        }
        return Ok(Exit::Done);
    }
    let page = Events { former: Some("events"), ..page };
    let names = |page: &Events| page.items.iter().map(|event| event.entry.clone()).collect();
    context.output.print_named(&page, names, |page| show(page, &context.clock))?;
    Ok(Exit::Done)
}

/// Prints new events until the reader is gone.
async fn follow(queue: &Queue, mut last: Option<EntryId>, context: &Context) -> anyhow::Result<()> {
    loop {
        let events = match queue.events().page(last, PAGE).await {
            Ok(events) => events,
            Err(error) if error.is_transient() => {
                output::print_stderr(&format!("{error}; retrying"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error).context("failed to read the events"),
        };
        let events: Vec<Event> = events.into_iter().map(Event::from).collect();
        if !print_events(context, &events)? {
            return Ok(());
        }
        last = events.last().map(|event| event.past.entry).or(last);
        if (events.len() as u64) < PAGE {
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

/// Prints one line per event. Returns false once the reader is gone.
fn print_events(context: &Context, events: &[Event]) -> anyhow::Result<bool> {
    for event in events {
        let is_json = context.output.is_json();
        let text = if is_json { output::json_line(event)? } else { line(&event.past, &context.clock) };
        if !context.output.print_while_read(&text)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The fields of an event, in their order.
fn line(event: &PastEvent, clock: &Clock) -> String {
    let facts = event.fields.fields().filter(|(name, _)| *name != b"event");
    let facts = facts
        .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
    let (at, name) = (clock.precise(event.at()), event.text("event").unwrap_or_default());
    harmless(&format!("{at} {name:<14} {}", facts.collect::<Vec<_>>().join(" ")))
}

fn show(page: &Events, clock: &Clock) -> String {
    if page.items.is_empty() {
        return format!(
            "no events of the queue {} are stored; workers publish the events that events.publish in their configuration names",
            page.facts.queue
        );
    }
    let lines: Vec<_> = page.items.iter().map(|event| line(&event.past, clock)).collect();
    let next = page.next.as_deref().unwrap_or_default();
    format!("{}\nnext page: --after {next}", lines.join("\n"))
}
