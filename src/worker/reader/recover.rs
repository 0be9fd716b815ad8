//! What lost replies delivered: it is pending for this worker, whose slots do not know it. Until it is found nobody renews it,
//! and in the end another worker takes it for lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{FIRST_ENTRIES, MAX_ENTRIES, READ_BYTES, ReadBatch, Reader, RedisBackoff};
use crate::broker::{Class, Entry, Error};
use crate::job::{EntryId, Envelope, Lane, Portion};

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
                let ReadBatch { mut entries, since } = self.await_read(read, Duration::ZERO).await?;
                portion.record_sizes(entries.iter().map(Entry::size));
                let Some(last) = entries.last() else { break };
                after = last.id;
                entries.retain(|entry| !known.contains(&(lane, entry.id)));
                found += entries.len();
                let is_whole = |entry: &Entry| entry.envelope.as_ref().is_none_or(Envelope::is_whole);
                let (whole, large): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_whole);
                self.accept_all(ReadBatch { entries: whole, since }).await;
                // One at a time: those that were taken are known, even if the next one takes too long.
                for entry in large {
                    let reading = self.queue.restored(&self.link, entry);
                    let ReadBatch { entries, .. } = self.await_read(reading, Duration::ZERO).await?;
                    self.accept_all(ReadBatch { entries, since }).await;
                }
            }
        }
        Ok(found)
    }

    /// Takes entries that are ours already, whether or not there is room for them.
    async fn accept_all(&self, batch: ReadBatch) {
        let count = batch.entries.len();
        self.dispatcher.reserve_anyway(count);
        let taken = self.accept(batch, count).await;
        self.dispatcher.free(count - taken);
    }
}
