//! The maintenance that one process does for the whole fleet: promoting due jobs, leading, recurring jobs, and claiming
//! the entries of silent workers.

#[cfg(feature = "testing")]
pub(super) mod advance;
pub(super) mod claim;
pub(super) mod cron;
pub(super) mod lead;
pub(super) mod promote;
