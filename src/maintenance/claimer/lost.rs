//! Settles claimed entries as lost attempts: jobs of usual size in groups of one script each, and everything else alone. What
//! a group could not settle is sent again alone, so that one entry that Redis refuses delays only itself.

use std::mem::discriminant;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;

use super::places::Places;
use super::retry::retry;
use crate::broker::{
    Applied, AttemptSummary, EndedAttempt, Entry, Error, GroupMember, KeepRecord, SilentEntry, TakenJob,
    grouped, is_followed, settling_weight,
};
use crate::event::{Event, Finished};
use crate::job::{Envelope, JobId, JobSpec, Lane, Malformed, Outcome, Settlement, settle};
use crate::maintenance::Context;

/// How many entries are read, or settled alone, at a time. Only these may have large bodies.
const AT_ONCE: usize = 8;

/// How many groups are in flight, so that Redis need not wait while the next one is sent.
const GROUPS_AT_ONCE: usize = 4;

/// A job whose attempt was lost, with what is decided about it.
struct LostJob {
    job: JobSpec,
    envelope: Envelope,
    silent: SilentEntry,
    settlement: Settlement,
}

impl LostJob {
    /// Decides what follows.
    fn new(context: &Context, job: JobSpec, entry: Entry, silent: SilentEntry) -> Self {
        let policy = context.policies.of(&job.job_type);
        let outcome = Outcome::Lost("the worker stopped responding".to_owned());
        let settlement = settle(&job, policy, &outcome, rand::random());
        Self { job, envelope: entry.envelope.unwrap_or_default(), silent, settlement }
    }

    /// What decides with which others it is settled.
    fn member(&self, context: &Context) -> GroupMember {
        let is_followed = is_followed(&self.job, context.policies.of(&self.job.job_type), &self.settlement);
        let bytes = self.envelope.size();
        let weight = settling_weight(&self.settlement, &self.envelope, bytes, is_followed);
        GroupMember { lane: self.job.lane, kind: discriminant(&self.settlement), weight }
    }

    /// The attempt in the form that the broker takes.
    fn ended<'a>(&'a self, context: &'a Context) -> EndedAttempt<'a> {
        let policy = context.policies.of(&self.job.job_type);
        let tracking = self.job.tracking(policy, context.tracking);
        EndedAttempt {
            taken: TakenJob { job: &self.job, envelope: &self.envelope, trace: None },
            policy,
            settlement: &self.settlement,
            keep: KeepRecord {
                record: true,
                has_steps: false,
                tracking,
                retention: context.retention,
                result: None,
                fields: false,
            },
            ran: summary(&self.silent),
        }
    }
}

/// What is noted about an attempt whose worker fell silent.
fn summary(silent: &SilentEntry) -> AttemptSummary<'_> {
    AttemptSummary { elapsed: silent.silence, outcome: "lost", worker: &silent.owner }
}

/// Settles the entries of one page of a lane.
///
/// # Errors
///
/// [`Error`] if Redis did not answer for a while. What is left stays pending, and is claimed again later.
pub(super) async fn settle_all(context: &Context, lane: Lane, page: Vec<SilentEntry>) -> Result<(), Error> {
    if page.is_empty() {
        return Ok(());
    }
    let places = Places::open(context).await;
    let settled = settle_page((context, &places), lane, page).await;
    places.give_back(context).await;
    settled
}

/// What the settling of a page shares: the places that its attempts held are noted.
type Settling<'a> = (&'a Context, &'a Places);

