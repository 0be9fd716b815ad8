//! Reports the ends of jobs that were cancelled while no worker held them. Also forgets cancellation requests that can
//! no longer take effect, so that they cost nothing and do not pile up. Most of those are for jobs that succeeded just
//! then: plain jobs do not check for a request when they succeed.

use std::time::Duration;

use super::Context;
use crate::broker::Error;
use crate::event::{Event, Finished};

/// The pause between two passes.
const EVERY: Duration = Duration::from_secs(5);

/// The most requests that one pass checks. The next pass continues from there.
const PASS: u64 = 20_000;

/// Sweeps until stopped.
pub(super) async fn run(context: Context) {
    let (mut chore, mut skip) = (context.chore(EVERY).later(), 0);
    while chore.tick().await {
        chore.note(emit_endings(&context).await);
        chore.note(pass(&context, &mut skip).await);
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

async fn pass(context: &Context, skip: &mut u64) -> Result<(), Error> {
    let end = *skip + PASS;
    while *skip < end && !context.stop.is_cancelled() {
        let (kept, all) = context.queue.forget_cancel_requests(*skip).await?;
        *skip += kept;
        if *skip >= all {
            *skip = 0;
            return Ok(());
        }
    }
    Ok(())
}
