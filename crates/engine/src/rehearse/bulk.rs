//! The part of a rehearsal in which a job is made due and moved to another queue.

use super::super::client::error::Error;
use super::super::client::keys::Keys;
use super::super::{
    BulkAction, BulkCursor, BulkError, BulkTerms, Cancellation, Queue, Unique, UniqueMode, UniqueScope,
};
use super::{GENERATIONS, Rehearsal, expect_same};
use crate::job::filter::Filter;

impl Rehearsal<'_> {
    /// Makes a delayed job due, moves it to another queue, and cancels it there. In a cluster, the other queue is in another
    /// slot, so the job is not moved.
    pub(super) async fn move_jobs(&self) -> Result<(), Error> {
        let name = self.broker.name_on(None, |name| Keys::new(self.broker.namespace(), name).control);
        let (other, id) = (self.broker.queue(name), self.id("moved"));
        let key = "moved".parse().expect("a plain word is a valid key");
        let unique = Unique { key, scope: UniqueScope::Running, mode: UniqueMode::Reject };
        self.submit_twice("moved", Some(unique)).await?;
        expect_same("run_now", self.change(BulkAction::RunNow).await?, 1)?;
        if self.broker.is_clustered() {
            let cancelled = self.queue.cancel(&id, "the rehearsal", GENERATIONS).await?;
            return expect_same("cancel", cancelled, Cancellation::Done);
        }
        self.note_keys_of(&other);
        expect_same("move_jobs", self.change(BulkAction::Move(other.name().clone())).await?, 1)?;
        let cancelled = other.cancel(&id, "the rehearsal", GENERATIONS).await?;
        expect_same("cancel", cancelled, Cancellation::Done)
    }

    /// Does this with the job. Returns how many changed.
    async fn change(&self, action: BulkAction) -> Result<u64, Error> {
        let bulk = self.queue.bulk();
        let id = self.id("moved").to_string();
        let filter =
            Filter::new().id_prefix(&id).map_err(|error| Error::contract("bulk", error.to_string()))?;
        let selection = bulk.select(action, filter, None).await?;
        let terms = BulkTerms::new("the rehearsal").retention(GENERATIONS);
        let (mut changed, mut next) = (0, Some(BulkCursor::default()));
        while let Some(from) = next {
            let page = bulk.advance(&selection, &terms, from).await.map_err(|error| {
                let BulkError::Redis(error) = error else {
                    return Error::contract("bulk", error.to_string());
                };
                error
            })?;
            (changed, next) = (changed + page.tally.changed, page.next);
        }
        Ok(changed)
    }

    /// Notes what the job leaves in the other queue.
    fn note_keys_of(&self, other: &Queue) {
        let (keys, id) = (&other.keys, self.id("moved"));
        let key = "moved".parse().expect("a plain word is a valid key");
        let kept =
            [&keys.delayed, &keys.delayed_fields, &keys.wake, &keys.endings, &keys.cancels, &keys.counts];
        kept.into_iter().for_each(|key| self.note_key(key.clone()));
        [keys.record(&id), keys.lock(Some(&key))].into_iter().for_each(|key| self.note_key(key));
    }
}
