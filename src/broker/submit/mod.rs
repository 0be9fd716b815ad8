//! Jobs on their way in: new ones, those with ids and unique keys, batches, and what is still to be changed.

pub(super) mod amend;
pub(super) mod batch;
pub(super) mod durability;
pub(super) mod enqueue;
pub(super) mod offload;
pub(super) mod unique;
