//! Counting the jobs of queues; emptying and deleting one.

mod delete;
mod list;
mod purge;

pub use delete::{Delete, Deleted, delete};
pub use list::{LaneReport, QueueReport, list, show};
pub use purge::{Parts, Purge, Purged, plan_purge, purge};
