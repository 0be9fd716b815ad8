//! Tasks: work on many jobs or dead letters that Redis holds, so that it survives every process. Operations on many jobs begin one.
//! The process that began it carries it on, and so does the leader of the queue.

mod change;
mod follow;
mod list;
mod report;
mod start;

pub use change::{Order, change, undo};
pub use follow::{carry_on, follow};
pub use list::{TaskFacts, TaskList, list, show};
pub(crate) use report::target;
pub use report::{ReplayFacts, TaskReport};
pub(crate) use start::{Plan, start};
