//! Standing by: in a large fleet, most readers leave the waiting to others, and read when they are called.

use std::time::Duration;

use super::{LATE, Reader};
use crate::broker::Error;

/// How often a standby reader reports that it has nothing to read.
const STANDBY_REPORT_EVERY: Duration = Duration::from_secs(20);

impl Reader {
    /// Leaves the waiting to others until one of them calls. Returns true if one did. Nothing is lost if this future is dropped.
    pub(super) async fn stand_by(&self) -> Result<bool, Error> {
        let longest = self.health.pacing().standby_time(rand::random());
        // Others waiting is a good reason not to read.
        self.monitor.idle();
        // Set if it has a reason to end the wait other than a call.
        let mut ends = false;
        let call = tokio::time::timeout(longest + LATE, self.queue.await_call(&self.link, longest));
        let mut call = std::pin::pin!(call);
        let called = loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(false),
                called = &mut call => break called.map(|called| called.map(|called| called || ends)),
                () = self.waitlists.arrived(), if !ends => {
                    ends = true;
                    self.link.unblock().await;
                }
                () = self.duty.draining(), if !ends => {
                    ends = true;
                    self.link.unblock().await;
                }
                // Whatever watches the reader must not take it for stuck.
                () = tokio::time::sleep(STANDBY_REPORT_EVERY) => self.note(Some(0)),
            }
        };
        let called = called.unwrap_or_else(|_late| {
            self.link.reconnect();
            let detail = "the wait for a call timed out".to_owned();
            Err(Error::Unknown { command: "blpop", detail })
        });
        if called.is_ok() {
            self.monitor.note_answer();
        }
        self.note(called.as_ref().ok().map(|_| 0));
        called
    }
}
