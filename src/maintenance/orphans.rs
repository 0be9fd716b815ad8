//! Searches for orphans: entries that were delivered and are neither pending nor deleted, so that nobody would ever run
//! them. It makes them pending again, and the [claimer](super::claimer) settles them as lost. It never deletes one, because
//! nothing shows whether its job succeeded.
//!
//! A worker whose `XDEL` was refused may be about to make its entries pending again. So an entry counts only if it is still
//! an orphan one lease after it was found, by this process's own clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Context, claimer};
use crate::broker::{Error, MAX_RECLAIMED};
use crate::event::QueueEvent;
use crate::job::{ConsumerName, EntryId, Lane, Lease};

/// The pause between two passes is this many leases …
const LEASES: u32 = 4;

/// … but no longer than this.
const EVERY: Duration = Duration::from_secs(60);

/// The most scripts by which one pass looks through a lane. The next pass continues from there.
const PAGES: u32 = 100;

/// From this many known orphans of a lane on, no more are looked for until these are pending again.
const MOST: usize = 10_000;

/// Where a search of a lane begins. No entry has this id.
const START: EntryId = EntryId { ms: 0, seq: 0 };

/// Searches until stopped.
pub(super) async fn run(context: Context) {
    let mut search = Search::new(&context);
    let mut chore = context.chore(search.pause()).jitter(1.0..1.2).later();
    while chore.tick().await {
        let mut count = 0;
        for lane in Lane::ALL {
            chore.note(search.pass(lane, &mut count).await);
        }
        chore.next_about(search.pause());
        // Includes what was made pending before an error.
        if count > 0 {
            context.events.of_queue(context.queue.name(), QueueEvent::OrphansReclaimed { count });
        }
    }
}

/// The pause between two passes: a lease, if orphans are known, and otherwise longer.
fn pause(lease: Duration, is_clear: bool) -> Duration {
    let pause = if is_clear { lease * LEASES } else { lease };
    pause.min(EVERY)
}

/// How far the search is.
struct Search<'a> {
    context: &'a Context,
    /// Who owns the orphans until they are claimed.
    owner: ConsumerName,
    began: Instant,
    lanes: [SearchedLane; 3],
}

/// How far the search of one lane is.
#[derive(Default)]
struct SearchedLane {
    /// Where the next pass continues; `None` at the beginning.
    after: Option<EntryId>,
    suspects: Suspects,
}

impl<'a> Search<'a> {
    fn new(context: &'a Context) -> Self {
        let owner = claimer::claimant(&context.consumer);
        Self { context, owner, began: Instant::now(), lanes: Default::default() }
    }

    fn pause(&self) -> Duration {
        pause(self.context.lease, self.lanes.iter().all(|lane| lane.suspects.is_empty()))
    }

    /// Makes known orphans of a lane pending again, adds their number to `count`, and looks for others.
    async fn pass(&mut self, lane: Lane, count: &mut u64) -> Result<(), Error> {
        let (queue, lease) = (&self.context.queue, self.context.lease);
        let searched = &mut self.lanes[lane as usize];
        let due = searched.suspects.due(self.began.elapsed(), lease);
        for ids in due.chunks(MAX_RECLAIMED) {
            // Silent for just long enough to be claimed.
            let silence = Lease::of(lease).stale_after();
            *count += queue.reclaim_orphans(&self.owner, lane, ids, silence).await?;
            searched.suspects.forget(ids);
        }
        for _ in 0..PAGES {
            if searched.suspects.is_full() || self.context.stop.is_cancelled() {
                break;
            }
            let page = queue.orphans(lane, searched.after.unwrap_or(START)).await?;
            searched.suspects.note(&page.found, self.began.elapsed());
            searched.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// Entries that were orphans when they were looked at, each with the time after which that was known.
#[derive(Debug, Default)]
struct Suspects(BTreeMap<EntryId, Duration>);

impl Suspects {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// Notes entries that were found. The first time counts.
    fn note(&mut self, found: &[EntryId], now: Duration) {
        for id in found {
            self.0.entry(*id).or_insert(now);
        }
    }

    /// Returns those that were found at least this long ago.
    fn due(&self, now: Duration, lease: Duration) -> Vec<EntryId> {
        let due = self.0.iter().filter(|(_, found)| now.saturating_sub(**found) >= lease);
        due.map(|(id, _)| *id).collect()
    }

    fn forget(&mut self, ids: &[EntryId]) {
        for id in ids {
            self.0.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn known_orphans_are_looked_at_again_after_a_lease() {
        assert_eq!([pause(secs(15), true), pause(secs(15), false)], [secs(60), secs(15)]);
        assert_eq!([pause(secs(1), true), pause(secs(1), false)], [secs(4), secs(1)]);
        assert_eq!([pause(secs(3600), true), pause(secs(3600), false)], [secs(60), secs(60)]);
    }

    #[test]
    fn a_forgotten_orphan_must_be_found_twice_again() {
        let (mut suspects, id) = (Suspects::default(), EntryId::new(7, 1));
        suspects.note(&[id], secs(10));
        suspects.note(&[id], secs(20));
        assert_eq!(suspects.due(secs(25), secs(15)), [id]);
        suspects.forget(&[id]);
        assert!(suspects.is_empty());
        suspects.note(&[id], secs(30));
        assert!(suspects.due(secs(44), secs(15)).is_empty());
        assert_eq!(suspects.due(secs(45), secs(15)), [id]);
    }

    proptest! {
        /// Whenever entries are found, none is due before a lease has passed since the first time, and each is due then.
        #[test]
        fn an_orphan_is_due_one_lease_after_it_was_first_found(
            finds in proptest::collection::vec((1..20_u64, 0..100_u64), 0..40),
            now in 0..200_u64,
            lease in 1..50_u64,
        ) {
            let mut finds = finds;
            finds.sort_by_key(|(_, at)| *at);
            let mut suspects = Suspects::default();
            for (id, at) in &finds {
                suspects.note(&[EntryId::new(*id, 0)], secs(*at));
            }
            let due = suspects.due(secs(now), secs(lease));
            for id in 1..20 {
                let first = finds.iter().filter(|(found, _)| *found == id).map(|(_, at)| *at).min();
                let is_due = first.is_some_and(|first| now >= first + lease);
                prop_assert_eq!(due.contains(&EntryId::new(id, 0)), is_due);
            }
        }
    }
}
