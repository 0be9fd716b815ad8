//! Watches the waiting lists of types that no live worker knows: reports them, and ends the jobs that have waited there for too
//! long. A job that is to end is first delivered to the leader, and then buried like any other attempt. If the leader
//! dies in between, its entry is claimed like all others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use futures_util::StreamExt;

use super::Context;
use super::claimer::{claimant, retry};
use crate::broker::{
    Applied, AttemptSummary, EndedAttempt, Entry, Error, KeepRecord, MAX_TAKEN, Overdue, TakenJob,
    UnknownType,
};
use crate::event::{Event, Finished, QueueEvent};
use crate::job::nearest::nearest;
use crate::job::{Envelope, JobId, JobSpec, JobType, Settlement, Timestamp, settle_unserved};

/// The pause between two passes.
const EVERY: Duration = Duration::from_secs(5);

/// The most commands of one pass that search for waiting lists. The next pass continues from there.
const PAGES: usize = 20;

/// The most calls of one pass that take jobs to bury, over all waiting lists.
const CALLS: usize = 20;

/// How many jobs are buried at a time.
const AT_ONCE: usize = 8;

/// The shortest time between two questions to the workers about what they know, …
const ASK_EVERY: Duration = Duration::from_secs(10);

/// … and how much longer it is for each worker.
const ASK_EVERY_EACH: Duration = Duration::from_secs(4);

/// How long after a report about a type the next one follows, …
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// … and the most types about which reports are remembered. Others are only counted.
const MAX_REPORTED: usize = 100;

/// The most types that are watched until their jobs may end. The jobs of others wait until some of these are gone.
const MAX_SEEN: usize = 20_000;

/// Watches until stopped.
pub(super) async fn run(context: Context) {
    let context = Context { consumer: claimant(&context.consumer), ..context };
    let (mut chore, mut walk) = (context.chore(EVERY).later(), Walk::default());
    while chore.tick().await {
        chore.note(walk.pass(&context).await);
        chore.note(walk.ask(&context).await);
    }
}

/// One walk through all waiting lists. It takes several passes if there are many.
#[derive(Default)]
struct Walk {
    /// Where the next pass continues.
    from: Option<String>,
    /// The types and jobs found so far.
    types: u64,
    jobs: u64,
    /// When each type was last reported, and whether this walk has found it.
    reported: BTreeMap<JobType, (Instant, bool)>,
    seen: Seen,
    shown: Shown,
    /// The types that the live workers know, when they were asked, and for how long that is enough.
    known: BTreeSet<JobType>,
    asked: Option<(Instant, Duration)>,
}

