//! `stats --durations`: how long the jobs of a queue waited and ran, over time.

use std::time::Duration;

use streamfleet::{Broker, Queue};
use streamfleet_operations::stats::{self, DurationList};

use super::by_type::shown;
use crate::output::{self, Listing, View};
use crate::times::{Clock, short};
use crate::{Context, queues};

/// Lists the windows in which an attempt began or ended, oldest first.
pub(super) async fn list(
    broker: &Broker,
    queue: &Queue,
    since: Duration,
    context: &Context,
) -> anyhow::Result<Listing> {
    let page = stats::durations(queue, since).await?;
    let names = |page: &DurationList| page.items.iter().map(|window| window.at.clone()).collect();
    let show = |page: &DurationList| show(page, &context.clock).then(super::older(queue, context));
    queues::listing((&page, page.items.is_empty()), (broker, queue), context, (names, show)).await
}

fn show(page: &DurationList, clock: &Clock) -> View {
    let (queue, since) = (&page.facts.queue, clock.time(page.facts.from_ms));
    if page.items.is_empty() {
        return format!("no attempts of the queue {queue} are counted since {since}").into();
    }
    let mut table = output::table(&["from", "runs", "wait p50", "wait p95", "run p50", "run p95"]);
    for window in &page.items {
        let mut cells = vec![clock.time(window.at_ms), window.run.count.to_string()];
        cells.extend(
            [(&window.waits, 0.5), (&window.waits, 0.95), (&window.runs, 0.5), (&window.runs, 0.95)]
                .map(|(all, share)| shown(all, share)),
        );
        table.add_row(cells);
    }
    View::from(table).then(format!("{} each", short(Duration::from_millis(page.facts.window_ms))))
}
