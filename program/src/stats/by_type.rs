//! `stats --types`: what the jobs of each type of a queue did.

use std::time::Duration;

use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{Distribution, TypeFigures};
use streamfleet_operations::stats::{self, TypeList, TypeStats};

use crate::output::{self, Listing, View};
use crate::times::{Clock, short};
use crate::{Context, queues};

/// Lists the types, those with the most attempts first.
pub(super) async fn list(
    broker: &Broker,
    queue: &Queue,
    since: Duration,
    context: &Context,
) -> anyhow::Result<Listing> {
    let page = stats::types(queue, since).await?;
    let names = |page: &TypeList| page.items.iter().filter_map(|report| report.job_type.clone()).collect();
    let show = |page: &TypeList| show(page, &context.clock).then(super::older(queue, context));
    queues::listing((&page, page.items.is_empty()), (broker, queue), context, (names, show)).await
}

fn show(page: &TypeList, clock: &Clock) -> View {
    let (queue, since) = (&page.facts.queue, clock.time(page.facts.from_ms));
    if page.items.is_empty() {
        return format!("no jobs of the queue {queue} are counted since {since}").into();
    }
    let headings = ["type", "done", "failed", "dead", "runs", "wait p50", "wait p95", "run p50", "run p95"];
    let mut table = output::table(&headings);
    for TypeStats { job_type, figures, .. } in &page.items {
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
pub(super) fn shown(distribution: &Distribution, share: f64) -> String {
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
        assert_eq!(shown(&Distribution::default(), 0.5), "");
    }
}
