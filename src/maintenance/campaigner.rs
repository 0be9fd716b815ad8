//! Carries out campaigns: bulk replays of dead letters at a limited rate. A script decides by the state in Redis how many
//! letters may be replayed by now, so two processes that do this at once replay nothing twice. A campaign that Redis refuses
//! to carry out keeps no other from going on.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Context;
use crate::broker::{Advance, Error};
use crate::event::Event;
use crate::job::campaign::CampaignCounts;

/// How often a campaign that replays is advanced.
const TICK: Duration = Duration::from_millis(100);

/// How often the campaigner looks for campaigns while none replays, and tries one again that Redis refused.
const LOOK: Duration = Duration::from_secs(5);

/// The most scripts that one campaign may run in a row.
const SCRIPTS_PER_TICK: u32 = 40;

/// What is known about the campaigns of a queue.
#[derive(Default)]
struct Known {
    /// When Redis refused which campaign.
    refused: BTreeMap<String, Instant>,
    /// What was last seen of each.
    seen: BTreeMap<String, CampaignCounts>,
    /// What has happened since the last report.
    moved: Moved,
}

/// What campaigns have done, and what became of their jobs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Moved {
    replayed: u64,
    succeeded: u64,
    died: u64,
}

impl Known {
    /// Notes how the jobs of a campaign have ended so far. What happened before this process led the queue is not its own.
    fn note(&mut self, id: &str, now: CampaignCounts) {
        let Some(before) = self.seen.insert(id.to_owned(), now) else { return };
        let died = |counts: &CampaignCounts| counts.died + counts.died_otherwise + counts.needs_decision;
        self.moved.replayed += now.replayed.saturating_sub(before.replayed);
        self.moved.succeeded += now.succeeded.saturating_sub(before.succeeded);
        self.moved.died += died(&now).saturating_sub(died(&before));
    }
}

/// Advances campaigns until stopped.
pub(super) async fn run(context: Context) {
    let (mut chore, mut known) = (context.chore(LOOK), Known::default());
    while chore.tick().await {
        let Some(running) = chore.note(advance(&context, &mut known).await) else { continue };
        let Moved { replayed, succeeded, died } = std::mem::take(&mut known.moved);
        let queue = context.queue.name();
        context.events.emit(&Event::Campaigns { queue, running, replayed, succeeded, died });
        if running > 0 {
            chore.next_in(TICK);
        }
    }
}

/// Returns how many campaigns replay.
async fn advance(context: &Context, known: &mut Known) -> Result<u64, Error> {
    let ids = context.queue.campaigns().ids().await?;
    known.refused.retain(|id, since| ids.contains_key(id) && since.elapsed() < LOOK);
    known.seen.retain(|id, _| ids.contains_key(id));
    let mut running = 0;
    for (id, is_active) in ids {
        if !is_active || known.refused.contains_key(&id) {
            continue;
        }
        match advance_one(context, known, &id).await {
            Ok(replays) => running += u64::from(replays),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                context.events.redis_error(error.kind(), &error);
                known.refused.insert(id, Instant::now());
            }
        }
    }
    Ok(running)
}

/// Returns true if this campaign replays.
async fn advance_one(context: &Context, known: &mut Known, id: &str) -> Result<bool, Error> {
    for _ in 0..SCRIPTS_PER_TICK {
        if context.stop.is_cancelled() {
            break;
        }
        let (led_to, counts) = context.queue.campaigns().advance(id).await?;
        known.note(id, counts);
        match led_to {
            Advance::Again => {}
            Advance::Later => return Ok(true),
            Advance::Idle => return Ok(false),
            Advance::Stopped(why) => {
                let queue = context.queue.name();
                context.events.emit(&Event::CampaignStopped { queue, campaign: id, why: &why });
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_since_the_last_look_is_reported() {
        let counts = |replayed, succeeded, died| {
            let mut counts = CampaignCounts::default();
            (counts.replayed, counts.succeeded) = (replayed, succeeded);
            (counts.died, counts.needs_decision) = (died, 1);
            counts
        };
        let mut known = Known::default();
        known.note("a", counts(7, 5, 1));
        assert_eq!(known.moved, Moved::default(), "another process did it");
        known.note("a", counts(9, 5, 3));
        known.note("b", counts(0, 0, 0));
        known.note("b", counts(1, 1, 0));
        assert_eq!(known.moved, Moved { replayed: 3, succeeded: 1, died: 2 });
        known.note("a", counts(0, 0, 0));
        assert_eq!(known.moved.replayed, 3, "somebody wrote the key");
    }
}
