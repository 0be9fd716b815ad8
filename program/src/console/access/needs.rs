//! What routes need.

use streamfleet_operations::Role;

/// Who may use a route, the widest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::console) enum Needs {
    /// Everybody, even without a login: the document and its scripts, the login, probes.
    Nothing,
    /// Those who have at least this role: on the queue that the path names, or else on any queue. What a handler then shows
    /// or changes of other queues, it checks itself.
    Role(Role),
}