impl Walk {
    async fn pass(&mut self, context: &Context) -> Result<(), Error> {
        let mut calls = CALLS;
        for _ in 0..PAGES {
            let page = context.queue.unknown_waitlists(self.from.as_deref()).await?;
            // The clock of Redis may have been set forward, so that all waits look longer than they are.
            let until =
                page.now.and_then(|now| self.shown.note(now, Instant::now(), context.unroutable_after));
            let waited = context.unroutable_after;
            let overdue = Overdue { waited, quiet: waited.max(page.unasked_for), until };
            for unknown in &page.types {
                let Some(unserved_for) = unknown.unserved_for else {
                    self.seen.forget(&unknown.job_type);
                    continue;
                };
                self.note(context, unknown);
                let seen_for = self.seen.note(&unknown.job_type, Instant::now());
                // A waiting list that was emptied by hand is forgotten in the same way.
                if unserved_for.min(seen_for) >= context.unroutable_after || unknown.jobs == 0 {
                    let buried = bury(context, &unknown.job_type, (overdue, &mut calls)).await;
                    // A waiting list that Redis refuses keeps no job of another type from its end.
                    if let Err(error) = buried {
                        if error.is_transient() {
                            return Err(error);
                        }
                        context.events.redis_error(error.kind(), &error);
                    }
                }
            }
            self.from = page.next;
            if self.from.is_none() {
                self.end(context);
                return Ok(());
            }
            if context.stop.is_cancelled() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Finds out which types the live workers know, and writes it down for those who submit jobs.
    async fn ask(&mut self, context: &Context) -> Result<(), Error> {
        if self.asked.is_some_and(|(at, every)| at.elapsed() < every) {
            return Ok(());
        }
        let live = context.broker.live_types(&context.queue).await?;
        let members = u32::try_from(live.members).unwrap_or(u32::MAX);
        let every = ASK_EVERY.max(ASK_EVERY_EACH.saturating_mul(members));
        self.asked = Some((Instant::now(), every));
        context.queue.set_known_types(&live, every + EVERY).await?;
        self.known = live.types.unwrap_or_default();
        Ok(())
    }

    /// Counts a type that no worker knows, and reports it if that is news.
    fn note(&mut self, context: &Context, unknown: &UnknownType) {
        let UnknownType { job_type, jobs, .. } = unknown;
        if *jobs == 0 {
            return;
        }
        self.types += 1;
        self.jobs += jobs;
        let is_due = match self.reported.get_mut(job_type) {
            Some((at, found)) => {
                *found = true;
                let is_due = at.elapsed() >= REPORT_AGAIN_AFTER;
                if is_due {
                    *at = Instant::now();
                }
                is_due
            }
            None => {
                let is_listed = self.reported.len() < MAX_REPORTED;
                if is_listed {
                    self.reported.insert(job_type.clone(), (Instant::now(), true));
                }
                is_listed
            }
        };
        if is_due {
            let near = nearest(job_type.as_str(), self.known.iter().map(JobType::as_str));
            context
                .events
                .of_queue(context.queue.name(), QueueEvent::TypeUnserved { job_type, jobs: *jobs, near });
        }
    }

    /// Reports what the walk has counted, and starts over.
    fn end(&mut self, context: &Context) {
        let (types, jobs) = (std::mem::take(&mut self.types), std::mem::take(&mut self.jobs));
        context.events.of_queue(context.queue.name(), QueueEvent::UnservedTypes { types, jobs });
        self.reported.retain(|_, (_, found)| std::mem::replace(found, false));
        self.seen.end_walk();
    }
}

/// Since when this process has found that no worker knows each type, by its own clock, and whether this walk has found it.
#[derive(Default)]
struct Seen(BTreeMap<JobType, (Instant, bool)>);

impl Seen {
    /// Notes that no worker knows a type. Returns for how long that has been found in each walk.
    fn note(&mut self, job_type: &JobType, now: Instant) -> Duration {
        if let Some((since, found)) = self.0.get_mut(job_type) {
            *found = true;
            return now.saturating_duration_since(*since);
        }
        if self.0.len() < MAX_SEEN {
            self.0.insert(job_type.clone(), (now, true));
        }
        Duration::ZERO
    }

    fn forget(&mut self, job_type: &JobType) {
        self.0.remove(job_type);
    }

    fn end_walk(&mut self) {
        self.0.retain(|_, (_, found)| std::mem::replace(found, false));
    }
}

/// How many times a process remembers at most.
const MAX_SHOWN: u32 = 256;

/// What the clock of Redis showed, and when that was by the clock of this process, the oldest first.
#[derive(Default)]
struct Shown(VecDeque<(Instant, Timestamp)>);

impl Shown {
    /// Notes what the clock shows. Returns what it showed this long `ago`, or somewhat earlier; `None` if that is not known.
    fn note(&mut self, shown: Timestamp, now: Instant, ago: Duration) -> Option<Timestamp> {
        let since = |(at, _): &(Instant, Timestamp)| now.saturating_duration_since(*at);
        if self.0.back().is_none_or(|last| since(last) >= ago / MAX_SHOWN) {
            self.0.push_back((now, shown));
        }
        while self.0.get(1).is_some_and(|second| since(second) >= ago) {
            self.0.pop_front();
        }
        self.0.front().filter(|first| since(first) >= ago).map(|(_, shown)| *shown)
    }
}

/// Buries jobs that have waited in a waiting list for too long, the oldest first.
async fn bury(
    context: &Context,
    job_type: &JobType,
    (overdue, calls): (Overdue, &mut usize),
) -> Result<(), Error> {
    while *calls > 0 && !context.stop.is_cancelled() {
        *calls -= 1;
        let (link, most) = (context.queue.link(), MAX_TAKEN);
        let taken = context.queue.take(link, &context.consumer, (job_type, most), Some(overdue)).await?;
        let ending = taken.entries.into_iter().map(|entry| end(context, job_type, entry));
        let mut ending = futures_util::stream::iter(ending).buffer_unordered(AT_ONCE);
        while let Some(ended) = ending.next().await {
            ended?;
        }
        if taken.moved == 0 || !taken.more {
            break;
        }
    }
    Ok(())
}

/// Buries one job, or gives it back if it is of another type. What Redis refuses stays pending, and is claimed like the
/// entry of a dead worker.
async fn end(context: &Context, job_type: &JobType, entry: Entry) -> Result<(), Error> {
    let worker = context.consumer.as_str();
    let ran = AttemptSummary { elapsed: Duration::ZERO, outcome: "unroutable", worker };
    let empty = Envelope::default();
    let envelope = entry.envelope.as_ref().unwrap_or(&empty);
    let job = match JobSpec::parse(envelope, entry.id, entry.lane) {
        Ok(job) => job,
        Err(why) => {
            let (name, why) = (JobId::derived(entry.id, entry.lane), why.to_string());
            let bury = || context.queue.bury_malformed(&context.consumer, &entry, &why, &ran);
            if let Some(Some(job)) = retry(context, &name, bury).await? {
                context.events.emit(&Event::Finished(Finished::malformed(context.queue.name(), &job, &why)));
            }
            return Ok(());
        }
    };
    let is_overdue = job.job_type == *job_type;
    let settlement =
        if is_overdue { settle_unserved(&job, context.unroutable_after) } else { Settlement::Release };
    let policy = context.policies.of(&job.job_type);
    let tracking = job.tracking(policy, context.tracking);
    let keep = KeepRecord {
        record: true,
        has_steps: false,
        tracking,
        retention: context.retention,
        result: None,
        fields: false,
    };
    let taken = TakenJob { job: &job, envelope, trace: None };
    let ended = EndedAttempt { taken, policy, settlement: &settlement, keep, ran };
    let settlement = match retry(context, &job.id, || context.queue.apply(&context.consumer, ended)).await? {
        Some(Applied::Moved) if is_overdue => settlement,
        Some(Applied::Moved) => return Ok(()),
        Some(Applied::Cancelled) => Settlement::Cancel("cancelled".to_owned()),
        Some(Applied::Stale | Applied::Late | Applied::Untraced) | None => return Ok(()),
    };
    let age = (context.age)(job.created);
    let finished = Finished::new(context.queue.name(), &job, &settlement, (Duration::ZERO, age));
    context.events.emit(&Event::Finished(finished));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_clock_of_redis_makes_no_job_overdue() {
        const HOUR: u64 = 3600;
        let (mut shown, start) = (Shown::default(), Instant::now());
        let mut note = |secs: u64, ahead: u64| {
            let (now, ago) = (start + Duration::from_secs(secs), Duration::from_secs(HOUR));
            let at = Timestamp::from_ms(1000 * (secs + ahead)).unwrap();
            shown.note(at, now, ago).map(|shown| shown.as_ms() / 1000)
        };
        for secs in (0..HOUR).step_by(5) {
            assert_eq!(note(secs, 0), None);
        }
        assert_eq!(note(HOUR, 0), Some(0));
        assert!(note(HOUR + 100, 2 * HOUR).is_some_and(|shown| (85..=100).contains(&shown)));
        // An hour after the step, what came before it is overdue.
        assert!(note(2 * HOUR, 2 * HOUR).is_some_and(|shown| shown <= HOUR));
        for secs in (2 * HOUR..4 * HOUR).step_by(5) {
            note(secs, 2 * HOUR);
        }
        assert!(note(4 * HOUR, 2 * HOUR).is_some_and(|shown| (5 * HOUR - 20..=5 * HOUR).contains(&shown)));
        assert!(shown.0.len() <= MAX_SHOWN as usize + 2);
        let at_once = Timestamp::default();
        assert_eq!(Shown::default().note(at_once, start, Duration::ZERO), Some(at_once));
    }

    #[test]
    fn a_type_is_unserved_for_as_long_as_each_walk_has_found_it_so() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let job_type: JobType = "mail.send".parse().unwrap();
        let at = |secs| start + Duration::from_secs(secs);
        let note = |seen: &mut Seen, secs| seen.note(&job_type, at(secs)).as_secs();
        assert_eq!((note(&mut seen, 0), note(&mut seen, 5)), (0, 5));
        seen.end_walk();
        assert_eq!(note(&mut seen, 60), 60);
        seen.end_walk();
        // This walk does not find it.
        seen.end_walk();
        assert_eq!((note(&mut seen, 70), note(&mut seen, 71)), (0, 1));
        seen.forget(&job_type);
        assert_eq!(note(&mut seen, 80), 0);
    }
}
