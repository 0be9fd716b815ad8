//! The worker: four stages, one way. The [reader](reader) takes entries and makes deliveries of them; the
//! [dispatcher](dispatcher) hands these to free slots; the [executor](executor) runs one and says how it ended; the
//! [settler](settler) has Redis draw the consequences. The [heartbeat](heartbeat) keeps the leases of all that is held.
//!
//! Stopping goes the same way: the reader ends, what had not started goes back, running handlers get time, then they are
//! cancelled, and the settler ends when the last outcome is settled.

mod clock;
mod delivery;
mod dispatcher;
mod executor;
mod flight;
mod handler;
mod heartbeat;
mod outbox;
mod patience;
mod pulse;
mod reader;
mod registry;
mod settler;
mod station;

pub use handler::{Handler, JobContext, JobError, MAX_RESULT_BYTES, Payload, RawPayload};
pub(crate) use pulse::Pulse;
pub use registry::Registry;
pub use station::{Config, QueueConfig, Worker};
