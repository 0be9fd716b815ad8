//! The read from a room of unknown type: like any other read, it is given entries, and what a lost reply delivered is
//! found among this worker's own pending entries.

use std::time::{Duration, Instant};

use super::{LATE, ReadBatch, Reader};
use crate::broker::{Class, Error};
use crate::job::JobType;

impl Reader {
    /// Takes jobs of a type for this room, which was reserved, and hands them on. Returns false if Redis refuses this room
    /// alone.
    pub(super) async fn take(&self, job_type: &JobType, room: usize) -> Result<bool, Error> {
        let reading = self.reading.gate.read().await;
        let since = Instant::now();
        let taking = self.queue.take(&self.link, &self.consumer, (job_type, room), None);
        // Whatever a dropped call delivers is found like the entries of any lost reply.
        let taken = tokio::time::timeout(2 * LATE, self.monitor.ask(Duration::ZERO, taking)).await;
        let taken = taken.unwrap_or_else(|_late| {
            self.link.reconnect();
            let detail = "taking jobs from a room timed out".to_owned();
            Err(Error::Unknown { command: "take", detail })
        });
        self.note(taken.as_ref().ok().map(|taken| taken.entries.len()));
        match taken {
            Ok(taken) => {
                if taken.more {
                    self.rooms.note(vec![job_type.clone()]);
                }
                tracing::debug!(queue = %self.queue.name(), %job_type, moved = taken.moved, "took jobs of a type that another worker does not know");
                if !taken.entries.is_empty() {
                    self.admission.refresh(self.queue.link()).await;
                }
                let held = self.accept(ReadBatch { entries: taken.entries, since }, room).await;
                drop(reading);
                self.dispatcher.free(room - held);
                Ok(true)
            }
            Err(error) => {
                drop(reading);
                self.dispatcher.free(room);
                // A key of another type in place of a room holds up no lane. The heartbeat finds the room again.
                if error.class() == Some(Class::Configuration) {
                    self.events.redis_error(error.kind(), &error);
                    return Ok(false);
                }
                Err(error)
            }
        }
    }
}
