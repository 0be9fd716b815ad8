//! Surveys a queue and reports its figures at regular intervals, even while nothing moves in it. One process does it.
//! The sampler gets the figures, too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::cron::UnhandledTick;
use super::sampler::LastSurvey;
use crate::broker::{Extras, QueueSnapshot};
use crate::event::Event;

/// Reports until stopped.
pub(super) async fn run(
    context: Context,
    (unhandled, last): (Arc<UnhandledTick>, watch::Sender<LastSurvey>),
    stop: CancellationToken,
) {
    let extras = Extras { oldest: true, ticks: false, survey: Some(context.lease) };
    loop {
        let asked = Instant::now();
        match context.queue.snapshot_with(extras).await {
            Ok(snapshot) => {
                for unread in &snapshot.unread {
                    let error = unread.to_error("snapshot");
                    context.events.redis_error(error.kind(), &error);
                }
                emit(&context, &snapshot, unhandled.overdue(snapshot.now), asked.elapsed());
                last.send_replace(Some((asked, snapshot)));
            }
            Err(error) => context.events.redis_error(error.kind(), &error),
        }
        tokio::select! {
            () = tokio::time::sleep(spread(context.gauge_every, rand::random())) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn emit(context: &Context, snapshot: &QueueSnapshot, cron_overdue: Duration, took: Duration) {
    let queue = context.queue.name();
    context.events.emit(&Event::QueueLength {
        queue,
        waiting: snapshot.waiting(),
        running: snapshot.running(),
        delayed: snapshot.delayed,
        dead: snapshot.dead,
        oldest_waiting: snapshot.oldest_waiting(),
    });
    context.events.emit(&Event::Surveyed { queue, snapshot, cron_overdue, took });
}

/// Varies the interval, so that queues whose leaders started together are not surveyed together forever.
fn spread(every: Duration, roll: f64) -> Duration {
    every.mul_f64(0.9 + 0.2 * roll)
}
