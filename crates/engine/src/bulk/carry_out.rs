//! Doing what somebody wants with the jobs of a selection, page by page. The caller may stop after every page, and begin
//! again: what is done is not found again.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use futures_util::{StreamExt, stream};

use super::fence::{Fence, has_mark};
use super::move_jobs::{KeptBack, Route};
use super::outcome::Outcome;
use super::selection::{BulkAction, BulkJobs, BulkSelection};
use super::terms::BulkTerms;
use crate::client::error::Error;
use crate::inspect::jobs::Spot;
use crate::job::{Envelope, QueueName, State};
use crate::{FoundJob, JobCursor, Queue};

/// How many jobs are cancelled, and letters dropped, at once.
const AT_ONCE: usize = 32;

/// The most errors that a tally quotes.
const MAX_ERRORS: usize = 5;

/// If a page has at least this many jobs, and Redis refuses to change any of them, the work ends.
const HOPELESS: u64 = 20;

/// Why an operation on many jobs is refused; see [`BulkJobs::advance`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BulkError {
    /// The jobs are there already.
    #[error("the jobs are already in the queue {0}")]
    SameQueue(QueueName),
    /// In a cluster, one script cannot move a job between these queues.
    #[error(
        "the queues {from} and {to} are in different slots of the cluster, so no job can be moved between them without the risk of \
         losing it or running it twice"
    )]
    OtherSlot {
        /// The queue that has the jobs.
        from: QueueName,
        /// The queue that should get them.
        to: QueueName,
    },
    /// Redis does not answer or refuses.
    #[error(transparent)]
    Redis(#[from] Error),
}

/// Where a page of the work begins; see the [example](BulkJobs). The default is the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkCursor {
    round: u8,
    at: Option<JobCursor>,
}

impl fmt::Display for BulkCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(out, "{} {at}", self.round),
            None => write!(out, "{} ", self.round),
        }
    }
}

impl FromStr for BulkCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = || "it must be the `next` of an earlier page".to_owned();
        let (round, at) = text.split_once(' ').ok_or_else(rule)?;
        let at = Some(at).filter(|at| !at.is_empty()).map(str::parse::<JobCursor>).transpose()?;
        Ok(Self { round: round.parse().map_err(|_| rule())?, at })
    }
}

/// What became of the jobs so far; see the [example](BulkJobs).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkTally {
    /// How many were cancelled, made due, moved, or dropped.
    pub changed: u64,
    /// How many run and were asked to stop.
    pub requested: u64,
    /// How many had ended, had become due, or had moved by themselves before it was their turn.
    pub gone: u64,
    /// How many were left alone, and why.
    pub kept: BTreeMap<KeptBack, u64>,
    /// How many Redis refused to change.
    pub failed: u64,
    /// Some of the errors with which it did.
    pub errors: Vec<String>,
    /// How many jobs nobody can judge, because their payload is too large or cannot be read. They are left alone.
    pub undecided: u64,
    /// Parts of the queue that cannot be read, and why.
    pub unread: Vec<String>,
    /// How many jobs were looked at.
    pub read: u64,
    /// How many of those that were asked to stop had been asked before.
    asked_before: u64,
}

/// A page of the work; see the [example](BulkJobs).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BulkPage {
    /// What became of the jobs of this page.
    pub tally: BulkTally,
    /// Where the next page begins; `None` if this was the last one.
    pub next: Option<BulkCursor>,
}

/// How far a piece of the work came.
#[derive(Debug)]
pub(crate) enum Reached {
    /// The end of the page. Where the next one begins; `None` if this was the last one.
    End(Option<BulkCursor>),
    /// A page that must be read again: jobs behind those that are gone moved up, or as many jobs are changed as may be now.
    Again,
    /// The task is not on this page any more: somebody paused it, or another process was faster.
    Passed,
    /// Redis refuses to change any of many jobs, and nothing suggests that the others will fare better. The errors.
    Hopeless(String),
}

/// A piece of the work.
#[derive(Debug)]
pub(crate) struct Worked {
    /// What became of its jobs.
    pub(crate) tally: BulkTally,
    /// How many jobs were looked at for the first time, without those that scripts count.
    pub(crate) looked: u64,
    pub(crate) reached: Reached,
}

