//! The health of a process: whether its loops are alive, whether each queue's Redis answers, and what probes learn about it.

mod liveness;
mod probe;
mod queue;

pub(crate) use liveness::{Liveness, Monitor};
pub use probe::Probe;
pub(crate) use queue::QueueHealth;
