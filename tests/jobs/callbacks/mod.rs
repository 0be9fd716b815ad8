//! What the end of a job triggers.

mod across;
mod batch;
mod by_type;
mod follow;
