//! Carries out tasks: work on many jobs or dead letters, page by page. Scripts decide by the state in Redis what is left to do, so two
//! processes that do this at once do nothing twice. A task that Redis refuses to carry out keeps no other from going on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::Context;
use crate::broker::{Advance, Error, KnownTask};
use crate::event::QueueEvent;
use crate::job::task::ReplayCounts;

/// How often a task with more to do is advanced.
const TICK: Duration = Duration::from_millis(100);

/// How often it looks for tasks while none has more to do, and tries one again that Redis refused.
const LOOK: Duration = Duration::from_secs(5);

/// The most steps of a task in a row.
const STEPS_PER_TICK: u32 = 40;

/// What is known about the tasks of a queue.
#[derive(Default)]
struct Known {
    /// When Redis refused which task.
    refused: BTreeMap<String, Instant>,
    /// What was last seen of each that replays letters.
    seen: BTreeMap<String, ReplayCounts>,
    /// Replays that are over, of which nothing more is reported. Those that were over before this process led the queue are not its own.
    ended: BTreeSet<String>,
    /// Whether it has looked at the tasks before: whatever is new since has begun in its time.
    has_looked: bool,
    /// What has happened since the last report.
    moved: Moved,
}

/// What replays have done, and what became of their jobs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Moved {
    replayed: u64,
    succeeded: u64,
    died: u64,
}

/// How many tasks have more to do.
#[derive(Default)]
struct Running {
    /// Those that replay letters.
    replays: u64,
    others: u64,
}

impl Known {
    /// Returns true, once, if others have ended a replay since this process first looked: what it has done is still to be counted.
    fn ended_lately(&mut self, id: &str) -> bool {
        self.ended.insert(id.to_owned()) && self.has_looked
    }

    /// Notes how the jobs of a replay have ended so far. What happened before this process led the queue is not its own.
    fn note(&mut self, id: &str, now: ReplayCounts) {
        let new = if self.has_looked { ReplayCounts::default() } else { now };
        let before = self.seen.insert(id.to_owned(), now).unwrap_or(new);
        let died = |counts: &ReplayCounts| counts.died + counts.died_otherwise + counts.needs_decision;
        self.moved.replayed += now.replayed.saturating_sub(before.replayed);
        self.moved.succeeded += now.succeeded.saturating_sub(before.succeeded);
        self.moved.died += died(&now).saturating_sub(died(&before));
    }
}

/// Advances tasks until stopped.
pub(super) async fn run(context: Context) {
    let (mut chore, mut known) = (context.chore(LOOK), Known::default());
    while chore.tick().await {
        let Some(Running { replays, others }) = chore.note(advance(&context, &mut known).await) else {
            continue;
        };
        let Moved { replayed, succeeded, died } = std::mem::take(&mut known.moved);
        let queue = context.queue.name();
        context.events.of_queue(queue, QueueEvent::Campaigns { running: replays, replayed, succeeded, died });
        if replays + others > 0 {
            chore.next_in(TICK);
        }
    }
}

/// Advances every task. Returns how many have more to do.
async fn advance(context: &Context, known: &mut Known) -> Result<Running, Error> {
    let tasks = context.queue.tasks().known().await?;
    known.refused.retain(|id, since| since.elapsed() < LOOK && tasks.iter().any(|task| task.id == *id));
    known.seen.retain(|id, _| tasks.iter().any(|task| task.id == *id));
    known.ended.retain(|id| tasks.iter().any(|task| task.id == *id));
    let mut running = Running::default();
    for KnownTask { id, is_replay, is_active, .. } in tasks {
        let is_due =
            if is_active { !known.refused.contains_key(&id) } else { is_replay && known.ended_lately(&id) };
        if !is_due {
            continue;
        }
        match advance_one(context, known, &id).await {
            Ok(is_running) if is_replay => running.replays += u64::from(is_running),
            Ok(is_running) => running.others += u64::from(is_running),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                context.events.redis_error(error.kind(), &error);
                known.refused.insert(id, Instant::now());
            }
        }
    }
    known.has_looked = true;
    Ok(running)
}

/// Returns true if this task has more to do.
async fn advance_one(context: &Context, known: &mut Known, id: &str) -> Result<bool, Error> {
    for _ in 0..STEPS_PER_TICK {
        if context.stop.is_cancelled() {
            break;
        }
        let (led_to, counts) = context.queue.tasks().advance(id).await?;
        if let Some(counts) = counts {
            known.note(id, counts);
        }
        match led_to {
            Advance::Again => {}
            Advance::Later => return Ok(true),
            Advance::Idle => return Ok(false),
            Advance::Stopped(why) => {
                let queue = context.queue.name();
                context.events.of_queue(queue, QueueEvent::CampaignStopped { campaign: id, why: &why });
                return Ok(false);
            }
            Advance::Failed(why) => {
                context.events.of_queue(context.queue.name(), QueueEvent::TaskFailed { task: id, why: &why });
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
            let mut counts = ReplayCounts::default();
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
        assert!(!known.ended_lately("old"), "it was over before");
        known.has_looked = true;
        assert!(known.ended_lately("c") && !known.ended_lately("c"));
        known.note("c", counts(2, 2, 0));
        assert_eq!(known.moved.replayed, 5, "a command has carried it out between two looks");
    }
}
