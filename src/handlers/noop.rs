//! The handler that does nothing.

use crate::{Handler, JobContext, JobError, RawPayload};

/// Succeeds at once, whatever the payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noop;

impl Handler for Noop {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        Ok(())
    }
}
