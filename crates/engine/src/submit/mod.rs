//! Submitting jobs: new ones, those with ids and unique keys, and batches. Also changes to delayed jobs.

pub(super) mod amend;
pub(super) mod batch;
pub(super) mod durability;
pub(super) mod enqueue;
pub(super) mod mark;
pub(super) mod offload;
pub(super) mod unique;
