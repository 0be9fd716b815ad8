//! What people do to many jobs at once. A selection says which jobs they mean, a plan says how many that are, and pages of
//! the work follow: cancel, make due now, or move to another queue.

pub(super) mod carry_out;
pub(super) mod fence;
pub(super) mod move_jobs;
mod once;
mod outcome;
mod remaining_depth;
pub(super) mod remove;
mod run_now;
pub(super) mod selection;
pub(super) mod terms;
