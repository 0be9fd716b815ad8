//! `stats --types`: what the jobs of each type of a queue did.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::Timestamp;
use streamfleet::{Broker, Queue, RedisError};
use streamfleet_engine::admin::{Distribution, TypeFigures, TypeStats};

use crate::Context;
use crate::output::{self, List, Listing, View};
use crate::queues;
use crate::times::{Clock, rfc3339, short};

/// The types, for JSON output.
pub(crate) type Page = List<Report, Facts>;

/// What is known about all types, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = TypeStatsFacts)]
pub(crate) struct Facts {
    queue: String,
    from: String,
    from_ms: u64,
    #[serde(skip)]
    since: Timestamp,
}

/// One type, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = TypeStats)]
pub(crate) struct Report {
    /// `null` for all other types.
    #[serde(rename = "type")]
    job_type: Option<String>,
    done: u64,
    failed: u64,
    dead: u64,
    wait: Spread,
    run: Spread,
    #[serde(skip)]
    figures: TypeFigures,
}

/// How durations are distributed, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DurationSpread)]
struct Spread {
    count: u64,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
}

impl From<&Distribution> for Spread {
    fn from(distribution: &Distribution) -> Self {
        let ms = |share| distribution.percentile(share).map(|found| found.as_micros() as f64 / 1000.0);
        Self { count: distribution.count(), p50_ms: ms(0.5), p95_ms: ms(0.95) }
    }
}

impl From<TypeFigures> for Report {
    fn from(figures: TypeFigures) -> Self {
        Self {
            job_type: figures.job_type.as_ref().map(ToString::to_string),
            done: figures.done,
            failed: figures.failed,
            dead: figures.dead,
            wait: Spread::from(&figures.wait),
            run: Spread::from(&figures.run),
            figures,
        }
    }
}

/// Returns the types, those with the most attempts first.
pub(crate) async fn busiest(queue: &Queue, since: Duration) -> Result<TypeStats, RedisError> {
    let mut stats = queue.type_stats(since).await?;
    stats.types.sort_by_key(|figures| std::cmp::Reverse(figures.run.count()));
    Ok(stats)
}

/// Reads the types of this time, those with the most attempts first.
pub(crate) async fn page(queue: &Queue, since: Duration) -> anyhow::Result<Page> {
    let stats = busiest(queue, since).await.context("failed to read the statistics of types")?;
    let TypeStats { from, types, .. } = stats;
    let (queue, from_ms) = (queue.name().to_string(), from.as_ms());
    let facts = Facts { queue, from: rfc3339(from), from_ms, since: from };
    Ok(Page { items: types.into_iter().map(Report::from).collect(), next: None, facts, former: None })
}

/// Lists the types, those with the most attempts first.
pub(super) async fn list(
    broker: &Broker,
    queue: &Queue,
    since: Duration,
    context: &Context,
) -> anyhow::Result<Listing> {
    let page = page(queue, since).await?;
    if page.items.is_empty() && queues::report_unknown(broker, queue.name(), context).await {
        return Ok(Listing::not_found());
    }
    let names = |page: &Page| page.items.iter().filter_map(|report| report.job_type.clone()).collect();
    let show = |page: &Page| show(page, &context.clock);
    Ok(Listing::new(context.output.rendered(&page, names, show)?))
}

fn show(page: &Page, clock: &Clock) -> View {
    let (queue, since) = (&page.facts.queue, clock.time(page.facts.since));
    if page.items.is_empty() {
        return format!("no jobs of the queue {queue} are counted since {since}").into();
    }
    let headings = ["type", "done", "failed", "dead", "runs", "wait p50", "wait p95", "run p50", "run p95"];
    let mut table = output::table(&headings);
    for Report { job_type, figures, .. } in &page.items {
        let TypeFigures { done, failed, dead, wait, run, .. } = figures;
        let mut cells = vec![job_type.clone().unwrap_or_else(|| "(other)".to_owned())];
        cells.extend([*done, *failed, *dead, run.count()].map(|count| count.to_string()));
        cells.extend(
            [(wait, 0.5), (wait, 0.95), (run, 0.5), (run, 0.95)].map(|(all, share)| shown(all, share)),
        );
        table.add_row(cells);
    }
    View::from(table).then(format!("since {since}"))
}

/// A percentile for people; empty if nothing was measured.
pub(crate) fn shown(distribution: &Distribution, share: f64) -> String {
    match distribution.percentile(share) {
        None => String::new(),
        Some(found) if found < Duration::from_millis(1) => "<1ms".to_owned(),
        Some(found) => short(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_has_no_percentile() {
        let none = Distribution::default();
        assert_eq!(shown(&none, 0.5), "");
        assert_eq!(serde_json::to_value(Spread::from(&none)).unwrap()["p50_ms"], serde_json::Value::Null);
    }
}
