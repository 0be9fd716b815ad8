//! What the end of a job triggers.

mod batch;
mod by_type;
mod follow;
