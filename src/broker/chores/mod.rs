//! What one process of a fleet does for all: promotion, the lead, recurring jobs, taking over the entries of silent workers.

#[cfg(feature = "testing")]
pub(super) mod advance;
pub(super) mod claim;
pub(super) mod cron;
pub(super) mod lead;
pub(super) mod promote;
