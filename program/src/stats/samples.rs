//! `stats`: the samples of a queue, one a minute.

use std::time::Duration;

use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::Sample;
use streamfleet_operations::stats::{self, Samples};

use super::{per_minute, trend};
use crate::output::{self, Column, Listing, View};
use crate::times::{Clock, short};
use crate::{Context, queues};

/// What the table has of a sample: its name, and how it is read.
type Figure = (&'static str, fn(&Sample) -> u64);

/// The most columns of a trend.
const TREND: usize = 40;

/// Figures at one moment.
const STATES: [Figure; 5] = [
    ("waiting", |sample| sample.waiting),
    ("running", |sample| sample.running),
    ("delayed", |sample| sample.delayed),
    ("dead", |sample| sample.dead),
    ("at gates", |sample| sample.in_rooms),
];

/// Figures that add up.
const COUNTS: [Figure; 6] = [
    ("arrived", |sample| sample.arrived),
    ("done", |sample| sample.done),
    ("failed", |sample| sample.failed),
    ("retried", |sample| sample.retried),
    ("died", |sample| sample.died),
    ("cancelled", |sample| sample.cancelled),
];

/// Lists the samples.
pub(super) async fn list(
    broker: &Broker,
    queue: &Queue,
    since: Duration,
    context: &Context,
) -> anyhow::Result<Listing> {
    let page = stats::samples(queue, since).await?;
    let names = |page: &Samples| page.items.iter().map(|report| report.at.clone()).collect();
    let has_trend = context.output.is_watched();
    let show =
        |page: &Samples| show(page, (since, has_trend), &context.clock).then(super::older(queue, context));
    queues::listing((&page, page.items.is_empty()), (broker, queue), context, (names, show)).await
}

fn show(page: &Samples, (since, has_trend): (Duration, bool), clock: &Clock) -> View {
    let samples: Vec<&Sample> = page.items.iter().map(|report| &report.figures).collect();
    let Some(first) = samples.first() else {
        let (queue, since) = (&page.facts.queue, short(since));
        return format!(
            "there are no samples of the queue {queue} from the last {since}: its leader takes one a minute"
        )
        .into();
    };
    let mut columns = ["figure", "now", "least", "most", "total"].map(Column::from).to_vec();
    columns.extend(has_trend.then(|| Column::from("trend")));
    let mut table = output::table(&columns);
    let mut add = |name: &str, figures: [String; 4], values: Vec<(u64, f64)>| {
        let mut cells: Vec<String> = std::iter::once(name.to_owned()).chain(figures).collect();
        cells.extend(has_trend.then(|| trend::drawn(&values, TREND)));
        table.add_row(cells);
    };
    let at = |value: &dyn Fn(&Sample) -> f64| {
        samples.iter().map(|sample| (sample.at.as_ms(), value(sample))).collect::<Vec<_>>()
    };
    for (name, read) in STATES {
        let values: Vec<u64> = samples.iter().map(|sample| read(sample)).collect();
        let [now, least, most] = extremes(&values).map(|value| value.to_string());
        add(name, [now, least, most, String::new()], at(&|sample| read(sample) as f64));
    }
    let ages: Vec<Duration> =
        samples.iter().map(|sample| sample.oldest_waiting.unwrap_or_default()).collect();
    let [now, least, most] = extremes(&ages).map(short);
    let age = |sample: &Sample| sample.oldest_waiting.unwrap_or_default().as_secs_f64();
    add("oldest wait", [now, least, most, String::new()], at(&age));
    for (name, read) in COUNTS {
        let values: Vec<u64> = samples.iter().map(|sample| read(sample)).collect();
        let [now, least, most] = extremes(&values).map(|value| value.to_string());
        let total = values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value)).to_string();
        add(name, [now, least, most, total], at(&|sample| per_minute(read(sample), sample.span)));
    }
    View::from(table).then(format!("samples: {}, since {}", samples.len(), clock.time(first.at)))
}

/// Returns the last value, the least and the greatest one.
fn extremes<T: Copy + Default + Ord>(values: &[T]) -> [T; 3] {
    let least = values.iter().min().copied();
    [values.last().copied(), least, values.iter().max().copied()].map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_is_beside_the_least_and_the_greatest() {
        assert_eq!(extremes(&[3, 1, 7, 5]), [5, 1, 7]);
        assert_eq!(extremes::<u64>(&[]), [0; 3]);
    }
}
