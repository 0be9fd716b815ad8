//! `dead list`: a page of dead letters. Of a payload, only the size is shown.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::{EntryId, QueueName, Timestamp};
use streamfleet::{Broker, Queue, Shutdown};
use streamfleet_engine::admin::{DeadLetter, Filter, Match};

use super::Letters;
use crate::Context;
use crate::exit::Exit;
use crate::output::{self, Column, List, Listing, Repeat, View, harmless};
use crate::queues;
use crate::times::{rfc3339, short};

/// How many letters are read at once; a filter may need many such reads.
const READ: u64 = 100;

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
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
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

/// A page of letters, for JSON output. `next` is the value of `--after` for the next page.
pub(crate) type Page = List<Letter, Facts>;

/// What is known about all letters, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetterFacts)]
pub(crate) struct Facts {
    queue: String,
    /// How many letters the queue has, regardless of the filter.
    total: u64,
    /// How many letters of this page are left out because the filter cannot read their payloads.
    undecided: u64,
    /// True if the search was interrupted before it found enough; `next` goes on where it ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

/// Which letters to list.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) filter: Filter,
    pub(crate) limit: u64,
    pub(crate) after: Option<EntryId>,
    pub(crate) oldest_first: bool,
}

/// One letter, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetter)]
pub(crate) struct Letter {
    pub(super) letter: String,
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) job_type: String,
    pub(super) reason: String,
    /// The kind of the last failure; empty in letters of older versions.
    pub(super) kind: String,
    pub(super) error: String,
    pub(super) attempts: u64,
    pub(super) died: String,
    pub(super) died_ms: u64,
    pub(super) first_failed: Option<String>,
    pub(super) first_failed_ms: Option<u64>,
    pub(super) worker: String,
    pub(super) lane: String,
    pub(super) replays: u64,
    pub(super) fingerprint: String,
    pub(super) payload_bytes: usize,
    #[serde(skip)]
    pub(super) died_at: Timestamp,
}

/// Lists the letters.
pub(super) async fn run(
    args: Args,
    broker: &Broker,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let (queue, filter) = (broker.queue(queue), args.letters.filter(&context.clock)?);
    let Args { limit, after, oldest_first, repeat, .. } = args;
    let wanted = Wanted { filter, limit, after, oldest_first };
    let look = async || list(&wanted, (broker, &queue), context).await;
    repeat.run(context.output, look).await
}

async fn list(
    wanted: &Wanted,
    (broker, queue): (&Broker, &Queue),
    context: &Context,
) -> anyhow::Result<Listing> {
    let (page, now) = page(wanted, queue, &context.shutdown).await?;
    if page.facts.total == 0 && queues::report_unknown(broker, queue.name(), context).await {
        return Ok(Listing::not_found());
    }
    let page = Page { former: Some("letters"), ..page };
    let names = |page: &Page| page.items.iter().map(|letter| letter.letter.clone()).collect();
    let text = context.output.rendered(&page, names, |page| show(page, &wanted.filter, now))?;
    let listing = Listing::new(text);
    Ok(match page.facts.undecided {
        0 => listing,
        count => listing
            .remark(format!("{count} dead letters are left out: the filter cannot read their payloads")),
    })
}

/// The letters of one page.
#[derive(Default)]
struct Found {
    letters: Vec<Letter>,
    /// Where the next page begins, if there may be more.
    next: Option<EntryId>,
    undecided: u64,
    interrupted: bool,
}

/// Reads a page of letters, and the time. When the shutdown is requested, it returns what it has found so far.
pub(crate) async fn page(
    wanted: &Wanted,
    queue: &Queue,
    stop: &Shutdown,
) -> anyhow::Result<(Page, Timestamp)> {
    let snapshot = queue.snapshot().await.context("failed to count the dead letters")?;
    let Found { letters, next, undecided, interrupted } = find(wanted, snapshot.now, queue, stop).await?;
    let facts = Facts { queue: queue.name().to_string(), total: snapshot.dead, undecided, interrupted };
    let next = next.map(|letter| letter.to_string());
    Ok((Page { items: letters, next, facts, former: None }, snapshot.now))
}

