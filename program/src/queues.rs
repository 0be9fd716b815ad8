//! `streamfleet queues`: how many jobs each queue has, and in which state.

use std::collections::BTreeSet;

use anyhow::Context as _;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use streamfleet::admin::{LaneSnapshot, Listed, Part, QueueSnapshot, UnknownType, Unread};
use streamfleet::config::nearest;
use streamfleet::job::{EntryId, JobType, Lane, QueueName, Timestamp};
use streamfleet::{Broker, Queue, RedisError};

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View, harmless};
use super::times::{Clock, rfc3339, short};

/// How many queues are read at once.
const AT_ONCE: usize = 16;

/// The most types of one queue that are named because no live worker knows them.
const MAX_TYPES: usize = 100;

/// How `queues` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet queues
  streamfleet queues mail --watch=5s
  streamfleet queues -o json | jq '.items[] | select(.dead > 0) | .queue'";

/// The arguments of `queues`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these queues. Default: every queue of the namespace.
    names: Vec<QueueName>,
    #[command(flatten)]
    repeat: Repeat,
}

/// One queue, for JSON output. A count is missing if its key cannot be read.
#[derive(Serialize)]
struct Report {
    queue: String,
    waiting: Option<u64>,
    running: Option<u64>,
    delayed: Option<u64>,
    dead: Option<u64>,
    /// Those of the waiting ones that a gate does not let pass.
    in_rooms: Option<u64>,
    /// Since when the queue is paused.
    paused_since: Option<String>,
    paused_since_ms: Option<u64>,
    /// Waiting, running, or due within a minute.
    backlog: Option<u64>,
    lanes: Vec<LaneReport>,
    next_due: Option<String>,
    next_due_ms: Option<u64>,
    oldest_waiting: Option<String>,
    oldest_waiting_ms: Option<u64>,
    oldest_waiting_age_ms: Option<u64>,
    consumers: Option<usize>,
    leader: Option<String>,
    /// The types of waiting jobs that no live worker knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unserved_types: Vec<UnservedReport>,
    /// The keys that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Unread>,
    /// Why the queue cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    due: Option<(Timestamp, Timestamp)>,
}

/// One lane, for JSON output.
#[derive(Serialize)]
struct LaneReport {
    lane: &'static str,
    waiting: Option<u64>,
    running: Option<u64>,
}

/// A type whose jobs wait because no live worker knows it, for JSON output.
#[derive(Serialize)]
struct UnservedReport {
    #[serde(rename = "type")]
    job_type: String,
    jobs: u64,
    unserved_for_ms: u64,
    /// A similar type that a live worker knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    did_you_mean: Option<String>,
}

/// Counts the jobs of the queues.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    args.repeat.run(context.output, async || list(&broker, &args.names, context).await).await
}

async fn list(broker: &Broker, named: &[QueueName], context: &Context) -> anyhow::Result<Listing> {
    let listed = broker.queues().await.context("failed to list the queues")?;
    if named.iter().any(|name| report_unless_known(broker, name, &listed, context)) {
        return Ok(Listing::not_found());
    }
    let Listed { found: known, missing } = listed;
    let names = if named.is_empty() { known } else { named.to_vec() };
    // A queue that cannot be read does not hide the others.
    let reading = stream::iter(names).map(|name| read_queue(broker.queue(name))).buffered(AT_ONCE);
    let reports: Vec<Report> = reading.collect().await;
    let failed = !reports.is_empty() && reports.iter().all(|report| report.error.is_some());
    let names = |list: &List<Report>| list.items.iter().map(|report| report.queue.clone()).collect();
    let show = |list: &List<Report>| show(&list.items, broker, &context.clock);
    let text = context.output.rendered(&List::from(reports), names, show)?;
    let listing = Listing::new(text).without(&missing);
    Ok(if failed { listing.exit(Exit::Redis) } else { listing })
}

/// Counts the jobs of one queue.
async fn read_queue(queue: Queue) -> Report {
    let looking = async {
        let snapshot = queue.snapshot().await?;
        let consumers = consumers(&queue, &snapshot.unread).await?;
        let unserved_types = unserved_types(&queue).await;
        Ok(Report { unserved_types, ..report(&queue, &snapshot, consumers.len()) })
    };
    looking.await.unwrap_or_else(|error| unknown(&queue, &error))
}

