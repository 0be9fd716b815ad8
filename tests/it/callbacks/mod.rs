//! What a job's end sets off.

mod follow;