impl BulkTally {
    /// Adds the tally of another page.
    pub fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.requested += other.requested;
        self.gone += other.gone;
        for (why, count) in other.kept {
            *self.kept.entry(why).or_default() += count;
        }
        self.failed += other.failed;
        self.errors.extend(other.errors);
        self.errors.truncate(MAX_ERRORS);
        self.undecided += other.undecided;
        self.unread.extend(other.unread);
        self.read += other.read;
        self.asked_before += other.asked_before;
    }

    /// Returns how many were changed or asked to stop now.
    fn done(&self) -> u64 {
        self.changed + self.requested - self.asked_before
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Changed => self.changed += 1,
            Outcome::Requested { was_asked } => {
                self.requested += 1;
                self.asked_before += u64::from(was_asked);
            }
            Outcome::Gone => self.gone += 1,
            Outcome::Kept(why) => *self.kept.entry(why).or_default() += 1,
            Outcome::Failed(error) => {
                self.failed += 1;
                if self.errors.len() < MAX_ERRORS && !self.errors.contains(&error) {
                    self.errors.push(error);
                }
            }
        }
    }

    /// Returns what changed, without what was left alone: that is looked at again.
    fn without_left_overs(self) -> Self {
        let Self { changed, requested, gone, read, asked_before, .. } = self;
        Self { changed, requested, gone, read, asked_before, ..Self::default() }
    }
}

impl BulkJobs<'_> {
    /// Refuses what cannot be done with the jobs of this queue. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`BulkError`] if jobs are to be moved to the queue in which they are or, in a cluster, to a queue of another slot.
    pub fn check(self, action: &BulkAction) -> Result<(), BulkError> {
        let BulkAction::Move(to) = action else { return Ok(()) };
        let (queue, other) = (self.queue, self.queue.keys.beside(to));
        if queue.name == *to {
            return Err(BulkError::SameQueue(to.clone()));
        }
        let is_elsewhere = other.control.cluster_hash() != queue.keys.control.cluster_hash();
        if queue.link.is_clustered() && is_elsewhere {
            return Err(BulkError::OtherSlot { from: queue.name.clone(), to: to.clone() });
        }
        Ok(())
    }

    /// Does the next page of the work, and says what became of its jobs. A page has a few hundred jobs at most.
    ///
    /// Jobs go on living meanwhile. One that has ended or moved when it is its turn is counted as gone. After an error, begin
    /// again: what is done is not found again. A selection makes a job due only once, even if it fails at once and waits for its next
    /// attempt.
    ///
    /// # Errors
    ///
    /// [`BulkError`] if it [cannot be done](Self::check), or Redis does not answer or refuses everything.
    pub async fn advance(
        self,
        selection: &BulkSelection,
        terms: &BulkTerms,
        from: BulkCursor,
    ) -> Result<BulkPage, BulkError> {
        let fence = Fence::none(&self.queue.keys);
        let Worked { tally, reached, .. } = self.work(selection, terms, (from, u64::MAX), &fence).await?;
        let next = match reached {
            Reached::End(next) => next,
            Reached::Again => Some(from),
            Reached::Passed => return Err(Error::contract("bulk", "a fence where there is no task").into()),
            Reached::Hopeless(why) => return Err(Error::refused("the operation", why).into()),
        };
        Ok(BulkPage { tally, next })
    }

    /// Does the next page of the work, or what may be done of it now: `most` changes.
    pub(crate) async fn work(
        self,
        selection: &BulkSelection,
        terms: &BulkTerms,
        (from, most): (BulkCursor, u64),
        fence: &Fence,
    ) -> Result<Worked, BulkError> {
        self.check(&selection.action)?;
        let mut tally = BulkTally::default();
        let Some(round) = selection.round(from.round) else {
            return Ok(Worked { tally, looked: 0, reached: Reached::End(None) });
        };
        let (page, fields) = self.queue.find_with_fields(&round.search, from.at).await?;
        // The script that changed these has counted them.
        let counted = fields.iter().filter(|fields| has_mark(fields.as_ref(), &selection.id)).count() as u64;
        let found = page.jobs.into_iter().zip(fields);
        let is_wanted =
            |(job, fields): &(FoundJob, Option<Envelope>)| selection.has(job, fields.as_ref(), page.now);
        let found: Vec<_> = found.filter(is_wanted).collect();
        let is_delayed = found.iter().any(|(job, _)| job.spot() == Spot::Delayed);
        tally.read = page.read;
        let mut left = &found[..];
        while !left.is_empty() && tally.done() < most {
            let count = usize::try_from(most - tally.done()).unwrap_or(usize::MAX).min(left.len());
            let (some, others) = left.split_at(count);
            let Some(outcomes) = self.queue.carry_out(selection, terms, fence, some).await? else {
                return Ok(Worked { tally, looked: 0, reached: Reached::Passed });
            };
            outcomes.into_iter().for_each(|outcome| tally.count(outcome));
            left = others;
        }
        let tried = (found.len() - left.len()) as u64;
        if tally.failed >= HOPELESS && tally.failed == tried {
            let why = tally.errors.join("; ");
            return Ok(Worked { tally, looked: 0, reached: Reached::Hopeless(why) });
        }
        tally.undecided = page.too_large + page.unreadable;
        tally.unread.extend(page.unread);
        // A page of the delayed set begins after a number of jobs, and some of them are gone now: those behind them moved up.
        let is_read_again = !left.is_empty() || is_delayed && tally.changed > 0;
        if is_read_again || !round.is_last {
            tally = tally.without_left_overs();
        }
        if is_read_again {
            return Ok(Worked { tally, looked: 0, reached: Reached::Again });
        }
        let next = match page.next {
            Some(at) => BulkCursor { round: from.round, at: Some(at) },
            None => BulkCursor { round: from.round.saturating_add(1), at: None },
        };
        let next = Some(next).filter(|next| selection.round(next.round).is_some());
        let looked = tally.read.saturating_sub(tally.changed + tally.requested + counted);
        let looked = if round.is_first { looked } else { 0 };
        Ok(Worked { tally, looked, reached: Reached::End(next) })
    }
}

