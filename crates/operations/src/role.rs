//! Roles: what people may do.

use serde::{Deserialize, Serialize};

/// What a person may do. Each role may also do what the roles before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
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
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Submitter, Self::Operator, Self::Admin];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}
