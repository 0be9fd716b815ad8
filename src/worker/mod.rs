//! The worker.

mod handler;

pub use handler::{Handler, JobContext, JobError, MAX_RESULT_BYTES, Payload, RawPayload};
