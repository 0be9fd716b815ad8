//! `streamfleet queues`: how many jobs each queue has, and in which state. `purge` empties one, `delete` deletes one.

mod delete;
mod purge;
mod unknown;
mod unserved;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use streamfleet::job::{EntryId, Lane, QueueName, Timestamp};
use streamfleet::{Broker, Queue, RedisError};
use streamfleet_engine::admin::{LaneSnapshot, Listed, Part, QueueSnapshot, Unread};
use streamfleet_operations::outlook::{CauseReport, EmptyIn, outlook};

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View, harmless};
use super::times::{Clock, rfc3339, short};
use unknown::report_unless_known;
pub(crate) use unknown::{report_before_change, report_unknown};
pub(crate) use unserved::{UnservedReport, unserved_types};

/// How many queues are read at once.
const AT_ONCE: usize = 16;

/// How `queues` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet queues
  streamfleet queues mail --watch=5s
  streamfleet queues --memory
  streamfleet queues -o json | jq '.items[] | select(.dead > 0) | .queue'";

/// The arguments of `queues`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Only these queues. Default: every queue of the namespace.
    names: Vec<QueueName>,
    /// Scripts may still give it. When a queue is empty is always shown.
    #[arg(long = "rate", hide = true, value_name = "DURATION", num_args = 0..=1, require_equals = true)]
    _rate: Option<String>,
    /// Estimate how much memory the lanes, the delayed jobs and the dead letters take.
    #[arg(long)]
    memory: bool,
    #[command(flatten)]
    repeat: Repeat,
}

/// What to do with a queue instead of counting its jobs.
#[derive(clap::Subcommand)]
enum What {
    /// Cancel the waiting or delayed jobs of a queue, or drop its dead letters.
    Purge(purge::Args),
    /// Delete a queue that nobody uses, with everything that Redis has of it.
    Delete(delete::Args),
}

impl Args {
    /// Whether a signal stops it gracefully.
    pub(crate) fn serves(&self) -> bool {
        self.what.is_some()
    }
}

/// One queue, for JSON output. A count is missing if its key cannot be read.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Queue)]
pub(crate) struct Report {
    pub(crate) queue: String,
    waiting: Option<u64>,
    running: Option<u64>,
    delayed: Option<u64>,
    dead: Option<u64>,
    /// Those of the waiting ones that a gate does not let pass.
    in_rooms: Option<u64>,
    /// Those that wait for the turn of their value; missing if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_fair_rooms: Option<u64>,
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
    /// How long a job may wait by the configuration of the console; missing on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) objective_ms: Option<u64>,
    consumers: Option<usize>,
    leader: Option<String>,
    /// When it is empty; absent if that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    empty_in: Option<EmptyIn>,
    /// The worst cause for which its jobs wait; absent if there is none, or if that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<CauseReport>,
    /// How much memory it takes, if that was asked for and Redis tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_error: Option<String>,
    /// The types of waiting jobs that no live worker knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unserved_types: Vec<UnservedReport>,
    /// The keys that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<UnreadKey>)]
    unread: Vec<Unread>,
    /// Why the queue cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    due: Option<(Timestamp, Timestamp)>,
}

/// One lane, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = QueueLane)]
struct LaneReport {
    lane: &'static str,
    waiting: Option<u64>,
    running: Option<u64>,
    /// How long its oldest job has waited in it; null if none waits.
    oldest_waiting_age_ms: Option<u64>,
}

/// A key that cannot be read, and why: what [`Unread`] looks like in JSON.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "it only describes a type of the library")]
struct UnreadKey {
    key: String,
    error: String,
}

/// Counts the jobs of the queues, or empties or deletes one.
pub(crate) async fn run(mut args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.what.take() {
        Some(What::Purge(args)) => return purge::run(args, context).await,
        Some(What::Delete(args)) => return delete::run(args, context).await,
        None => {}
    }
    let broker = context.broker().await?;
    args.repeat.run(context.output, async || list(&broker, &args, context).await).await
}

/// Queues that are shown again and again.
pub(crate) struct Watched(Args);

impl Watched {
    /// Watches these queues, or every queue of the namespace.
    pub(crate) fn new(names: Vec<QueueName>) -> Self {
        Self(Args { what: None, names, _rate: None, memory: false, repeat: Repeat::default() })
    }

    /// The names that were given.
    pub(crate) fn names(&self) -> &[QueueName] {
        &self.0.names
    }

    /// Lists them.
    pub(crate) async fn list(&self, broker: &Broker, context: &Context) -> anyhow::Result<Listing> {
        list(broker, &self.0, context).await
    }
}

