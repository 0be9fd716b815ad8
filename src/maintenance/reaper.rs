//! Removes consumers whose processes are gone. A consumer is one run of one process and never comes back. Only a script
//! that sees that it has nothing pending removes it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;

use super::Context;
use super::leader_view::LeaderView;
use crate::broker::Error;
use crate::job::{Lane, Pacing};

/// A consumer that has not read for this many leases is considered gone.
const LEASES: u32 = 10;

/// The shortest time between two passes.
const LEAST: Duration = Duration::from_secs(5);

/// Reaps until stopped.
pub(super) async fn run(context: Context, view: watch::Receiver<LeaderView>) {
    let mut chore = context.chore((context.lease * LEASES / 2).max(LEAST)).later();
    while chore.tick().await {
        let pacing = view.borrow().pacing;
        chore.note(pass(&context, pacing).await);
    }
}

async fn pass(context: &Context, pacing: Pacing) -> Result<(), Error> {
    // In a large fleet, most workers stand by and do not read for a long time.
    let gone = (context.lease * LEASES).max(2 * LEAST).max(pacing.max_silence());
    // A live consumer reads every lane, but may be known in only some of them. Its shortest idle time counts.
    let mut idle: BTreeMap<String, Duration> = BTreeMap::new();
    for lane in Lane::ALL {
        for consumer in context.queue.consumers(lane).await? {
            let least = idle.entry(consumer.name).or_insert(consumer.idle);
            *least = (*least).min(consumer.idle);
        }
    }
    for (name, idle) in idle {
        if idle >= gone
            && name != context.consumer.as_str()
            && context.queue.reap(context.queue.link(), &name).await?
        {
            tracing::info!(queue = %context.queue.name(), consumer = name, "removed a consumer that is gone");
        }
    }
    Ok(())
}
