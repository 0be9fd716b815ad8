//! Whether jobs pass a gate.

use crate::job::{Rule, Timestamp};

/// Whether jobs pass a gate, and if not, why.
#[derive(Debug, Clone, PartialEq)]
pub enum GateStanding {
    /// The rule is one of too many, and stops nobody.
    Ignored,
    /// Nothing passes until the rule is set again.
    Unreadable,
    /// Somebody has closed it, perhaps for a time.
    Paused {
        /// Who closed it.
        by: String,
        /// Why; may be empty.
        reason: String,
        /// Since when.
        since: Timestamp,
        /// When it opens by itself; `None` for never.
        until: Option<Timestamp>,
    },
    /// Its breaker is open until then.
    Tripped(Timestamp),
    /// Jobs pass as far as its limits allow.
    Open,
}

impl GateStanding {
    /// Returns where the gate of a rule stands, with the time until which its breaker is open.
    pub fn of(rule: &Rule, tripped_until: Option<Timestamp>, now: Timestamp) -> Self {
        if rule.ignored {
            return Self::Ignored;
        }
        if rule.unreadable {
            return Self::Unreadable;
        }
        if let Some(closed) = rule.closed.clone() {
            let (since, until) = (closed.since, closed.until);
            return Self::Paused { by: closed.by, reason: closed.reason, since, until };
        }
        tripped_until.filter(|until| *until > now).map_or(Self::Open, Self::Tripped)
    }

    /// Returns the name, as JSON has it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ignored => "ignored",
            Self::Unreadable => "unreadable",
            Self::Paused { .. } => "paused",
            Self::Tripped(_) => "tripped",
            Self::Open => "open",
        }
    }

    /// Returns true if no job passes now.
    pub fn is_shut(&self) -> bool {
        match self {
            Self::Unreadable | Self::Paused { .. } | Self::Tripped(_) => true,
            Self::Ignored | Self::Open => false,
        }
    }
}
