//! The maintenance that one process does for the whole fleet: promoting due jobs, leading, recurring jobs, claiming the
//! entries of silent workers, and making entries pending again that nobody would run.

pub(super) mod advance;
pub(super) mod claim;
pub(super) mod cron;
pub(super) mod lead;
pub(super) mod orphans;
pub(super) mod promote;
