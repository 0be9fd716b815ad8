//! Carries out campaigns: bulk replays of dead letters at a limited rate. A script decides by the state in Redis how many
//! letters may be replayed by now, so two processes that do this at once replay nothing twice.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Context;
use crate::broker::Error;

/// How often a campaign that replays is advanced.
const TICK: Duration = Duration::from_millis(100);

/// How often the campaigner looks for campaigns while there are none.
const LOOK: Duration = Duration::from_secs(5);

/// The most scripts that one campaign may run in a row.
const SCRIPTS_PER_TICK: u32 = 20;

/// Advances campaigns until stopped.
pub(super) async fn run(context: Context, stop: CancellationToken) {
    loop {
        let pause = match advance(&context, &stop).await {
            Ok(true) => TICK,
            Ok(false) => LOOK.mul_f64(0.8 + 0.4 * rand::random::<f64>()),
            Err(error) => {
                context.events.redis_error(error.kind(), &error);
                LOOK
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Returns true if there are campaigns that are not over.
async fn advance(context: &Context, stop: &CancellationToken) -> Result<bool, Error> {
    let campaigns = context.queue.campaigns();
    let mut found = false;
    for (id, is_active) in campaigns.ids().await? {
        if !is_active {
            continue;
        }
        found = true;
        for _ in 0..SCRIPTS_PER_TICK {
            if stop.is_cancelled() || !campaigns.advance(&id).await? {
                break;
            }
        }
    }
    Ok(found)
}
