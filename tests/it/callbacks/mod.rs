//! What a job's end sets off.

mod batch;
mod follow;
