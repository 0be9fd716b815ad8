//! The configuration: files, then the environment, then flags. The only place that reads the environment.
//!
//! [`Sources`] become one `tree` whose values know where they came from (`source`); it is read into a [`Config`]
//! (`read`, `sections`, `values`) and its bounds are checked (`check`), so that everything that is wrong is told at
//! once, each with its key and source ([`Problem`]). The result is [`Effective`]: it can be shown (`show`) and made into
//! a fleet's process (`assemble`).

mod assemble;
mod check;
mod objectives;
mod problem;
mod read;
mod sections;
mod show;
mod source;
mod steps;
mod tree;
mod values;

pub use objectives::ObjectivesSection;
pub use problem::{Invalid, Problem};
pub use sections::{Config, CronSection, QueueSection, TypeSection, WorkerSection};
pub use source::{DEFAULT_FILE, Flags, PREFIX, Sources};
pub use steps::StepSection;

/// A configuration that was read, and where its values came from.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The values.
    pub config: Config,
    tree: tree::Node,
}

#[cfg(test)]
mod tests;
