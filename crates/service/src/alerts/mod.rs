//! Alerts: looks for incidents, and sends messages about them. Any process with the section `[alerts]` may do it; one at a time
//! does, chosen by a lease in Redis. Redis holds what is known, so another process goes on where this one ended.
//!
//! Data passes through like this: `observe` reads the state of queues and servers, `job::incident` decides what follows, the
//! checker writes that down, and a courier per sink sends what its sink has not got. Nothing here can hold up a job.

#[cfg(feature = "alerts")]
mod checker;
mod config;
#[cfg(feature = "alerts")]
mod courier;
#[cfg(feature = "alerts")]
mod message;
#[cfg(feature = "alerts")]
mod observe;
#[cfg(feature = "alerts")]
mod pace;
#[cfg(feature = "alerts")]
mod sender;
#[cfg(feature = "alerts")]
mod sinks;

pub use config::{Config, SinkConfig, SinkKind, SmtpTls};
#[cfg(feature = "alerts")]
pub use sender::{Alerts, Running, TestError, Watched};
#[cfg(feature = "alerts")]
pub use sinks::Error;
