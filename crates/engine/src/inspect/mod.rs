//! Inspecting queues, jobs, workers and servers without changing them.

pub(super) mod audit;
pub(super) mod audit_search;
pub(super) mod backlog;
pub(super) mod delayed;
pub(super) mod drains;
pub(super) mod events;
pub(super) mod fields;
pub(super) mod history;
pub(super) mod holdings;
pub(super) mod jobs;
pub(super) mod lookup;
pub(super) mod memory;
pub(super) mod pools;
pub(super) mod seek;
pub(super) mod server;
pub(super) mod sessions;
pub(super) mod snapshot;
pub(super) mod status;
pub(super) mod unread;
pub(super) mod unserved;
pub(super) mod waitlist_jobs;
