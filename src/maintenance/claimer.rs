//! Takes over the entries of consumers that fell silent, and settles each as a lost attempt: the same decision and the
//! same scripts as for any other outcome.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::broker::{Applied, ClaimFrom, Entry, Error, Keep, Ran, Taken};
use crate::event::{Event, Finished};
use crate::job::{ConsumerName, Job, JobId, Lane, Outcome, Portion, Routing, Settlement, settle};

/// How many entries one command takes over, at first and at most …
const FIRST: usize = 4;
const PAGE: usize = 100;

/// … and about how many bytes: all of them are held until they are settled.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// The pauses between two tries begin and end with these, and no try begins later than this.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_TRY: Duration = Duration::from_secs(30);

/// Claims until stopped.
pub(super) async fn run(duty: Duty, stop: CancellationToken) {
    let every = duty.lease / 3;
    let duty = Duty { consumer: claimant(&duty.consumer), ..duty };
    let mut trusted_from = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(every.mul_f64(0.8 + 0.2 * rand::random::<f64>())) => {}
            () = stop.cancelled() => break,
        }
        // After an outage, or a stall, every entry looks silent. Live workers get time to renew theirs before anything
        // is taken.
        let asked = Instant::now();
        let prompt = duty.broker.ping().await.is_ok() && asked.elapsed() < duty.lease / 4;
        if !prompt {
            trusted_from = Instant::now() + duty.lease / 2;
        }
        if Instant::now() < trusted_from {
            continue;
        }
        if let Err(error) = pass(&duty).await {
            duty.events.redis_error(error.kind(), &error);
            trusted_from = Instant::now() + duty.lease / 2;
        }
    }
    if let Err(error) = duty.queue.reap(duty.queue.link(), duty.consumer.as_str()).await {
        tracing::debug!(%error, "the claimer's consumer was not removed; the reaper will find it");
    }
}

/// What is taken over belongs to a consumer of its own until it is settled: this process's reader takes what is pending
/// for its own consumer, and unknown to it, for a delivery whose reply was lost.
fn claimant(consumer: &ConsumerName) -> ConsumerName {
    format!("{consumer}.claims").parse().unwrap_or_else(|_| consumer.clone())
}

async fn pass(duty: &Duty) -> Result<(), Error> {
    let mut portion = Portion::new(FIRST, PAGE, PAGE_BYTES);
    for lane in Lane::ALL {
        // One XPENDING finds the first silent entry twenty times cheaper per entry than XAUTOCLAIM, which looks at ten
        // times COUNT entries and no further.
        let link = duty.queue.link();
        let mut next = duty.queue.first_stale(link, lane, duty.lease).await?;
        while let Some(start) = next {
            let from = ClaimFrom { start, lease: duty.lease, count: portion.count() as u64 };
            let claimed = duty.queue.claim(link, &duty.consumer, lane, from).await?;
            portion.saw(claimed.entries.iter().map(Entry::size));
            let queue = duty.queue.name();
            if claimed.deleted > 0 {
                duty.events.tell(&Event::BodiesLost { queue, entries: claimed.deleted as u64 });
            }
            if !claimed.entries.is_empty() {
                duty.events.tell(&Event::Claimed { queue, jobs: claimed.entries.len() as u64 });
            }
            let mut settling: FuturesUnordered<_> =
                claimed.entries.into_iter().map(|entry| settle_lost(duty, entry)).collect();
            while let Some(settled) = settling.next().await {
                settled?;
            }
            next = claimed.next.filter(|next| *next > start);
        }
    }
    // Every answer of this pass has been heard.
    duty.queue.forget_receipts(duty.queue.link(), &duty.consumer, &[]).await
}

async fn settle_lost(duty: &Duty, entry: Entry) -> Result<(), Error> {
    let ran = Ran { elapsed: Duration::ZERO, outcome: "lost", worker: "-" };
    let name = JobId::derived(entry.id, entry.lane);
    let empty = crate::job::Envelope::default();
    let envelope = entry.envelope.as_ref().unwrap_or(&empty);
    let job = match Job::parse(envelope, entry.id, entry.lane) {
        Ok(job) => job,
        Err(why) => {
            let why = why.to_string();
            let bury = || duty.queue.bury_malformed(&duty.consumer, &entry, &why, &ran);
            if let Some(Some(job)) = insist(duty, &name, bury).await? {
                duty.events.tell(&Event::Finished(Finished::malformed(duty.queue.name(), &job, &why)));
            }
            return Ok(());
        }
    };
    let policy = duty.policies.of(&job.job_type);
    let settlement = settle(&job, policy, Routing::default(), &Outcome::Lost, rand::random());
    let tracking = job.tracking(policy, duty.tracking);
    let keep = Keep { record: true, tracking, retention: duty.retention, result: None };
    let taken = Taken { job: &job, envelope, trace: None };
    let apply = || duty.queue.apply(&duty.consumer, taken, &settlement, keep, &ran);
    let told = match insist(duty, &job.id, apply).await? {
        Some(Applied::Moved) => settlement,
        Some(Applied::Cancelled) => Settlement::Cancel("cancelled".to_owned()),
        Some(Applied::Stale | Applied::Late | Applied::Untraced) | None => return Ok(()),
    };
    let queue = duty.queue.name();
    duty.events.tell(&Event::Lost { queue, job_type: &job.job_type });
    let told = Finished::new(queue, &job, &told, (Duration::ZERO, (duty.age)(job.created)));
    duty.events.tell(&Event::Finished(told));
    Ok(())
}

/// Sends until Redis has answered: whoever hears no answer must ask again, or nobody tells what was done. `None` where Redis
/// refuses this job alone: the others go on, and whoever finds it silent again tries again.
async fn insist<T, F: Future<Output = Result<T, Error>>>(
    duty: &Duty,
    job: &JobId,
    send: impl Fn() -> F,
) -> Result<Option<T>, Error> {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match send().await {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) if !error.is_transient() => {
                duty.events.redis_error(error.kind(), &error);
                let (queue, keys) = (duty.queue.name(), duty.queue.keys_of(job));
                duty.events.tell(&Event::SetAside { queue, job, keys: &keys, error: &error.to_string() });
                return Ok(None);
            }
            Err(error) if began.elapsed() > LONGEST_TRY => return Err(error),
            Err(error) => duty.events.redis_error(error.kind(), &error),
        }
        tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
