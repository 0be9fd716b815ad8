//! The part of a rehearsal that ends a job with an entry in the journal, and reads and deletes that.

use std::time::Duration;

use super::{Error, LEASE, Rehearsal, expect_same, job};
use crate::history::journal::JournalFields;
use crate::job::Settlement;
use crate::{Due, JournalFigures};

/// How many bytes the journal may have meanwhile.
const MOST: u64 = 1 << 20;

impl Rehearsal<'_> {
    /// Ends a job while the queue has a journal.
    pub(super) async fn journal(&self) -> Result<(), Error> {
        let own = self.consumer.as_str();
        expect_same("lease", self.queue.lead_journal(own, LEASE).await?, true)?;
        self.queue.keep_journal(MOST, JournalFields::All).await?;
        self.queue.append(&[job(Due::Now)], None, None).await?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &Settlement::Ack).await?;
        let ends = self.queue.read_journal(None).await?;
        expect_same("xrange", ends.iter().map(|ended| ended.fields.is_some()).collect(), vec![true])?;
        self.queue.forget_ends(&ends).await?;
        self.queue.forget_lost_ends().await?;
        self.queue.note_journal_error(Some("rehearsed")).await?;
        let error = self.queue.journal_figures().await?.error.map(|(why, _)| why);
        expect_same("hset", error.as_deref(), Some("rehearsed"))?;
        self.queue.note_journal_error(None).await?;
        let none = JournalFigures { most: Some(MOST), ..JournalFigures::default() };
        expect_same("xlen", self.queue.journal_figures().await?, none)?;
        self.queue.end_journal().await?;
        self.queue.lead_journal(own, Duration::ZERO).await?;
        // If another process submits an outbox, this one may ask at least.
        if self.broker.lead_outbox(own, LEASE).await? {
            self.broker.lead_outbox(own, Duration::ZERO).await?;
        }
        self.broker.outbox_state().await?;
        Ok(())
    }
}
