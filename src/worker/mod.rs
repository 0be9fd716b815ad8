//! The worker: four stages in one direction. The reader reads entries and turns them into deliveries. The dispatcher
//! hands these to free slots. The executor runs one and returns how it ended. The settler has Redis apply the
//! consequences. The heartbeat keeps the leases of everything that is held.
//!
//! Shutdown goes the same way: the reader ends, what had not started goes back, running handlers get time, then they
//! are cancelled, and the settler ends when the last outcome is settled.
//!
//! Users of the library write a [`Handler`], [`Middleware`] around it, or the [`Steps`] of a job; each has an example.

mod admission;
mod archive;
mod backlog;
mod backoff;
mod clock;
mod config;
mod decoding;
mod delivery;
mod dispatcher;
mod duty;
mod executor;
mod fair_scheduler;
mod gather;
mod handler;
mod heartbeat;
mod held_leases;
#[cfg(feature = "testing")]
mod inline;
mod joined_queue;
mod joiner;
mod lease;
mod limits;
mod memory_budget;
mod middleware;
mod outbox;
mod process;
mod quarantine;
mod queue_worker;
mod quota;
mod read_clock;
mod reader;
mod refused_waitlists;
mod registry;
mod report;
mod reporter;
mod reproduce;
mod round_robin;
mod rules_check;
mod settler;
mod slot_timer;
mod start_checker;
mod steps;
mod type_waitlists;

pub use archive::DeadArchive;
pub use config::{Config, QueueConfig};
pub(crate) use duty::Duty;
pub use handler::{Handler, JobContext, MAX_RESULT_BYTES, Payload, RawPayload};
#[cfg(feature = "testing")]
pub(crate) use inline::{Inline, InlineOptions, inline};
pub(crate) use joiner::Served;
pub use middleware::{Handled, Middleware, Next};
pub(crate) use process::Worker;
pub(crate) use quota::Quota;
pub(crate) use registry::Registry;
pub(crate) use reproduce::reproduce;
#[doc(hidden)]
pub use reproduce::{Reproduced, ReproducedRun, Specimen};
pub use steps::{Steps, StepsBuilder};
pub use streamfleet_domain::job::JobError;
