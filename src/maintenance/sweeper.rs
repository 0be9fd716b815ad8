//! Reports the ends of jobs that were cancelled while no worker held them. Also forgets cancellation requests that can
//! no longer take effect, so that they cost nothing and do not pile up. Most of those are for jobs that succeeded just
//! then: plain jobs do not check for a request when they succeed.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::broker::Error;
use crate::event::{Event, Finished};

/// The pause between two passes.
const EVERY: Duration = Duration::from_secs(5);

/// The most requests that one pass checks. The next pass continues from there.
const PASS: u64 = 20_000;

/// Sweeps until stopped.
pub(super) async fn run(duty: Duty, stop: CancellationToken) {
    let mut skip = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY.mul_f64(0.8 + 0.4 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
        for swept in [tell_endings(&duty).await, pass(&duty, &mut skip, &stop).await] {
            if let Err(error) = swept {
                duty.events.redis_error(error.kind(), &error);
            }
        }
    }
}

async fn tell_endings(duty: &Duty) -> Result<(), Error> {
    loop {
        let endings = duty.queue.endings().await?;
        if endings.is_empty() {
            return Ok(());
        }
        for (job, job_type, why) in &endings {
            let told = Finished::cancelled(duty.queue.name(), job, job_type.as_ref(), why);
            duty.events.tell(&Event::Finished(told));
        }
    }
}

async fn pass(duty: &Duty, skip: &mut u64, stop: &CancellationToken) -> Result<(), Error> {
    let end = *skip + PASS;
    while *skip < end && !stop.is_cancelled() {
        let (kept, all) = duty.queue.forget_wishes(*skip).await?;
        *skip += kept;
        if *skip >= all {
            *skip = 0;
            return Ok(());
        }
    }
    Ok(())
}
