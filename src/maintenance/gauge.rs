//! Surveys a queue and reports its figures at regular intervals, even while nothing moves in it. One process does it.
//! The sampler gets the figures, too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Context;
use super::cron::UnhandledTick;
use super::sampler::LastSurvey;
use crate::broker::{Extras, QueueSnapshot};
use crate::event::QueueEvent;

/// Reports until stopped.
pub(super) async fn run(
    context: Context,
    (unhandled, last): (Arc<UnhandledTick>, watch::Sender<LastSurvey>),
) {
    let extras = Extras { oldest: true, ticks: false, survey: Some(context.lease) };
    // Queues whose leaders started together are not surveyed together forever.
    let mut chore = context.chore(context.gauge_every).jitter(0.9..1.1);
    while chore.tick().await {
        let asked = Instant::now();
        let Some(snapshot) = chore.note(context.queue.snapshot_with(extras).await) else { continue };
        for unread in &snapshot.unread {
            let error = unread.to_error("snapshot");
            context.events.redis_error(error.kind(), &error);
        }
        emit(&context, &snapshot, unhandled.overdue(snapshot.now), asked.elapsed());
        last.send_replace(Some((asked, snapshot)));
    }
}

fn emit(context: &Context, snapshot: &QueueSnapshot, cron_overdue: Duration, took: Duration) {
    let queue = context.queue.name();
    context.events.of_queue(
        queue,
        QueueEvent::QueueLength {
            waiting: snapshot.waiting(),
            running: snapshot.running(),
            delayed: snapshot.delayed,
            dead: snapshot.dead,
            oldest_waiting: snapshot.oldest_waiting(),
        },
    );
    context.events.of_queue(queue, QueueEvent::Surveyed { snapshot, cron_overdue, took });
}
