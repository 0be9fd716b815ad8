//! Surveys a queue and reports its state at regular intervals, even while nothing moves in it. It takes one round trip, by one process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Context;
use super::cron::Owed;
use crate::broker::Gauge;
use crate::event::{Event, QueueState, RedisMemory};

/// Reports until stopped.
pub(super) async fn run(context: Context, owed: Arc<Owed>, stop: CancellationToken) {
    loop {
        let asked = Instant::now();
        match context.queue.gauge(context.lease).await {
            Ok(gauge) => {
                for unread in &gauge.unread {
                    let error = unread.to_error("gauge");
                    context.events.redis_error(error.kind(), &error);
                }
                tell(&context, &state(&gauge, owed.overdue(gauge.now), asked.elapsed()));
            }
            Err(error) => context.events.redis_error(error.kind(), &error),
        }
        tokio::select! {
            () = tokio::time::sleep(spread(context.gauge_every, rand::random())) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn tell(context: &Context, state: &QueueState) {
    let (queue, QueueState { waiting, running, delayed, dead, oldest_waiting, .. }) =
        (context.queue.name(), *state);
    context.events.tell(&Event::QueueLength { queue, waiting, running, delayed, dead, oldest_waiting });
    context.events.tell(&Event::Surveyed { queue, state });
}

fn state(gauge: &Gauge, cron_overdue: Duration, took: Duration) -> QueueState {
    QueueState {
        waiting: gauge.waiting(),
        running: gauge.running(),
        delayed: gauge.delayed,
        due_soon: gauge.due_soon,
        dead: gauge.dead,
        oldest_waiting: gauge.oldest_waiting(),
        overdue: gauge.overdue,
        oldest_pending: gauge.silence(),
        oldest_dead: gauge.oldest_dead,
        cron_overdue,
        added: gauge.lanes.map(|lane| lane.added),
        live: gauge.live,
        stale: gauge.stale,
        memory: gauge.memory.map(|memory| RedisMemory {
            used: memory.used,
            max: memory.max,
            is_eviction_safe: memory.is_eviction_safe,
        }),
        took,
    }
}

/// Varies the interval, so that queues whose leaders started together are not surveyed together forever.
fn spread(every: Duration, roll: f64) -> Duration {
    every.mul_f64(0.9 + 0.2 * roll)
}