async fn list(broker: &Broker, args: &Args, context: &Context) -> anyhow::Result<Listing> {
    let named = &args.names[..];
    let listed = broker.queues().await.context("failed to list the queues")?;
    if named.iter().any(|name| report_unless_known(broker, name, &listed, context)) {
        return Ok(Listing::not_found());
    }
    let Listed { found: known, missing } = listed;
    let names = if named.is_empty() { known } else { named.to_vec() };
    let reports = reports(broker, names, args.memory).await;
    let failed = !reports.is_empty() && reports.iter().all(|report| report.error.is_some());
    let names = |list: &List<Report>| list.items.iter().map(|report| report.queue.clone()).collect();
    let show = |list: &List<Report>| show(&list.items, broker, &context.clock);
    let text = context.output.rendered(&List::from(reports), names, show)?;
    let listing = Listing::new(text).without(&missing);
    Ok(if failed { listing.exit(Exit::Redis) } else { listing })
}

/// Counts the jobs of these queues. A queue that cannot be read does not hide the others.
pub(crate) async fn reports(broker: &Broker, names: Vec<QueueName>, with_memory: bool) -> Vec<Report> {
    let queues: Vec<Queue> = names.into_iter().map(|name| broker.queue(name)).collect();
    stream::iter(queues).map(|queue| read_queue(queue, with_memory)).buffered(AT_ONCE).collect().await
}

/// Counts the jobs of one queue.
pub(crate) async fn read_queue(queue: Queue, with_memory: bool) -> Report {
    let looking = async {
        let snapshot = queue.snapshot().await?;
        let consumers = consumers(&queue, &snapshot.unread).await?;
        let unserved_types = unserved_types(&queue).await;
        let (empty_in, cause) = outlook(&queue, &snapshot).await;
        Ok(Report { unserved_types, empty_in, cause, ..report(&queue, &snapshot, consumers.len()) })
    };
    let mut report = looking.await.unwrap_or_else(|error| unknown(&queue, &error));
    if with_memory && report.error.is_none() {
        match queue.memory().await {
            Ok(bytes) => report.memory_bytes = Some(bytes),
            Err(error) => report.memory_error = Some(queue.with_keys(&error)),
        }
    }
    report
}

