//! The queues: how many jobs wait, run and are dead, why they wait, when they are gone, and how many waited lately; and how full Redis is.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::Server;
use streamfleet_operations::outlook::EmptyIn;
use streamfleet_operations::queues::{self, QueueReport};
use streamfleet_operations::stats;

use super::AT_ONCE;
use crate::stats::drawn;
use crate::times::short;
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Subject, Usage, View};

pub(super) const COLUMNS: &[Column] = &[
    Column::text("queue", 0),
    Column::figure("waiting", 0),
    Column::figure("running", 70),
    Column::figure("delayed", 90),
    Column::figure("dead", 0),
    Column::figure("oldest", 80),
    Column::figure("empty in", 0),
    Column::text("last 30m", 0),
];

/// How far back the trend goes, and how many columns it has.
const TREND: (Duration, usize) = (Duration::from_secs(30 * 60), 10);

/// How many queues have a trend, at most: each costs a command.
const MOST_TRENDS: usize = 100;

/// Reads the queues.
pub(super) async fn read(desk: &Desk) -> anyhow::Result<Page> {
    let (queues, remark) = super::queues(&Place::new(View::Queues, None), desk).await?;
    let names = queues.iter().map(|queue| queue.name().clone()).collect();
    let trends: Vec<_> = queues.into_iter().take(MOST_TRENDS).map(trend).collect();
    let trends = async { stream::iter(trends).buffered(AT_ONCE).collect::<Vec<String>>().await };
    let (reports, trends, memory) =
        tokio::join!(queues::list(&desk.broker, names, false), trends, memory(&desk.broker));
    if let Some(report) = reports.first()
        && reports.iter().all(|report| report.error.is_some())
    {
        return Err(anyhow::anyhow!("{}", report.error.clone().unwrap_or_default()));
    }
    let trends = trends.into_iter().chain(std::iter::repeat(String::new()));
    let rows = reports.iter().zip(trends).filter_map(|(report, trend)| row(report, trend)).collect();
    Ok(Page { rows, remark, memory, ..Page::default() })
}

/// What the servers use. Some logins must not ask.
async fn memory(broker: &Broker) -> Vec<Usage> {
    let servers = broker.servers().await.map(|listed| listed.found).unwrap_or_default();
    let usage = |server: &Server| {
        let number = |name: &str| server.fact(name).and_then(|text| text.parse::<u64>().ok());
        let most = number("maxmemory").filter(|most| *most > 0);
        Some(Usage { node: server.node.clone().unwrap_or_default(), used: number("used_memory")?, most })
    };
    servers.iter().filter_map(usage).collect()
}

/// How many jobs waited lately, as columns. What cannot be read is empty.
async fn trend(queue: Queue) -> String {
    let (since, width) = TREND;
    let samples = stats::samples(&queue, since).await.map(|samples| samples.items).unwrap_or_default();
    let values: Vec<(u64, f64)> =
        samples.iter().map(|sample| (sample.at_ms, sample.waiting as f64)).collect();
    drawn(&values, width)
}

fn row(report: &QueueReport, trend: String) -> Option<Row> {
    let age = report.oldest_waiting_age_ms;
    let empty_in = report.empty_in.map_or_else(|| "?".to_owned(), EmptyIn::shown);
    let lasts = report.empty_in.and_then(|empty_in| empty_in.ms).unwrap_or(u64::MAX);
    let subject =
        Subject::Queue { queue: report.queue.parse().ok()?, is_paused: report.paused_since.is_some() };
    Some(Row {
        subject,
        cells: vec![
            report.queue.clone().into(),
            Cell::count(report.waiting),
            Cell::count(report.running),
            Cell::count(report.delayed),
            Cell::count(report.dead),
            Cell::ranked(age.map_or_else(|| "-".to_owned(), |age| short(Duration::from_millis(age))), age),
            Cell::ranked(empty_in, lasts),
            trend.into(),
        ],
        note: note(report),
    })
}

/// Why the jobs wait, or what else is wrong.
fn note(report: &QueueReport) -> String {
    if let Some(error) = &report.error {
        return format!("cannot be read: {error}");
    }
    let cause = report.cause.as_ref().map(|cause| cause.text.clone());
    let paused = report.paused_since.as_ref().map(|since| format!("paused since {since}"));
    cause.or(paused).unwrap_or_default()
}
