//! What people do to many jobs at once. A selection says which jobs they mean, a plan says how many that are, and pages of
//! the work follow: cancel, make due now, or move to another queue.

pub(super) mod carry_out;
pub(super) mod fence;
mod hasten;
mod once;
pub(super) mod relocate;
pub(super) mod remove;
mod room;
pub(super) mod selection;
pub(super) mod terms;
