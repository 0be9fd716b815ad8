//! Doing what somebody wants with the jobs of a selection, page by page. The caller may stop after every page, and begin
//! again: what is done is not found again.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};

use super::hasten::Hastened;
use super::relocate::{KeptBack, Relocated};
use super::selection::{BulkAction, BulkJobs, BulkSelection};
use super::terms::BulkTerms;
use crate::client::error::Error;
use crate::inspect::jobs::Spot;
use crate::job::{Envelope, QueueName};
use crate::{Cancellation, FoundJob, JobCursor, Queue};

/// How many jobs are cancelled at once.
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

/// What became of the jobs so far; see the [example](BulkJobs).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkTally {
    /// How many were cancelled, made due, or moved.
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

/// What became of one job.
enum Outcome {
    Changed,
    Requested,
    Gone,
    Kept(KeptBack),
    Failed(String),
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
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Changed => self.changed += 1,
            Outcome::Requested => self.requested += 1,
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
        let Self { changed, requested, gone, read, .. } = self;
        Self { changed, requested, gone, read, ..Self::default() }
    }

    /// Returns true if jobs that match were left as they were.
    pub fn has_left_overs(&self) -> bool {
        self.failed > 0 || self.undecided > 0 || !self.kept.is_empty() || !self.unread.is_empty()
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
    /// again: what is done is not found again. A selection and its clones make a job due only once, even if it fails at once
    /// and waits for its next attempt.
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
        self.check(&selection.action)?;
        let tally = BulkTally::default();
        let Some(round) = selection.round(from.round) else { return Ok(BulkPage { tally, next: None }) };
        let (page, fields) = self.queue.find_with_fields(&round.search, from.at).await?;
        let found = page.jobs.into_iter().zip(fields);
        let is_wanted = |(job, fields): &(FoundJob, Option<Envelope>)| {
            selection.has(job, page.now) && !selection.was_hastened(job, fields.as_ref())
        };
        let found: Vec<_> = found.filter(is_wanted).collect();
        let is_delayed = found.iter().any(|(job, _)| job.spot() == Spot::Delayed);
        let mut tally = BulkTally { read: page.read, ..BulkTally::default() };
        let outcomes = self.queue.carry_out(&selection.action, terms, &found).await?;
        if selection.action == BulkAction::RunNow {
            let changed = found.iter().zip(&outcomes).filter(|(_, told)| matches!(told, Outcome::Changed));
            changed.for_each(|((job, fields), _)| selection.note_hastened(job, fields.as_ref()));
        }
        outcomes.into_iter().for_each(|outcome| tally.count(outcome));
        if tally.failed >= HOPELESS && tally.failed == found.len() as u64 {
            // Nothing suggests that the others will fare better.
            let why = tally.errors.join("; ");
            return Err(Error::refused("the operation", why).into());
        }
        // A page of the delayed set begins after a number of jobs, and some of them are gone now: those behind them moved up.
        let is_read_again = is_delayed && tally.changed > 0;
        tally.undecided = page.too_large + page.unreadable;
        tally.unread.extend(page.unread);
        if is_read_again || !round.is_last {
            tally = tally.without_left_overs();
        }
        let after = BulkCursor { round: from.round, at: page.next };
        let next = if is_read_again {
            from
        } else if page.next.is_some() {
            after
        } else {
            BulkCursor { round: from.round.saturating_add(1), at: None }
        };
        Ok(BulkPage { tally, next: Some(next).filter(|next| selection.round(next.round).is_some()) })
    }
}

impl Queue {
    async fn carry_out(
        &self,
        action: &BulkAction,
        terms: &BulkTerms,
        found: &[(FoundJob, Option<Envelope>)],
    ) -> Result<Vec<Outcome>, Error> {
        match action {
            BulkAction::Cancel => self.cancel_all(terms, found).await,
            BulkAction::RunNow => {
                let told = self.hasten(found).await?;
                Ok(told.into_iter().map(Outcome::from).collect())
            }
            BulkAction::Move(to) => {
                let told = self.relocate(&self.beside(to), terms, found).await?;
                Ok(told.into_iter().map(Outcome::from).collect())
            }
        }
    }

    async fn cancel_all(
        &self,
        terms: &BulkTerms,
        found: &[(FoundJob, Option<Envelope>)],
    ) -> Result<Vec<Outcome>, Error> {
        let (by, retention) = (&terms.by, terms.retention);
        // Futures rather than an iterator that makes them: a server's tasks may move to another thread at every wait, and the
        // compiler cannot see that such an iterator may, too.
        let cancelling: Vec<_> = found
            .iter()
            .map(|(job, fields)| self.cancel_found((job, fields.clone()), by, retention))
            .collect();
        let mut cancelled = stream::iter(cancelling).buffer_unordered(AT_ONCE);
        let mut outcomes = Vec::with_capacity(found.len());
        while let Some(answer) = cancelled.next().await {
            outcomes.push(match answer {
                Ok(Cancellation::Done) => Outcome::Changed,
                Ok(Cancellation::Requested) => Outcome::Requested,
                Ok(Cancellation::Ended(_) | Cancellation::Unknown) => Outcome::Gone,
                // A key of this job alone has another type.
                Err(error @ Error::Refused { .. }) if !error.is_transient() => {
                    Outcome::Failed(error.to_string())
                }
                Err(error) => return Err(error),
            });
        }
        Ok(outcomes)
    }
}

impl From<Hastened> for Outcome {
    fn from(hastened: Hastened) -> Self {
        match hastened {
            Hastened::Done => Self::Changed,
            Hastened::Gone => Self::Gone,
            Hastened::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<Relocated> for Outcome {
    fn from(relocated: Relocated) -> Self {
        match relocated {
            Relocated::Moved => Self::Changed,
            Relocated::Gone => Self::Gone,
            Relocated::Kept(why) => Self::Kept(why),
            Relocated::Failed(error) => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outcome(nth: usize) -> Outcome {
        match nth % 5 {
            0 => Outcome::Changed,
            1 => Outcome::Requested,
            2 => Outcome::Gone,
            3 => Outcome::Kept(KeptBack::ALL[nth % KeptBack::ALL.len()]),
            _ => Outcome::Failed(format!("error {nth}")),
        }
    }

    fn all(tally: &BulkTally) -> u64 {
        tally.changed + tally.requested + tally.gone + tally.failed + tally.kept.values().sum::<u64>()
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
