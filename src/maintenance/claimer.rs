//! Claims the entries of consumers that fell silent, and settles each as a lost attempt, with the same decision and the
//! same scripts as any other outcome.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::broker::{
    Applied, AttemptSummary, ClaimFrom, EndedAttempt, Entry, Error, KeepRecord, SilentEntry, TakenJob,
};
use crate::event::{Event, Finished};
use crate::job::{
    ClockReading, ClockWatch, ConsumerName, EntryId, JobId, JobSpec, Lane, Lease, Outcome, Settlement, settle,
};
use crate::sabotage::{self, Sabotage};

/// The number of entries that one command claims.
const PAGE: u64 = 100;

/// If a lane has too many pending entries for one script to check, one pass checks this many pages in which nobody is
/// silent, and the next pass continues from there. A page has a thousand entries, and costs Redis about half a millisecond.
const PAGES: u32 = 200;

/// What [`Queue::stale`](crate::broker::Queue::stale) returns for such a lane.
const SOMEWHERE: EntryId = EntryId { ms: 0, seq: 0 };

/// How many claimed entries are settled at a time, and so how many bodies are held in memory.
const AT_ONCE: usize = 8;

/// The first and the longest pause between two tries. No try begins later than `LONGEST_TRY`.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_TRY: Duration = Duration::from_secs(30);

/// Claims entries until stopped.
pub(super) async fn run(context: Context, stop: CancellationToken) {
    let context = Context { consumer: claimant(&context.consumer), ..context };
    let mut claimer = Claimer::new(&context);
    let every = claimer.lease.search_every();
    loop {
        if let Err(error) = claimer.pass().await {
            context.events.redis_error(error.kind(), &error);
            claimer.watch.fail(claimer.now());
        }
        tokio::select! {
            () = tokio::time::sleep(every.mul_f64(0.8 + 0.2 * rand::random::<f64>())) => {}
            () = stop.cancelled() => break,
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
            self.context.queue.redate().await?;
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
            self.context
                .queue
                .forget_receipts(self.context.queue.link(), &self.context.consumer, &[])
                .await?;
            self.has_settled = false;
        }
        Ok(())
    }

    /// Claims and settles what is silent in one lane, page by page, until `pages` pages had nothing. Returns where to
    /// continue; `None` at the end of the lane.
    async fn take(&mut self, lane: Lane, first: EntryId, mut pages: u32) -> Result<Option<EntryId>, Error> {
        let (context, queue) = (self.context, self.context.queue.name());
        let mut next = Some(first);
        while let Some(start) = next.filter(|_| pages > 0) {
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
                context.events.emit(&Event::BodiesLost { queue, entries: claimed.deleted });
            }
            if claimed.entries.is_empty() {
                pages -= 1;
            } else {
                context.events.emit(&Event::Claimed { queue, jobs: claimed.entries.len() as u64 });
                self.has_settled = true;
            }
            let settling = claimed.entries.into_iter().map(|silent| settle_taken(context, lane, silent));
            let mut settling = futures_util::stream::iter(settling).buffer_unordered(AT_ONCE);
            while let Some(settled) = settling.next().await {
                settled?;
            }
            next = claimed.next.filter(|next| *next > start);
        }
        Ok(next)
    }
}

async fn settle_taken(context: &Context, lane: Lane, silent: SilentEntry) -> Result<(), Error> {
    let read = || context.queue.read_entry(lane, silent.id);
    match retry(context, &JobId::derived(silent.id, lane), read).await? {
        Some(Some(entry)) => settle_lost(context, entry, &silent).await,
        // Its owner has just settled it after all. If it is still pending, the next pass clears it up.
        Some(None) | None => Ok(()),
    }
}

async fn settle_lost(context: &Context, entry: Entry, silent: &SilentEntry) -> Result<(), Error> {
    let ran = AttemptSummary { elapsed: silent.silence, outcome: "lost", worker: &silent.owner };
    let name = JobId::derived(entry.id, entry.lane);
    let empty = crate::job::Envelope::default();
    let envelope = entry.envelope.as_ref().unwrap_or(&empty);
    let job = match JobSpec::parse(envelope, entry.id, entry.lane) {
        Ok(job) => job,
        Err(why) => {
            let why = why.to_string();
            let bury = || context.queue.bury_malformed(&context.consumer, &entry, &why, &ran);
            if let Some(Some(job)) = retry(context, &name, bury).await? {
                context.events.emit(&Event::Finished(Finished::malformed(context.queue.name(), &job, &why)));
            }
            return Ok(());
        }
    };
    let policy = context.policies.of(&job.job_type);
    let settlement = settle(&job, policy, &Outcome::Lost, rand::random());
    let tracking = job.tracking(policy, context.tracking);
    let keep = KeepRecord { record: true, tracking, retention: context.retention, result: None };
    let taken = TakenJob { job: &job, envelope, trace: None };
    let ended = EndedAttempt { taken, settlement: &settlement, keep, ran };
    let apply = || context.queue.apply(&context.consumer, ended);
    let settlement = match retry(context, &job.id, apply).await? {
        Some(Applied::Moved) => settlement,
        Some(Applied::Cancelled) => Settlement::Cancel("cancelled".to_owned()),
        Some(Applied::Stale | Applied::Late | Applied::Untraced) | None => return Ok(()),
    };
    let queue = context.queue.name();
    context.events.emit(&Event::Lost { queue, job_type: &job.job_type });
    let finished = Finished::new(queue, &job, &settlement, (Duration::ZERO, (context.age)(job.created)));
    context.events.emit(&Event::Finished(finished));
    Ok(())
}

/// Sends a command until Redis answers: without an answer, nobody would report what was done. Returns `None` if Redis
/// refuses this job alone. The other jobs continue, and this one is tried again when it is next found silent.
pub(super) async fn retry<T, F: Future<Output = Result<T, Error>>>(
    context: &Context,
    job: &JobId,
    send: impl Fn() -> F,
) -> Result<Option<T>, Error> {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match send().await {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) if !error.is_transient() => {
                context.events.redis_error(error.kind(), &error);
                let (queue, keys) = (context.queue.name(), context.queue.keys_of(job));
                context.events.emit(&Event::SetAside { queue, job, keys: &keys, error: &error.to_string() });
                return Ok(None);
            }
            Err(error) if began.elapsed() > LONGEST_TRY => return Err(error),
            Err(error) => context.events.redis_error(error.kind(), &error),
        }
        tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
