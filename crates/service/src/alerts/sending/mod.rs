//! Looks for incidents, and sends messages about them.

mod checker;
mod configured;
mod message;
mod observe;
mod pace;
mod sender;
mod sink_sender;
mod sinks;
mod words;

pub use observe::Watched;
pub use sender::{Alerts, Running, TestError};
pub use sinks::Error;
