//! Roles: what people may do.

use serde::{Deserialize, Serialize};

streamfleet_domain::variants! {
    /// What a person may do. Each role may also do what the roles before it may.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Role {
        /// See queues, jobs and workers. Payloads only where they are allowed.
        Viewer = "viewer",
        /// Submit jobs.
        Submitter = "submitter",
        /// Cancel, replay, pause, edit and decide.
        Operator = "operator",
        /// Purge and delete queues, and change settings.
        Admin = "admin",
    }
}
