//! What the end of a job triggers.

mod batch;
mod follow;
