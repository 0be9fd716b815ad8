//! The live workers, and what one of them is asked for.

mod drain;
mod list;

pub use drain::{Order, WorkerAsked, ask, look_up, queues_of};
pub use list::{StaleConsumer, UnlistedLane, Worker, WorkerDrain, WorkerFacts, WorkerList, list};

use streamfleet_engine::admin::WorkerInfo;

/// A fact that a worker reports about itself; empty if it does not.
fn fact<'a>(worker: &'a WorkerInfo, name: &str) -> &'a str {
    worker.facts.get(name).map_or("", String::as_str)
}

/// How many jobs a worker runs.
fn running(worker: &WorkerInfo) -> u64 {
    fact(worker, "running").parse().unwrap_or(0)
}
