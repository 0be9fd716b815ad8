//! `streamfleet queues`: how many jobs each queue has, and in which state. `purge` empties one, `delete` deletes one.

mod delete;
mod purge;
mod unknown;

use std::time::Duration;

use anyhow::Context as _;
use streamfleet::Broker;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::Listed;
use streamfleet_operations::outlook::EmptyIn;
use streamfleet_operations::queues::{self, LaneReport, QueueReport};
use streamfleet_operations::unserved::UnservedType;

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View, harmless};
use super::times::{Clock, short};
use unknown::report_unless_known;
pub(crate) use unknown::{check_before_change, listing, report_unknown};

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
    let reports = queues::list(broker, names, args.memory).await;
    let failed = !reports.is_empty() && reports.iter().all(|report| report.error.is_some());
    let names = |list: &List<QueueReport>| list.items.iter().map(|report| report.queue.clone()).collect();
    let show = |list: &List<QueueReport>| show(&list.items, broker, &context.clock);
    let text = context.output.rendered(&List::from(reports), names, show)?;
    let listing = Listing::new(text).without(&missing);
    Ok(if failed { listing.exit(Exit::Redis) } else { listing })
}

fn show(reports: &[QueueReport], broker: &Broker, clock: &Clock) -> View {
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
fn remarks(mut view: View, reports: &[QueueReport]) -> View {
    for (queue, unserved) in
        reports.iter().flat_map(|report| report.unserved_types.iter().map(move |of| (&report.queue, of)))
    {
        let UnservedType { job_type, jobs, did_you_mean, .. } = unserved;
        let hint = did_you_mean.as_ref().map_or_else(String::new, |near| format!("; did you mean {near}?"));
        let count = if *jobs == 1 { "1 job waits".to_owned() } else { format!("{jobs} jobs wait") };
        view = view
            .then(format!("{count} in the queue {queue}: no live worker knows the type {job_type}{hint}"));
    }
    // The lines above name the types that no worker serves.
    let others = |report: &QueueReport| report.cause.clone().filter(|cause| cause.kind != "unserved_type");
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
pub(crate) fn size(bytes: u64) -> String {
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
