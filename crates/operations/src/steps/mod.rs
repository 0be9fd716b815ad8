//! The steps of a job, and what a person decides about them.

mod decide;

pub use decide::{Decision, StepDecided, decide};