impl Queue {
    /// Does it to these jobs of one place. Returns what became of each; `None` if the task is not on this page any more.
    async fn carry_out(
        &self,
        selection: &BulkSelection,
        terms: &BulkTerms,
        fence: &Fence,
        found: &[(FoundJob, Option<Envelope>)],
    ) -> Result<Option<Vec<Outcome>>, Error> {
        match &selection.action {
            BulkAction::RunNow => self.run_now(&selection.id, fence, found).await,
            BulkAction::Move(to) => {
                let route = Route { to: &self.beside(to), terms, mark: &selection.id, fence };
                self.move_jobs(route, found).await
            }
            BulkAction::Cancel | BulkAction::Drop | BulkAction::Purge => {
                // Futures rather than an iterator that makes them: a server's tasks may move to another thread at every wait, and
                // the compiler cannot see that such an iterator may, too.
                let ending: Vec<_> = found.iter().map(|found| self.end(terms, fence, found)).collect();
                let mut ended = stream::iter(ending).buffer_unordered(AT_ONCE);
                let mut outcomes = Vec::with_capacity(found.len());
                while let Some(outcome) = ended.next().await {
                    let Some(outcome) = outcome? else { return Ok(None) };
                    outcomes.push(outcome);
                }
                Ok(Some(outcomes))
            }
        }
    }

    /// Cancels a job, or drops a dead letter. `None` if the task is not on this page any more.
    async fn end(
        &self,
        terms: &BulkTerms,
        fence: &Fence,
        (job, fields): &(FoundJob, Option<Envelope>),
    ) -> Result<Option<Outcome>, Error> {
        let done = if job.state == State::Dead {
            self.drop_found(job, fields.as_ref(), fence).await
        } else {
            let cancelled = self.cancel_found((job, fields.clone()), terms, fence).await;
            cancelled.map(|cancelled| cancelled.map(Outcome::from))
        };
        match done {
            // A key of this job alone has another type.
            Err(error @ Error::Refused { .. }) if !error.is_transient() => {
                Ok(Some(Outcome::Failed(error.to_string())))
            }
            done => done,
        }
    }

    async fn drop_found(
        &self,
        job: &FoundJob,
        fields: Option<&Envelope>,
        fence: &Fence,
    ) -> Result<Option<Outcome>, Error> {
        let (Some(letter), Some(fields), Ok(id)) = (job.entry, fields, job.id.parse()) else {
            return Ok(Some(Outcome::Gone));
        };
        let dropped = self.dead_letters().drop_found((letter, fields), &id, fence).await?;
        Ok(dropped.map(|is_dropped| if is_dropped { Outcome::Changed } else { Outcome::Gone }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outcome(nth: usize) -> Outcome {
        match nth % 5 {
            0 => Outcome::Changed,
            1 => Outcome::Requested { was_asked: nth > 500 },
            2 => Outcome::Gone,
            3 => Outcome::Kept(KeptBack::ALL[nth % KeptBack::ALL.len()]),
            _ => Outcome::Failed(format!("error {nth}")),
        }
    }

    fn all(tally: &BulkTally) -> u64 {
        tally.changed + tally.requested + tally.gone + tally.failed + tally.kept.values().sum::<u64>()
    }

    #[test]
    fn every_cursor_is_read_back_from_its_text() {
        let at = Some("waiting-high:1700000000000-0".parse().unwrap());
        for cursor in [BulkCursor::default(), BulkCursor { round: 2, at }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "1", "x ", "1 everywhere:0-0"] {
            assert!(text.parse::<BulkCursor>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_tally_counts_every_job_once_however_they_are_paged(
            nths in proptest::collection::vec(0..1000_usize, 0..100),
            size in 1..20_usize,
        ) {
            let mut whole = BulkTally::default();
            for page in nths.chunks(size) {
                let mut tally = BulkTally::default();
                page.iter().for_each(|nth| tally.count(outcome(*nth)));
                prop_assert_eq!(all(&tally), page.len() as u64);
                whole.add(tally);
            }
            prop_assert_eq!(all(&whole), nths.len() as u64);
            prop_assert!(whole.errors.len() <= MAX_ERRORS);
            prop_assert_eq!(whole.failed > 0, !whole.errors.is_empty());
        }
    }
}