async fn settle_page(
    (context, places): Settling<'_>,
    lane: Lane,
    page: Vec<SilentEntry>,
) -> Result<(), Error> {
    let (mut lost, mut alone, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    let reading = page.into_iter().map(|silent| read(context, lane, silent));
    let mut reading = iter(reading).buffer_unordered(AT_ONCE);
    while let Some(read) = reading.next().await {
        match read {
            Ok(job) => lost.extend(job),
            Err(silent) => unread.push(silent),
        }
    }
    let groups = grouped(lost, |lost| lost.member(context))
        .into_iter()
        .map(|group| settle_group((context, places), group));
    let mut groups = iter(groups).buffer_unordered(GROUPS_AT_ONCE);
    while let Some(left) = groups.next().await {
        alone.extend(left);
    }
    // What needs no memory of Redis comes before what may: large fields have keys of their own.
    let mut alone =
        iter(alone.into_iter().map(|job| settle_alone((context, places), job))).buffer_unordered(AT_ONCE);
    while let Some(settled) = alone.next().await {
        settled?;
    }
    let unread = unread.into_iter().map(|silent| settle_unread((context, places), lane, silent));
    let mut unread = iter(unread).buffer_unordered(AT_ONCE);
    while let Some(settled) = unread.next().await {
        settled?;
    }
    Ok(())
}

/// Reads a claimed entry. Returns its job if it can be settled together with others; `None` if its owner has just settled
/// it after all. If it is still pending, the next pass clears it up. An error is an entry that must be read again, to be
/// settled alone: it is large, is not a job, or was not answered.
async fn read(context: &Context, lane: Lane, silent: SilentEntry) -> Result<Option<LostJob>, SilentEntry> {
    let entry = match context.queue.read_entry(lane, silent.id).await {
        Ok(Some(entry)) => entry,
        Ok(None) => return Ok(None),
        Err(error) => {
            context.events.redis_error(error.kind(), &error);
            return Err(silent);
        }
    };
    match job_of(&entry) {
        Ok(job) if entry.size() <= Envelope::LARGE_BYTES => {
            Ok(Some(LostJob::new(context, job, entry, silent)))
        }
        Ok(_) | Err(_) => Err(silent),
    }
}

fn job_of(entry: &Entry) -> Result<JobSpec, Malformed> {
    let empty = Envelope::default();
    JobSpec::parse(entry.envelope.as_ref().unwrap_or(&empty), entry.id, entry.lane)
}

/// Settles a group with one script. Returns what must be sent again alone.
async fn settle_group((context, places): Settling<'_>, group: Vec<LostJob>) -> Vec<LostJob> {
    let ended: Vec<_> = group.iter().map(|lost| lost.ended(context)).collect();
    let results = match context.queue.apply_all(&context.consumer, &ended).await {
        Ok(results) => results,
        Err(error) => {
            context.events.redis_error(error.kind(), &error);
            return group;
        }
    };
    let mut left = Vec::new();
    for (lost, result) in group.into_iter().zip(results) {
        match result {
            Ok(applied) => {
                places.leave(&lost.job, &lost.envelope);
                report(context, &lost, applied);
            }
            Err(error) => {
                context.events.redis_error(error.kind(), &error);
                left.push(lost);
            }
        }
    }
    left
}

async fn settle_alone((context, places): Settling<'_>, lost: LostJob) -> Result<(), Error> {
    let ended = lost.ended(context);
    let apply = || context.queue.apply(&context.consumer, ended);
    let applied = retry(context, &lost.job.id, apply).await?;
    places.leave(&lost.job, &lost.envelope);
    if let Some(applied) = applied {
        report(context, &lost, applied);
    }
    Ok(())
}

async fn settle_unread(
    (context, places): Settling<'_>,
    lane: Lane,
    silent: SilentEntry,
) -> Result<(), Error> {
    let name = JobId::derived(silent.id, lane);
    let read = || context.queue.read_entry(lane, silent.id);
    let Some(Some(entry)) = retry(context, &name, read).await? else { return Ok(()) };
    let why = match job_of(&entry) {
        Ok(job) => return settle_alone((context, places), LostJob::new(context, job, entry, silent)).await,
        Err(why) => why.to_string(),
    };
    let ran = summary(&silent);
    let bury = || context.queue.bury_malformed(&context.consumer, &entry, &why, &ran);
    if let Some(Some(job)) = retry(context, &name, bury).await? {
        context.events.emit(&Event::Finished(Finished::malformed(context.queue.name(), &job, &why)));
    }
    Ok(())
}

/// Reports what became of a lost attempt.
fn report(context: &Context, LostJob { job, settlement, .. }: &LostJob, applied: Applied) {
    let cancelled = Settlement::Cancel("cancelled".to_owned());
    let settlement = match applied {
        Applied::Moved => settlement,
        Applied::Cancelled => &cancelled,
        Applied::Stale | Applied::Late | Applied::Untraced => return,
    };
    let queue = context.queue.name();
    context.events.emit(&Event::Lost { queue, job_type: &job.job_type });
    let finished = Finished::new(queue, job, settlement, (Duration::ZERO, (context.age)(job.created)));
    context.events.emit(&Event::Finished(finished));
}
