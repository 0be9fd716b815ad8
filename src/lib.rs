//! Background jobs on Redis Streams, run by a fleet of identical workers.

pub mod broker;
#[cfg(feature = "cli")]
pub mod config;
#[cfg(feature = "cli")]
pub mod dev_server;
pub mod event;
mod fleet;
pub mod handlers;
pub mod job;
mod maintenance;
mod probe;
pub mod producer;
mod shutdown;
#[cfg(feature = "cli")]
pub mod telemetry;
pub mod worker;

pub use fleet::{Builder, Config as FleetConfig, Fleet};
pub use probe::Probe;
pub use producer::{Producer, Submission, SubmitError};
pub use shutdown::Shutdown;
pub use worker::{Handler, JobContext, JobError, Payload, RawPayload};
