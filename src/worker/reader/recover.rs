//! What lost replies delivered: it is pending for this worker, whose slots do not know it. Until it is found nobody renews it,
//! and in the end another worker takes it for lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{FIRST_ENTRIES, MAX_ENTRIES, READ_BYTES, Reader, RedisBackoff};
use crate::broker::{Class, Entry, Error};
use crate::job::{EntryId, Lane, Portion};

impl Reader {
    /// Notes that a read failed, so that its reply may be lost. What a person must fix was refused, and delivered nothing.
    pub(super) fn doubt(&self, error: &Error) {
        if error.class() != Some(Class::Configuration) {
            self.reading.unsure.store(true, Ordering::Release);
        }
    }

    /// Finds what lost replies delivered, if any may be lost. Returns false if this must be tried again before the next read.
    pub(super) async fn is_sure(&self, backoff: &mut RedisBackoff) -> bool {
        let Err(error) = self.recover_if_unsure().await else { return true };
        self.repair(&error, backoff).await;
        // A lane that somebody must fix does not hold up the others.
        !error.is_transient()
    }

    async fn recover_if_unsure(&self) -> Result<(), Error> {
        if !self.reading.unsure.load(Ordering::Acquire) {
            return Ok(());
        }
        let _alone = self.reading.gate.write().await;
        let found = self.recover().await?;
        // While nobody reads, no more replies get lost.
        self.reading.unsure.store(false, Ordering::Release);
        if found > 0 {
            tracing::info!(queue = %self.queue.name(), found, "found deliveries whose reply was lost");
        }
        Ok(())
    }

    /// Takes those of our own pending entries that are not known here. What is known is noted before they are read,
    /// because an entry that is settled meanwhile must not be taken for unknown.
    async fn recover(&self) -> Result<usize, Error> {
        let known = self.held_leases.known();
        let mut found = 0;
        let mut portion = Portion::new(FIRST_ENTRIES, MAX_ENTRIES, READ_BYTES);
        for lane in Lane::ALL {
            let mut after = EntryId::new(0, 0);
            loop {
                let read = self.queue.read_own(&self.link, &self.consumer, lane, after, portion.count());
                let mut page = self.await_read(read, Duration::ZERO).await?;
                portion.record_sizes(page.entries.iter().map(Entry::size));
                let Some(last) = page.entries.last() else { break };
                after = last.id;
                page.entries.retain(|entry| !known.contains(&(lane, entry.id)));
                let count = page.entries.len();
                found += count;
                self.dispatcher.reserve_anyway(count);
                let taken = self.accept(page, count).await;
                self.dispatcher.free(count - taken);
            }
        }
        Ok(found)
    }
}
