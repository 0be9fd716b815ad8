//! Cuts many submissions into round trips.

use super::Submission;
use crate::broker::{Due, Durability};
use crate::job::{Envelope, weight};

/// The most work for Redis in one round trip, in plain jobs, so that no script blocks Redis for longer than a few
/// milliseconds.
const BATCH_WORK: usize = 500;

/// The most that the jobs of one round trip weigh.
const BATCH_WEIGHT: usize = 512 * 1024;

/// Cuts submissions into round trips by work, by weight, and so that those of one round trip that would be duplicated
/// if they were sent again are all sent by one script, which accepts all or none: except that those with unique keys may need
/// more, to look at the holders.
pub(super) struct Batches<I: Iterator<Item = Submission>> {
    submissions: std::iter::Peekable<I>,
}

/// The script that accepts a job which would become two jobs if it were sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Once {
    /// Appended to its lane.
    Now,
    /// Put into the delayed set.
    Later,
    /// Accepted under an id that is drawn, because it has a unique key.
    Locked,
}

impl Once {
    /// `None` if the job has an id of its own.
    fn of(submission: &Submission) -> Option<Self> {
        match (&submission.id, &submission.unique) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(Self::Locked),
            (None, None) if submission.job.due == Due::Now => Some(Self::Now),
            (None, None) => Some(Self::Later),
        }
    }
}

/// True if these jobs can be sent twice, because all of them have ids of their own.
pub(super) fn is_repeatable(batch: &[Submission]) -> bool {
    batch.iter().all(|submission| submission.id.is_some())
}

/// True if these jobs may be sent while others are in flight, because the script that accepts them checks that those before
/// them were accepted. A large job is accepted without a script, and a durable one over a connection of its own.
pub(super) fn can_take_turns(batch: &[Submission]) -> bool {
    let mut now = batch.iter().filter(|submission| Once::of(submission) == Some(Once::Now));
    let has_script = match (now.next(), now.next()) {
        (Some(only), None) => only.bytes < Envelope::LARGE_BYTES / 2,
        (first, _) => first.is_some(),
    };
    has_script && batch.iter().all(|submission| submission.durability == Durability::Memory)
}

impl<I: Iterator<Item = Submission>> Batches<I> {
    pub(super) fn of(submissions: I) -> Self {
        Self { submissions: submissions.peekable() }
    }
}

impl<I: Iterator<Item = Submission>> Iterator for Batches<I> {
    type Item = Vec<Submission>;

    fn next(&mut self) -> Option<Vec<Submission>> {
        let first = self.submissions.next()?;
        let (mut work, mut sum, mut once) = (cost_of(&first), weight_of(&first), Once::of(&first));
        let mut batch = vec![first];
        let fits = |next: &Submission, work: usize, sum: usize, once: Option<Once>| {
            let goes_with = Once::of(next).is_none_or(|other| once.is_none_or(|once| once == other));
            goes_with && work + cost_of(next) <= BATCH_WORK && sum + weight_of(next) <= BATCH_WEIGHT
        };
        while let Some(next) = self.submissions.next_if(|next| fits(next, work, sum, once)) {
            once = once.or_else(|| Once::of(&next));
            work += cost_of(&next);
            sum += weight_of(&next);
            batch.push(next);
        }
        Some(batch)
    }
}

fn weight_of(submission: &Submission) -> usize {
    weight(submission.bytes, submission.job.fields.len())
}

/// What a job costs Redis, in plain jobs. A job with an id has a record, a member of a batch also has its place there,
/// and one with a unique key looks up the key's holder.
fn cost_of(submission: &Submission) -> usize {
    let has_batch = || submission.job.fields.iter().any(|(name, _)| name == "batch");
    match (&submission.unique, &submission.id) {
        (Some(_), _) => 20,
        (None, Some(_)) if has_batch() => 10,
        (None, Some(_)) => 5,
        (None, None) if submission.job.due != Due::Now => 4,
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{UniqueMode, UniqueScope};

    #[test]
    fn a_round_trip_carries_fewer_jobs_if_each_is_more_work() {
        let job = |nth: usize| Submission::new("a").unwrap().header("nth", &nth.to_string()).unwrap();
        let own = |nth: usize| job(nth).id(format!("own-{nth}").parse().unwrap());
        let member = |nth: usize| own(nth).field("batch", "b");
        let delayed = |nth: usize| job(nth).delay(std::time::Duration::from_secs(1));
        let unique =
            |nth: usize| own(nth).unique("k".parse().unwrap(), UniqueScope::Running, UniqueMode::Reject);
        let first = |jobs: Vec<Submission>| Batches::of(jobs.into_iter()).next().map(|batch| batch.len());
        assert_eq!(first((0..600).map(job).collect()), Some(500));
        assert_eq!(first((0..600).map(delayed).collect()), Some(125));
        assert_eq!(first((0..600).map(own).collect()), Some(100));
        assert_eq!(first((0..600).map(member).collect()), Some(50));
        assert_eq!(first((0..600).map(unique).collect()), Some(25));
        let headers = |nth: usize| {
            (0..940).fold(job(nth), |job, header| job.header(&format!("{header:03}"), "x").unwrap())
        };
        assert_eq!(first((0..20).map(headers).collect()), Some(7));
    }

    #[test]
    fn a_round_trip_has_one_script_for_jobs_that_must_not_be_sent_twice() {
        let job = || Submission::new("a").unwrap();
        let own = |id: &str| job().id(id.parse().unwrap());
        let later = || job().delay(std::time::Duration::from_secs(1));
        let unique = || job().unique("k".parse().unwrap(), UniqueScope::Running, UniqueMode::Reject);
        let low = || job().lane(crate::job::Lane::Low);
        let jobs =
            vec![own("a"), job(), low(), own("b"), job(), later(), own("c"), unique(), own("d"), own("e")];
        let batches: Vec<_> = Batches::of(jobs.into_iter()).collect();
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [5, 2, 3]);
        assert!(!batches.iter().any(|batch| is_repeatable(batch)) && is_repeatable(&[own("a")]));
    }
}