/// The types of waiting jobs that no live worker knows, at most [`MAX_TYPES`]. Without the right to ask, nothing is shown.
async fn unserved_types(queue: &Queue) -> Vec<UnservedReport> {
    let unknown = queue.unknown_types(MAX_TYPES).await.unwrap_or_default();
    if unknown.iter().all(|unknown| unknown.unserved_for.is_none()) {
        return Vec::new();
    }
    let known = queue.known_types().await.ok().flatten().unwrap_or_default();
    let report = |unknown: UnknownType| {
        let unserved_for = unknown.unserved_for.filter(|_| unknown.jobs > 0)?;
        let near = nearest(unknown.job_type.as_str(), known.iter().map(JobType::as_str));
        Some(UnservedReport {
            job_type: unknown.job_type.to_string(),
            jobs: unknown.jobs,
            unserved_for_ms: u64::try_from(unserved_for.as_millis()).unwrap_or(u64::MAX),
            did_you_mean: near.map(str::to_owned),
        })
    };
    unknown.into_iter().filter_map(report).collect()
}

/// Reports that a queue does not exist, and returns true, if that is so. If the login may not list queues, nobody knows.
pub(super) async fn report_unknown(broker: &Broker, name: &QueueName, context: &Context) -> bool {
    let listed = broker.queues().await;
    listed.is_ok_and(|listed| report_unless_known(broker, name, &listed, context))
}

/// Does the same for queues that have been listed. A queue exists if Redis has a key of it, or if the configuration names
/// it.
fn report_unless_known(
    broker: &Broker,
    name: &QueueName,
    listed: &Listed<QueueName>,
    context: &Context,
) -> bool {
    let Listed { found: known, missing } = listed;
    // An unknown queue may be on a server that could not be asked.
    let may_exist = !missing.is_empty() || context.effective.config.queues.contains_key(name);
    if may_exist || known.contains(name) {
        return false;
    }
    let near = nearest(name.as_str(), known.iter().map(QueueName::as_str));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    let known = if known.is_empty() { "none".to_owned() } else { output::listed(known) };
    let (namespace, address) = (broker.namespace(), broker.shown());
    output::print_stderr(&format!(
        "the namespace {namespace} at {address} has no queue {name}; it has: {known}{hint}"
    ));
    true
}

/// The names of the members of a queue's groups.
async fn consumers(queue: &Queue, unread: &[Unread]) -> Result<BTreeSet<String>, RedisError> {
    let mut names = BTreeSet::new();
    for lane in Lane::ALL.into_iter().filter(|lane| !Unread::is_among(Part::Lane(*lane), unread)) {
        let members = queue.consumers(lane).await?;
        names.extend(members.into_iter().map(|consumer| consumer.name));
    }
    Ok(names)
}

fn report(queue: &Queue, snapshot: &QueueSnapshot, consumers: usize) -> Report {
    let instant = |entry: EntryId| Timestamp::from_ms(entry.ms).unwrap_or(Timestamp::MAX);
    let oldest = snapshot.lanes.iter().filter_map(|lane| lane.oldest_waiting).min().map(instant);
    let age = oldest.map(|oldest| snapshot.now.since(oldest));
    let is_known = |part: Part| !Unread::is_among(part, &snapshot.unread);
    let lane = |(lane, figures): (Lane, &LaneSnapshot)| {
        let known = Some(figures).filter(|_| is_known(Part::Lane(lane)));
        LaneReport {
            lane: lane.as_str(),
            waiting: known.map(|figures| figures.waiting),
            running: known.map(|figures| figures.running),
        }
    };
    // If a part of a sum is missing, so is the sum.
    let lanes = Lane::ALL.into_iter().all(|lane| is_known(Part::Lane(lane)));
    Report {
        queue: queue.name().to_string(),
        waiting: lanes.then(|| snapshot.waiting()),
        running: lanes.then(|| snapshot.running()),
        delayed: is_known(Part::Delayed).then_some(snapshot.delayed),
        dead: is_known(Part::Dead).then_some(snapshot.dead),
        in_rooms: is_known(Part::Rooms).then_some(snapshot.in_rooms),
        paused_since: snapshot.closed_since.map(rfc3339),
        paused_since_ms: snapshot.closed_since.map(|time| time.as_ms()),
        backlog: snapshot.uncounted().next().is_none().then(|| snapshot.jobs()),
        lanes: Lane::ALL.into_iter().zip(&snapshot.lanes).map(lane).collect(),
        next_due: snapshot.next_due.map(rfc3339),
        next_due_ms: snapshot.next_due.map(|time| time.as_ms()),
        oldest_waiting: oldest.map(rfc3339),
        oldest_waiting_ms: oldest.map(|time| time.as_ms()),
        oldest_waiting_age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        consumers: Some(consumers),
        leader: snapshot.leader.clone(),
        unserved_types: Vec::new(),
        unread: snapshot.unread.clone(),
        error: None,
        due: snapshot.next_due.map(|due| (due, snapshot.now)),
    }
}

