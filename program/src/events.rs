//! `streamfleet events`: the events of a queue's jobs, and, with `--follow`, new ones as they happen.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Map, Value};
use streamfleet::Queue;
use streamfleet::job::{EntryId, QueueName};
use streamfleet_engine::admin::PastEvent;

use super::exit::Exit;
use super::output::{self, List, harmless};
use super::times::{Clock, rfc3339};
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

/// A page of events, for JSON output. `next` is the value of `--after` for the next page, now or later.
pub(crate) type Page = List<Report, Facts>;

/// What is known about all events, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EventFacts)]
pub(crate) struct Facts {
    queue: String,
}

/// One event, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Event)]
pub(crate) struct Report {
    entry: String,
    at: String,
    at_ms: u64,
    /// The fields of the event; see docs/hooks.md.
    #[serde(flatten)]
    facts: Map<String, Value>,
    /// The same for people.
    #[serde(skip)]
    line: String,
}

/// Lists or follows events.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    let events = match args.after {
        Some(_) => queue.events().page(args.after, args.limit).await,
        None => queue.events().last(args.limit).await,
    };
    let events = events.context("failed to read the events")?;
    let is_unknown = events.is_empty() && queues::report_unknown(&broker, queue.name(), context).await;
    // Those who follow may wait for the first event.
    if is_unknown && !args.follow {
        return Ok(Exit::NotFound);
    }
    let last = events.last().map(|event| event.entry).or(args.after);
    if args.follow {
        if print_events(context, &events)? {
            follow(&queue, last, context).await?;
        }
        return Ok(Exit::Done);
    }
    let page = Page {
        next: last.map(|entry| entry.to_string()),
        items: events.iter().map(|event| report(event, &context.clock)).collect(),
        facts: Facts { queue: queue.name().to_string() },
        former: Some("events"),
    };
    let names = |page: &Page| page.items.iter().map(|event| event.entry.clone()).collect();
    context.output.print_named(&page, names, show)?;
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
        if !print_events(context, &events)? {
            return Ok(());
        }
        last = events.last().map(|event| event.entry).or(last);
        if (events.len() as u64) < PAGE {
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

/// Prints one line per event. Returns false once the reader is gone.
fn print_events(context: &Context, events: &[PastEvent]) -> anyhow::Result<bool> {
    for event in events {
        let report = report(event, &context.clock);
        let text = if context.output.is_json() { output::json_line(&report)? } else { report.line };
        if !context.output.print_while_read(&text)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Describes an event.
pub(crate) fn report(event: &PastEvent, clock: &Clock) -> Report {
    let facts = event.fields.fields().map(|(name, value)| {
        let (name, text) = (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value));
        let count = is_count(&name).then(|| text.parse::<u64>().ok()).flatten();
        let value = count.map_or_else(|| Value::from(text.into_owned()), Value::from);
        (name, value)
    });
    Report {
        entry: event.entry.to_string(),
        at: rfc3339(event.at()),
        at_ms: event.entry.ms,
        facts: facts.collect(),
        line: line(event, clock),
    }
}

fn is_count(name: &str) -> bool {
    name.ends_with("_ms") || matches!(name, "attempt" | "waiting" | "running" | "delayed" | "dead")
}

/// The fields of an event, in their order.
fn line(event: &PastEvent, clock: &Clock) -> String {
    let facts = event.fields.fields().filter(|(name, _)| *name != b"event");
    let facts = facts
        .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
    let (at, name) = (clock.precise(event.at()), event.text("event").unwrap_or_default());
    harmless(&format!("{at} {name:<14} {}", facts.collect::<Vec<_>>().join(" ")))
}

fn show(page: &Page) -> String {
    if page.items.is_empty() {
        return format!(
            "no events of the queue {} are stored; workers publish the events that events.publish in their configuration names",
            page.facts.queue
        );
    }
    let lines: Vec<_> = page.items.iter().map(|report| report.line.as_str()).collect();
    let next = page.next.as_deref().unwrap_or_default();
    format!("{}\nnext page: --after {next}", lines.join("\n"))
}
