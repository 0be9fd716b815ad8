//! Claims the entries of consumers that fell silent, and settles each as a [lost](lost) attempt, with the same decision and
//! the same scripts as any other outcome. Then it gives back the [places](places) that the attempt held in gates.

mod lost;
mod places;
mod retry;

use std::time::{Duration, Instant};

pub(super) use retry::retry;

use super::Context;
use crate::broker::{ClaimFrom, Error};
use crate::event::QueueEvent;
use crate::job::{ClockReading, ClockWatch, ConsumerName, EntryId, Lane, Lease};
use crate::sabotage::{self, Sabotage};

/// The number of entries that one command claims, and so the most bodies of jobs that are held in memory.
const PAGE: u64 = 100;

/// If a lane has too many pending entries for one script to check, one pass checks this many pages in which nobody is
/// silent, and the next pass continues from there. A page has a thousand entries, and costs Redis about half a millisecond.
const PAGES: u32 = 200;

/// What [`Queue::stale`](crate::broker::Queue::stale) returns for such a lane.
const SOMEWHERE: EntryId = EntryId { ms: 0, seq: 0 };

/// Claims entries until stopped.
pub(super) async fn run(context: Context) {
    let context = Context { consumer: claimant(&context.consumer), ..context };
    let mut claimer = Claimer::new(&context);
    let mut chore = context.chore(claimer.lease.search_every()).jitter(0.8..1.0);
    while chore.tick().await {
        if chore.note(claimer.pass().await).is_none() {
            claimer.watch.fail(claimer.now());
        }
    }
    if let Err(error) = context.queue.reap(context.queue.link(), context.consumer.as_str()).await {
        tracing::debug!(%error, "failed to remove the claimer's consumer; the reaper will find it");
    }
}

/// Names the separate consumer that owns claimed entries until they are settled. If they belonged to this process's own
/// consumer, its reader would take them for a delivery whose reply was lost.
pub(super) fn claimant(consumer: &ConsumerName) -> ConsumerName {
    format!("{consumer}.claims").parse().unwrap_or_else(|_| consumer.clone())
}

/// Claims what has been silent for too long, but nothing that only looks so because the server's clock was set, or
/// because nobody could renew for a while.
struct Claimer<'a> {
    context: &'a Context,
    lease: Lease,
    began: Instant,
    watch: ClockWatch,
    /// Whether entries may be dated later than the server's clock.
    is_dated_wrong: bool,
    /// Whether there may be receipts of settled entries.
    has_settled: bool,
    /// Where the next pass continues in lanes that are checked in pages.
    resume: [EntryId; 3],
}

impl<'a> Claimer<'a> {
    fn new(context: &'a Context) -> Self {
        let early = if sabotage::is(Sabotage::ClaimedEarly) { 6 } else { 1 };
        let lease = Lease::of(context.lease / early);
        // Entries may be dated wrong, because nobody knows what the server's clock did before.
        Self {
            context,
            lease,
            began: Instant::now(),
            watch: ClockWatch::new(lease),
            is_dated_wrong: true,
            has_settled: false,
            resume: [SOMEWHERE; 3],
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    async fn pass(&mut self) -> Result<(), Error> {
        let asked = self.now();
        let silence = self.watch.silence(asked).unwrap_or_else(|| self.lease.stale_after());
        // Per entry, XPENDING finds the first silent entry twenty times cheaper than XAUTOCLAIM.
        let stale = self.context.queue.stale(silence).await?;
        let shown = self.watch.observe([asked, self.now()], stale.now_ms);
        if shown != ClockReading::Steady {
            tracing::warn!(queue = %self.context.queue.name(), ?shown, "the clock of redis jumped, or its answer was slow; taking over nothing for a while");
        }
        self.is_dated_wrong |= shown == ClockReading::Back;
        if self.is_dated_wrong {
            self.heed(self.context.queue.redate()).await?;
            self.is_dated_wrong = false;
        }
        for (lane, first) in stale.first {
            match first {
                None => self.resume[lane as usize] = SOMEWHERE,
                Some(SOMEWHERE) => {
                    let from = self.resume[lane as usize];
                    self.resume[lane as usize] = self.take(lane, from, PAGES).await?.unwrap_or(SOMEWHERE);
                }
                Some(first) => {
                    self.resume[lane as usize] = SOMEWHERE;
                    self.take(lane, first, u32::MAX).await?;
                }
            }
        }
        if self.has_settled {
            // Every answer has arrived.
            let Context { queue, consumer, .. } = self.context;
            self.heed(queue.forget_receipts(queue.link(), consumer, &[])).await?;
            self.has_settled = false;
        }
        Ok(())
    }

    /// Awaits commands whose answers do not show the clock. If they took long, Redis may have stalled for everybody: then live
    /// owners look silent, and get the time to renew.
    async fn heed<T>(&mut self, commands: impl Future<Output = T>) -> T {
        let sent = self.now();
        let answer = commands.await;
        if self.watch.is_late([sent, self.now()]) {
            tracing::warn!(queue = %self.context.queue.name(), "redis was slow to answer; taking over nothing for a while");
            self.watch.fail(self.now());
        }
        answer
    }

    /// Claims and settles what is silent in one lane, page by page, until `pages` pages had nothing or the claimer is
    /// stopped. Returns where to continue; `None` at the end of the lane.
    async fn take(&mut self, lane: Lane, first: EntryId, mut pages: u32) -> Result<Option<EntryId>, Error> {
        let (context, queue) = (self.context, self.context.queue.name());
        let mut next = Some(first);
        while let Some(start) = next.filter(|_| pages > 0 && !self.context.stop.is_cancelled()) {
            let (now, trusts) = (self.now(), sabotage::is(Sabotage::ClockTrusted));
            let silence = if trusts { Some(self.lease.stale_after()) } else { self.watch.silence(now) };
            let (Some(silence), Some(window)) = (silence, self.watch.window(now)) else {
                break;
            };
            let from = ClaimFrom { start, silence, count: PAGE, window };
            let Some(claimed) = context.queue.claim(&context.consumer, lane, from).await? else {
                tracing::warn!(%queue, "the clock of redis was set, or redis was frozen; taking over nothing for a while");
                self.watch.fail(self.now());
                break;
            };
            if claimed.deleted > 0 {
                context.events.of_queue(queue, QueueEvent::BodiesLost { entries: claimed.deleted });
            }
            if claimed.entries.is_empty() {
                pages -= 1;
            } else {
                context.events.of_queue(queue, QueueEvent::Claimed { jobs: claimed.entries.len() as u64 });
                self.has_settled = true;
            }
            self.heed(lost::settle_all(context, lane, claimed.entries)).await?;
            next = claimed.next.filter(|next| *next > start);
        }
        Ok(next)
    }
}