/// The report on a queue that cannot be read, with the reason.
fn unknown(queue: &Queue, error: &RedisError) -> Report {
    let unknown = |lane: Lane| LaneReport { lane: lane.as_str(), waiting: None, running: None };
    Report {
        queue: queue.name().to_string(),
        waiting: None,
        running: None,
        delayed: None,
        dead: None,
        in_rooms: None,
        paused_since: None,
        paused_since_ms: None,
        backlog: None,
        lanes: Lane::ALL.into_iter().map(unknown).collect(),
        next_due: None,
        next_due_ms: None,
        oldest_waiting: None,
        oldest_waiting_ms: None,
        oldest_waiting_age_ms: None,
        consumers: None,
        leader: None,
        unserved_types: Vec::new(),
        unread: Vec::new(),
        error: Some(queue.with_keys(error)),
        due: None,
    }
}

fn show(reports: &[Report], broker: &Broker, clock: &Clock) -> View {
    if reports.is_empty() {
        let none = format!("the namespace {} at {} has no queues yet", broker.namespace(), broker.shown());
        return none.into();
    }
    let mut table = output::table(&[
        Column::from("queue"),
        Column::from("waiting"),
        Column::wide("high/normal/low"),
        Column::from("running"),
        Column::wide("high/normal/low"),
        Column::from("delayed"),
        Column::wide("next due"),
        Column::from("dead"),
        Column::from("oldest"),
        Column::from("consumers"),
        Column::wide("leader"),
    ]);
    for report in reports {
        let lanes = |count: fn(&LaneReport) -> Option<u64>| {
            report.lanes.iter().map(|lane| figure(count(lane))).collect::<Vec<_>>().join("/")
        };
        table.add_row([
            report.queue.clone(),
            figure(report.waiting),
            lanes(|lane| lane.waiting),
            figure(report.running),
            lanes(|lane| lane.running),
            figure(report.delayed),
            report.due.map_or_else(|| "-".to_owned(), |(due, now)| clock.with_age(due, now)),
            figure(report.dead),
            report
                .oldest_waiting_age_ms
                .map_or_else(|| "-".to_owned(), |age| short(std::time::Duration::from_millis(age))),
            figure(report.consumers.map(|count| count as u64)),
            report.leader.as_deref().map_or_else(|| "-".to_owned(), harmless),
        ]);
    }
    let mut view = View::from(table);
    for (queue, unserved) in
        reports.iter().flat_map(|report| report.unserved_types.iter().map(move |of| (&report.queue, of)))
    {
        let UnservedReport { job_type, jobs, did_you_mean, .. } = unserved;
        let hint = did_you_mean.as_ref().map_or_else(String::new, |near| format!("; did you mean {near}?"));
        let count = if *jobs == 1 { "1 job waits".to_owned() } else { format!("{jobs} jobs wait") };
        view = view
            .then(format!("{count} in the queue {queue}: no live worker knows the type {job_type}{hint}"));
    }
    for report in reports {
        if let Some(since) = report.paused_since_ms.and_then(Timestamp::from_ms) {
            view = view.then(format!(
                "{} is paused since {}; see `streamfleet gates list`",
                report.queue,
                clock.time(since)
            ));
        }
        if let Some(jobs) = report.in_rooms.filter(|jobs| *jobs > 0) {
            let queue = &report.queue;
            view = view.then(format!(
                "{queue}: {jobs} of the waiting jobs wait for a gate, or for a worker that knows their type; see `streamfleet gates list`"
            ));
        }
    }
    for unread in reports.iter().flat_map(|report| &report.unread) {
        view = view.then(unread.to_string());
    }
    for (queue, error) in reports.iter().filter_map(|report| Some((&report.queue, report.error.as_ref()?))) {
        view = view.then(format!("failed to read the queue {queue}: {error}"));
    }
    view
}

/// A count, or `?` if it is not known.
fn figure(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}
