//! How many attempts of a type, and of a key, run at once in one process: no more than allowed, without delaying others, and
//! without losing a job.

mod process;
mod scene;
