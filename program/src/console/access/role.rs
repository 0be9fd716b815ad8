//! Roles, and what routes need.

use serde::{Deserialize, Serialize};

/// What a person may do. Each role may also do what the roles before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::console) enum Role {
    /// See queues, jobs and workers. Payloads only where they are allowed.
    Viewer,
    /// Submit jobs.
    Submitter,
    /// Cancel, replay, pause, edit and decide.
    Operator,
    /// Purge and delete queues, and change settings.
    Admin,
}

impl Role {
    /// All roles, the weakest first.
    pub(in crate::console) const ALL: [Self; 4] =
        [Self::Viewer, Self::Submitter, Self::Operator, Self::Admin];

    /// Its name.
    pub(in crate::console) const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// Who may use a route, the widest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::console) enum Needs {
    /// Everybody, even without a login: the login page, style sheets, probes.
    Nothing,
    /// Those who have at least this role: on the queue that the path names, or else on any queue. What a handler then shows
    /// or changes of other queues, it checks itself.
    Role(Role),
}
