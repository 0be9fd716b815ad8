//! For which task a script changes jobs, and the mark that jobs get.

use fred::types::{Key, Value};

use crate::client::keys::Keys;
use crate::job::Envelope;

/// The field that names the task that last moved a job or made it due. A job keeps it until it dies or another task changes it, so
/// nobody needs a list of what a task has changed: [`BulkAction::RunNow`](crate::BulkAction::RunNow) leaves jobs alone that it made
/// due before, and a move can be undone. Anybody may copy the field.
pub(crate) const MARK: &[u8] = b"by_task";

/// Returns true if a job was last moved or made due by this task.
pub(super) fn has_mark(fields: Option<&Envelope>, task: &str) -> bool {
    fields.and_then(|fields| fields.get(MARK)) == Some(task.as_bytes())
}

/// The right of a script to change jobs for a task: as long as the task runs and is on the page that was read. See `is_on_page` in
/// the prelude.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    /// The task's key; without a task, one that never exists.
    pub(crate) task: Key,
    page: String,
}

impl Fence {
    pub(crate) fn new(task: Key, page: u64) -> Self {
        Self { task, page: page.to_string() }
    }

    /// For somebody who changes jobs without a task.
    pub(crate) fn none(keys: &Keys) -> Self {
        Self { task: keys.task(""), page: String::new() }
    }

    /// The page, as an argument.
    pub(crate) fn page(&self) -> Value {
        self.page.as_str().into()
    }
}