impl Report {
    /// Returns true if the queue has no jobs and nobody serves it, as far as is known.
    pub(crate) fn is_empty(&self) -> bool {
        let counts = [self.waiting, self.running, self.delayed, self.dead];
        counts.iter().all(|count| *count == Some(0)) && self.consumers == Some(0) && self.leader.is_none()
    }
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
    let age_ms = |entry: EntryId| snapshot.now.as_ms().saturating_sub(entry.ms);
    let (oldest, age) = (snapshot.oldest_entry().map(instant), snapshot.oldest_waiting());
    let is_known = |part: Part| !Unread::is_among(part, &snapshot.unread);
    let lane = |(lane, figures): (Lane, &LaneSnapshot)| {
        let known = Some(figures).filter(|_| is_known(Part::Lane(lane)));
        LaneReport {
            lane: lane.as_str(),
            waiting: known.map(|figures| figures.waiting),
            running: known.map(|figures| figures.running),
            oldest_waiting_age_ms: known.and_then(|figures| figures.oldest_waiting).map(age_ms),
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
        in_fair_rooms: Some(snapshot.in_fair_rooms).filter(|jobs| *jobs > 0),
        paused_since: snapshot.closed_since.map(rfc3339),
        paused_since_ms: snapshot.closed_since.map(|time| time.as_ms()),
        backlog: snapshot.uncounted().next().is_none().then(|| snapshot.jobs()),
        lanes: Lane::ALL.into_iter().zip(&snapshot.lanes).map(lane).collect(),
        next_due: snapshot.next_due.map(rfc3339),
        next_due_ms: snapshot.next_due.map(|time| time.as_ms()),
        oldest_waiting: oldest.map(rfc3339),
        oldest_waiting_ms: oldest.map(|time| time.as_ms()),
        oldest_waiting_age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        objective_ms: None,
        consumers: Some(consumers),
        leader: snapshot.leader.clone(),
        empty_in: None,
        cause: None,
        memory_bytes: None,
        memory_error: None,
        unserved_types: Vec::new(),
        unread: snapshot.unread.clone(),
        error: None,
        due: snapshot.next_due.map(|due| (due, snapshot.now)),
    }
}

/// The report on a queue that cannot be read, with the reason.
fn unknown(queue: &Queue, error: &RedisError) -> Report {
    let unknown = |lane: Lane| {
        let (waiting, running, oldest_waiting_age_ms) = (None, None, None);
        LaneReport { lane: lane.as_str(), waiting, running, oldest_waiting_age_ms }
    };
    Report {
        queue: queue.name().to_string(),
        waiting: None,
        running: None,
        delayed: None,
        dead: None,
        in_rooms: None,
        in_fair_rooms: None,
        paused_since: None,
        paused_since_ms: None,
        backlog: None,
        lanes: Lane::ALL.into_iter().map(unknown).collect(),
        next_due: None,
        next_due_ms: None,
        oldest_waiting: None,
        oldest_waiting_ms: None,
        oldest_waiting_age_ms: None,
        objective_ms: None,
        consumers: None,
        leader: None,
        empty_in: None,
        cause: None,
        memory_bytes: None,
        memory_error: None,
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
    let has_memory =
        reports.iter().any(|report| report.memory_bytes.is_some() || report.memory_error.is_some());
    let mut columns = vec![
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
        Column::from("empty in"),
    ];
    columns.extend(has_memory.then(|| Column::from("memory")));
    columns.push(Column::wide("leader"));
    let mut table = output::table(&columns);
    for report in reports {
        let lanes = |count: fn(&LaneReport) -> Option<u64>| {
            report.lanes.iter().map(|lane| figure(count(lane))).collect::<Vec<_>>().join("/")
        };
        let mut cells = vec![
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
                .map_or_else(|| "-".to_owned(), |age| short(Duration::from_millis(age))),
            figure(report.consumers.map(|count| count as u64)),
            report.empty_in.map_or_else(|| "?".to_owned(), EmptyIn::shown),
        ];
        cells.extend(has_memory.then(|| report.memory_bytes.map_or_else(|| "?".to_owned(), size)));
        cells.push(report.leader.as_deref().map_or_else(|| "-".to_owned(), harmless));
        table.add_row(cells);
    }
    remarks(View::from(table), reports)
}

/// Adds what the table does not say.
fn remarks(mut view: View, reports: &[Report]) -> View {
    for (queue, unserved) in
        reports.iter().flat_map(|report| report.unserved_types.iter().map(move |of| (&report.queue, of)))
    {
        let UnservedReport { job_type, jobs, did_you_mean, .. } = unserved;
        let hint = did_you_mean.as_ref().map_or_else(String::new, |near| format!("; did you mean {near}?"));
        let count = if *jobs == 1 { "1 job waits".to_owned() } else { format!("{jobs} jobs wait") };
        view = view
            .then(format!("{count} in the queue {queue}: no live worker knows the type {job_type}{hint}"));
    }
    // The lines above name the types that no worker serves.
    let others = |report: &Report| report.cause.clone().filter(|cause| cause.kind != "unserved_type");
    for (queue, cause) in reports.iter().filter_map(|report| Some((&report.queue, others(report)?))) {
        view = view.then(format!("{queue}: {}", harmless(&cause.text)));
    }
    for (report, jobs) in reports.iter().filter_map(|report| Some((report, report.in_fair_rooms?))) {
        view = view.then(format!("{}: jobs that wait for the turn of their value: {jobs}", report.queue));
    }
    for unread in reports.iter().flat_map(|report| &report.unread) {
        view = view.then(unread.to_string());
    }
    for (queue, error) in
        reports.iter().filter_map(|report| Some((&report.queue, report.memory_error.as_ref()?)))
    {
        view = view.then(format!("the memory of the queue {queue} is not known: {error}"));
    }
    for (queue, error) in reports.iter().filter_map(|report| Some((&report.queue, report.error.as_ref()?))) {
        view = view.then(format!("failed to read the queue {queue}: {error}"));
    }
    view
}

/// A number of bytes: `512B`, `1.5KiB`, `12MiB`.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes}B");
    };
    let tenths = (bytes >> (shift - 10)).saturating_mul(10) >> 10;
    if tenths < 100 {
        format!("{}.{}{unit}", tenths / 10, tenths % 10)
    } else {
        format!("{}{unit}", tenths / 10)
    }
}

/// A count, or `?` if it is not known.
fn figure(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits_at_least() {
        let sizes = [0, 512, 1024, 1536, 10 << 10, 5 << 20, (5 << 20) + (1 << 19), 900 << 30].map(size);
        assert_eq!(sizes, ["0B", "512B", "1.0KiB", "1.5KiB", "10KiB", "5.0MiB", "5.5MiB", "900GiB"]);
    }
}
