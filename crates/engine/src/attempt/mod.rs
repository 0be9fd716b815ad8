//! One attempt of a job, from the read of its entry to the script that settles it.

pub(super) mod acknowledge;
pub(super) mod applied;
pub(super) mod args;
pub(super) mod begin;
pub(super) mod bury;
pub(super) mod call;
pub(super) mod cancel;
pub(super) mod followup;
pub(super) mod group;
pub(super) mod keep;
pub(super) mod progress;
pub(super) mod read;
pub(super) mod runs;
pub(super) mod settle;
pub(super) mod steps;
pub(super) mod take;
pub(super) mod taken;
