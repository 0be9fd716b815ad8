//! Reports the ends of jobs that were cancelled while no worker held them. Also forgets cancellation requests that can
//! no longer take effect, so that they cost nothing and do not pile up. Most of those are for jobs that succeeded just
//! then: plain jobs do not check for a request when they succeed.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Context;
use crate::broker::Error;
use crate::event::{Event, Finished};

/// The pause between two passes.
const EVERY: Duration = Duration::from_secs(5);

/// The most requests that one pass checks. The next pass continues from there.
const PASS: u64 = 20_000;

/// Sweeps until stopped.
pub(super) async fn run(context: Context, stop: CancellationToken) {
    let mut skip = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY.mul_f64(0.8 + 0.4 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
        for swept in [emit_endings(&context).await, pass(&context, &mut skip, &stop).await] {
            if let Err(error) = swept {
                context.events.redis_error(error.kind(), &error);
            }
        }
    }
}

async fn emit_endings(context: &Context) -> Result<(), Error> {
    loop {
        let endings = context.queue.endings().await?;
        if endings.is_empty() {
            return Ok(());
        }
        for (job, job_type, why) in &endings {
            let report = Finished::cancelled(context.queue.name(), job, job_type.as_ref(), why);
            context.events.emit(&Event::Finished(report));
        }
    }
}

async fn pass(context: &Context, skip: &mut u64, stop: &CancellationToken) -> Result<(), Error> {
    let end = *skip + PASS;
    while *skip < end && !stop.is_cancelled() {
        let (kept, all) = context.queue.forget_cancel_requests(*skip).await?;
        *skip += kept;
        if *skip >= all {
            *skip = 0;
            return Ok(());
        }
    }
    Ok(())
}
