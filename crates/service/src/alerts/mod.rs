//! Alerts: looks for incidents, and sends messages about them. Any process with the section `[alerts]` may do it; one at a time
//! does, chosen by a lease in Redis. Redis holds what is known, so another process goes on where this one ended.
//!
//! Data passes through like this: `observe` reads the state of queues and servers, `job::incident` decides what follows, the
//! checker writes that down, and a sink sender per sink sends what its sink has not got. Nothing here can hold up a job.
//!
//! Without the feature `alerts`, `absent` takes the place of all that sends.

mod config;
#[cfg_attr(not(feature = "alerts"), path = "absent.rs")]
mod sending;
mod sink;

pub use config::{Config, Language};
pub use sending::{Alerts, Running};
#[cfg(feature = "alerts")]
pub use sending::{Error, TestError, Watched};
pub use sink::{SinkConfig, SinkKind, SmtpTls};
