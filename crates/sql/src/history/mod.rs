//! The history of jobs that have ended: what `write` puts into the tables `sf_jobs`, `sf_attempts`, `sf_bodies` and `sf_keys`,
//! what `partitions` makes and drops, and what `questions` reads.
//!
//! A life is written once, at its end. Writing it again changes nothing, so a writer that does not know whether it has
//! committed writes again.

mod body;
mod day;
mod ended;
pub mod partitions;
pub mod questions;
mod writing;

pub use body::{Body, PayloadState};
pub use day::Day;
pub use ended::{Attempt, Ended, Ending, Key};
pub use writing::{Poison, Written, write};

/// The tables of the history. All have a column `day`.
const TABLES: [&str; 4] = ["sf_jobs", "sf_attempts", "sf_bodies", "sf_keys"];
