//! Background jobs on Redis Streams, run by a fleet of identical workers.

pub mod broker;
pub mod handlers;
pub mod job;
pub mod worker;

pub use worker::{Handler, JobContext, JobError, Payload, RawPayload};
