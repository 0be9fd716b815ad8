//! What operators do to a fleet, below the doors by which they come: the command line and the HTTP API.
//!
//! An operation is one function. It gets a typed input and the [`Actor`], acts, notes the audit once, after the outcome is known,
//! and returns a report, which the command line prints and the API serializes. [`OPERATIONS`] names them all, with the role that
//! each needs. What goes wrong is one [`Error`], which each door words in its own way.

mod actor;
pub mod alerts;
pub mod audit;
mod control;
mod counted;
pub mod cron;
pub mod dead;
mod error;
pub mod events;
pub mod gates;
pub mod history;
pub mod import;
pub mod jobs;
mod list;
pub mod needs;
mod operation;
pub mod outlook;
pub mod queues;
mod role;
pub mod stats;
pub mod steps;
pub mod submit;
pub mod tasks;
pub mod times;
pub mod unserved;
pub mod workers;

pub use actor::Actor;
pub use control::Control;
pub use counted::counted;
pub use error::Error;
pub use list::{List, NoFacts};
pub use operation::*;
pub use role::Role;
