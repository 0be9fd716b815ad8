//! Looks for incidents, and sends messages about them.

mod checker;
mod configured;
mod courier;
mod message;
mod observe;
mod pace;
mod sender;
mod sinks;
mod words;

pub use observe::Watched;
pub use sender::{Alerts, Running, TestError};
pub use sinks::Error;
