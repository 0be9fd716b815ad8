//! Is this process healthy: are its loops alive, does each queue's Redis answer, and what do probes get to hear?

mod liveness;
mod probe;
mod queue;

pub(crate) use liveness::{Liveness, Monitor};
pub use probe::Probe;
pub(crate) use queue::QueueHealth;
