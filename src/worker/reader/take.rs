//! The read from a waiting list of unknown type: like any other read, it is given entries, and what a lost reply delivered is
//! found among this worker's own pending entries.

use std::time::{Duration, Instant};

use super::{LATE, ReadBatch, Reader, RedisBackoff};
use crate::broker::{Class, Error};
use crate::job::JobType;

impl Reader {
    /// Takes jobs of the next type that waits for this worker, if there is one, for these free slots, which were reserved. Returns
    /// false, and leaves the slots, if there is none.
    pub(super) async fn take_next(&self, free_slots: usize, backoff: &mut RedisBackoff) -> bool {
        let Some(job_type) = (!self.helps).then(|| self.waitlists.next()).flatten() else { return false };
        match self.take(&job_type, free_slots).await {
            Ok(()) => {}
            // A key of another type in place of a waiting list holds up no lane. The heartbeat finds the waiting list again.
            Err(error) if error.class() == Some(Class::Configuration) => {
                self.events.redis_error(error.kind(), &error);
            }
            Err(error) => self.repair(&error, backoff).await,
        }
        true
    }

    async fn take(&self, job_type: &JobType, free_slots: usize) -> Result<(), Error> {
        let reading = self.reading.gate.read().await;
        let since = Instant::now();
        let taking = self.queue.take(&self.link, &self.consumer, (job_type, free_slots), None);
        // Whatever a dropped call delivers is found like the entries of any lost reply.
        let taken = tokio::time::timeout(2 * LATE, self.monitor.ask(Duration::ZERO, taking)).await;
        let taken = taken.unwrap_or_else(|_late| {
            self.link.reconnect();
            let detail = "taking jobs from a waiting list timed out".to_owned();
            Err(Error::Unknown { command: "take", detail })
        });
        self.note(taken.as_ref().ok().map(|taken| taken.entries.len()));
        let held = match taken {
            Ok(taken) => {
                if taken.more {
                    self.waitlists.note(vec![job_type.clone()]);
                }
                let (queue, moved) = (self.queue.name(), taken.moved);
                tracing::debug!(%queue, %job_type, moved, "took jobs that another worker could not run");
                if !taken.entries.is_empty() {
                    self.admission.refresh(self.queue.link()).await;
                }
                Ok(self.accept(ReadBatch { entries: taken.entries, since }, free_slots).await)
            }
            Err(error) => Err(error),
        };
        drop(reading);
        self.dispatcher.free(free_slots - held.as_ref().copied().unwrap_or(0));
        held.map(drop)
    }
}