async fn find(wanted: &Wanted, now: Timestamp, queue: &Queue, stop: &Shutdown) -> anyhow::Result<Found> {
    let most = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
    let (mut found, mut at, mut last) = (Found::default(), wanted.after, None);
    // Those after the last letter shown belong to the next page.
    let mut undecided = 0;
    let dead = queue.dead_letters().wanting(&wanted.filter, now);
    loop {
        let read = if wanted.oldest_first { dead.later(at, READ).await } else { dead.recent(at, READ).await };
        let read = read.context("failed to read the dead letters")?;
        let is_last = read.is_empty();
        at = read.last().map(|letter| letter.entry).or(at);
        for dead in &read {
            match dead.check(&wanted.filter, now) {
                Match::Yes if found.letters.len() == most => return Ok(Found { next: last, ..found }),
                Match::Yes => {
                    last = Some(dead.entry);
                    found.letters.push(letter(dead));
                    found.undecided += std::mem::take(&mut undecided);
                }
                Match::No => {}
                Match::TooLarge | Match::Unreadable => undecided += 1,
            }
        }
        found.interrupted = !is_last && stop.is_requested();
        if is_last || found.interrupted {
            found.undecided += undecided;
            found.next = at.filter(|_| found.interrupted);
            return Ok(found);
        }
    }
}

/// Converts a letter for JSON output.
pub(super) fn letter(dead: &DeadLetter) -> Letter {
    let count = |name: &str| dead.text(name).parse::<u64>().ok();
    let instant = |ms: Option<u64>| ms.and_then(Timestamp::from_ms);
    let died_at = instant(count("dead_at_ms").or(Some(dead.entry.ms))).unwrap_or(Timestamp::MAX);
    let first_failed = instant(count("dead_first_failed_ms"));
    Letter {
        letter: dead.entry.to_string(),
        id: dead.job().to_string(),
        job_type: dead.text("type"),
        reason: dead.text("dead_reason"),
        kind: dead.text("dead_kind"),
        error: dead.text("dead_error"),
        attempts: count("dead_attempts").unwrap_or(0),
        died: rfc3339(died_at),
        died_ms: died_at.as_ms(),
        first_failed: first_failed.map(rfc3339),
        first_failed_ms: first_failed.map(Timestamp::as_ms),
        worker: dead.text("dead_worker"),
        lane: dead.text("dead_origin"),
        replays: count("replays").unwrap_or(0),
        fingerprint: dead.text("dead_fingerprint"),
        payload_bytes: dead.fields.get(b"payload").map_or(0, <[u8]>::len),
        died_at,
    }
}

fn show(page: &Page, filter: &Filter, now: Timestamp) -> View {
    let Facts { queue, total, .. } = &page.facts;
    if page.items.is_empty() {
        let which = if filter.is_empty() { "" } else { ", but none matches the filter" };
        return format!("the queue {queue} has {total} dead letters{which}").into();
    }
    let mut table = output::table(&[
        Column::id("letter"),
        Column::wide("job"),
        Column::from("type"),
        Column::from("reason"),
        Column::wide("kind"),
        Column::wide("attempts"),
        Column::from("died"),
        Column::from("error"),
    ]);
    for letter in &page.items {
        table.add_row([
            letter.letter.clone(),
            harmless(&letter.id),
            harmless(&letter.job_type),
            harmless(&letter.reason),
            harmless(&letter.kind),
            letter.attempts.to_string(),
            format!("{} ago", short(now.since(letter.died_at))),
            harmless(&letter.error),
        ]);
    }
    let more = page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --after {next}"));
    View::from(table).then(format!("{} of {total} dead letters{more}", page.items.len()))
}
