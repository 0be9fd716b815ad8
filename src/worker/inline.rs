//! One attempt without a worker, for users' tests. The handler, its context and its bounds are the real ones, but
//! nobody has delivered the job.

use std::pin::pin;
use std::time::{Duration, Instant};

use super::executor::{Bounds, bounded};
use super::handler::{Handler, JobContext};
use super::registry::handled;
use super::slot_timer::{SlotTimer, reached};
use crate::job::{Envelope, JobSpec, Outcome, QueueName};

/// The surroundings of a made-up job, besides its fields.
#[derive(Debug, Clone)]
pub(crate) struct InlineOptions {
    pub(crate) queue: QueueName,
    pub(crate) timeout: Duration,
    /// When the attempt is cut short, if at all.
    pub(crate) cut_after: Option<Duration>,
}

/// The outcome, and what the handler reported meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Inline {
    pub(crate) outcome: Outcome,
    pub(crate) progress: Option<(u8, String)>,
    pub(crate) lines: Vec<String>,
}

/// Runs one attempt, and cuts it short as a worker does.
pub(crate) async fn inline<H: Handler>(
    handler: &H,
    (job, envelope): (JobSpec, Envelope),
    options: InlineOptions,
) -> Inline {
    let InlineOptions { queue, timeout, cut_after } = options;
    let timeout = job.timeout.unwrap_or(timeout);
    let deadline = Instant::now() + timeout;
    let context = JobContext::undelivered(job, envelope, queue, deadline);
    let watched = context.clone();
    if cut_after.is_some_and(|pause| pause.is_zero()) {
        watched.held_lease().cut();
    }
    let bounds = Bounds { timeout, deadline, grace: handler.grace() };
    let running = pin!(handled(handler, context));
    let mut slot_timer = SlotTimer::default();
    let mut ending = pin!(bounded(running, watched.held_lease(), bounds, &mut slot_timer, || {}));
    let cut_or_ended = tokio::select! {
        biased;
        outcome = &mut ending => Some(outcome),
        () = passed(cut_after) => None,
    };
    let outcome = match cut_or_ended {
        Some(outcome) => outcome,
        None => {
            watched.held_lease().cut();
            ending.await
        }
    };
    let (progress, lines) = watched.reported();
    Inline { outcome, progress, lines }
}

/// Waits for this long; without a time, forever.
async fn passed(pause: Option<Duration>) {
    match pause {
        Some(pause) => reached(Instant::now() + pause).await,
        None => std::future::pending().await,
    }
}
