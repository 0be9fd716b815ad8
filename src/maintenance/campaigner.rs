//! Carries out campaigns: bulk replays of dead letters at a limited rate. A script decides by the state in Redis how many
//! letters may be replayed by now, so two processes that do this at once replay nothing twice. A campaign that Redis refuses
//! to carry out keeps no other from going on.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::broker::{Advance, Error};

/// How often a campaign that replays is advanced.
const TICK: Duration = Duration::from_millis(100);

/// How often the campaigner looks for campaigns while none replays, and tries one again that Redis refused.
const LOOK: Duration = Duration::from_secs(5);

/// The most scripts that one campaign may run in a row.
const SCRIPTS_PER_TICK: u32 = 40;

/// Advances campaigns until stopped.
pub(super) async fn run(context: Context, stop: CancellationToken) {
    let mut refused = BTreeMap::new();
    loop {
        let pause = match advance(&context, &mut refused, &stop).await {
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

/// Returns true if one of the campaigns replays. `refused`: when Redis refused which campaign.
async fn advance(
    context: &Context,
    refused: &mut BTreeMap<String, Instant>,
    stop: &CancellationToken,
) -> Result<bool, Error> {
    let ids = context.queue.campaigns().ids().await?;
    refused.retain(|id, since| ids.contains_key(id) && since.elapsed() < LOOK);
    let mut replays = false;
    for (id, is_active) in ids {
        if !is_active || refused.contains_key(&id) {
            continue;
        }
        match advance_one(context, &id, stop).await {
            Ok(does) => replays |= does,
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                context.events.redis_error(error.kind(), &error);
                refused.insert(id, Instant::now());
            }
        }
    }
    Ok(replays)
}

/// Returns true if this campaign replays.
async fn advance_one(context: &Context, id: &str, stop: &CancellationToken) -> Result<bool, Error> {
    for _ in 0..SCRIPTS_PER_TICK {
        if stop.is_cancelled() {
            break;
        }
        match context.queue.campaigns().advance(id).await? {
            Advance::Again => {}
            Advance::Later => return Ok(true),
            Advance::Idle => return Ok(false),
        }
    }
    Ok(true)
}
