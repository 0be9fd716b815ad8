//! The steps of a job, and what a person decides about them.

mod decide;
mod list;

pub use decide::{Decision, StepDecided, decide};
pub(crate) use list::summary;
pub use list::{JobStep, JobSteps, StepDecision, StepErrorReport, list};
