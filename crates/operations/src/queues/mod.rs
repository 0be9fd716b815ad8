//! Emptying and deleting a queue.

mod delete;
mod purge;

pub use delete::{Delete, Deleted, delete};
pub use purge::{Parts, Purge, Purged, plan_purge, purge};
