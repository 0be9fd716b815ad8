//! The configuration: files, then the environment, then flags. This is the only module that reads the environment.
//!
//! [`Sources`] are merged into one `tree` whose values remember their sources (`source`). The tree is read into a
//! [`Config`] (`read`, `sections`, `joined`) and its bounds are checked (`check`). All problems are reported together,
//! each with its key and source ([`Problem`]). The result is [`Effective`]: it can be printed (`show`) and turned into
//! a fleet's process (`assemble`).

mod alert;
mod assemble;
mod check;
mod console;
mod database;
mod document;
mod errors;
mod joined;
mod pools;
mod problem;
mod programs;
mod read;
mod schemas;
mod sections;
mod show;
mod source;
mod steps;
mod tree;

pub use console::{ConsoleSection, Network, ProxySection};
pub use database::{HistorySection, OutboxSection, Payloads, address};
pub use document::read_document;
pub use problem::{Invalid, Problem, nearest};
pub use sections::{Config, CronSection, QueueSection, TypeAlert, TypeSection};
pub use source::{DEFAULT_FILE, Flags, PREFIX, Sources};
pub use steps::StepSection;

/// The configuration in effect, with the source of each value.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The values.
    pub config: Config,
    tree: tree::Node,
}

#[cfg(test)]
mod tests;
