//! The person or program that asks.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use streamfleet::job::QueueName;

use super::Role;
use crate::console::problem::Problem;
use crate::console::problem_kind::ProblemKind;

/// The person or program that asks, and what they may do. A handler takes it as an argument.
#[derive(Debug, Clone)]
pub(in crate::console) struct Person {
    name: String,
    grants: Grants,
}

/// What somebody may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::console) struct Grants {
    /// On every queue.
    pub(in crate::console) everywhere: Option<Role>,
    /// On single queues, if that is more.
    pub(in crate::console) queues: BTreeMap<QueueName, Role>,
    /// Whether payloads, headers, results and errors may be shown.
    pub(in crate::console) payloads: bool,
}

impl Person {
    /// A person with these rights.
    pub(in crate::console) fn new(name: impl Into<String>, grants: Grants) -> Self {
        Self { name: name.into(), grants }
    }

    /// The name, for the audit.
    pub(in crate::console) fn name(&self) -> &str {
        &self.name
    }

    /// What they may do, and where.
    pub(in crate::console) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Whether payloads, headers, results and errors may be shown to them.
    pub(in crate::console) fn sees_payloads(&self) -> bool {
        self.grants.payloads
    }

    /// Whether they see fields that only operators see: like the sight of payloads, it belongs to the account.
    pub(in crate::console) fn sees_secrets(&self) -> bool {
        self.role(None) >= Some(Role::Operator)
    }

    /// The role on a queue, or the highest on any queue.
    pub(in crate::console) fn role(&self, queue: Option<&QueueName>) -> Option<Role> {
        let of_queue = match queue {
            Some(queue) => self.grants.queues.get(queue).copied(),
            None => self.grants.queues.values().copied().max(),
        };
        self.grants.everywhere.max(of_queue)
    }

    /// Returns true if they may do this on a queue.
    pub(in crate::console) fn may(&self, role: Role, queue: &QueueName) -> bool {
        self.role(Some(queue)) >= Some(role)
    }

    /// Returns true if they may do this on every queue: what is about no queue concerns all of them.
    pub(in crate::console) fn may_everywhere(&self, role: Role) -> bool {
        self.grants.everywhere >= Some(role)
    }

    /// Checks that they have a role on a queue, or on every queue if none is named.
    ///
    /// # Errors
    ///
    /// [`Problem`] if they have not.
    pub(in crate::console) fn check_about(
        &self,
        role: Role,
        queue: Option<&QueueName>,
    ) -> Result<(), Problem> {
        if queue.is_some() || self.may_everywhere(role) {
            return self.check(role, queue);
        }
        let why = format!(
            "this needs the role {} on every queue, which {} does not have",
            role.as_str(),
            self.name
        );
        Err(Problem::new(ProblemKind::NotAllowed, why))
    }

    /// Checks that they have a role on a queue, or on any if none is named.
    ///
    /// # Errors
    ///
    /// [`Problem`] if they have not.
    pub(in crate::console) fn check(&self, role: Role, queue: Option<&QueueName>) -> Result<(), Problem> {
        if self.role(queue) >= Some(role) {
            return Ok(());
        }
        let place = queue.map_or_else(String::new, |queue| format!(" on the queue {queue}"));
        let why = format!("this needs the role {}{place}, which {} does not have", role.as_str(), self.name);
        Err(Problem::new(ProblemKind::NotAllowed, why))
    }
}

impl Grants {
    /// Everything, on every queue.
    pub(super) fn all() -> Self {
        Self { everywhere: Some(Role::Admin), queues: BTreeMap::new(), payloads: true }
    }
}

/// The token that a browser sends with every change. Empty for programs, which need none.
#[derive(Debug, Clone, Default)]
pub(in crate::console) struct Csrf(pub(in crate::console) String);

/// What the token of this browser's changes is bound to. Programs have none, and need no token.
#[derive(Debug, Clone)]
pub(super) struct Binding(pub(super) Vec<u8>);

/// Marks the request of a browser with a session of this console, which a logout ends. Neither a proxy's login nor a token has
/// one.
#[derive(Debug, Clone, Copy)]
pub(in crate::console) struct HasSession;

impl<S: Sync> FromRequestParts<S> for Person {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let person = parts.extensions.get::<Self>().cloned();
        person.ok_or_else(|| Problem::new(ProblemKind::NotLoggedIn, "log in first"))
    }
}
