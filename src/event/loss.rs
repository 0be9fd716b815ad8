//! What did not arrive, and why: calls of hooks, notifications, spans.

/// How a call of a hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookFailure {
    /// It returned an error.
    Error,
    /// It panicked.
    Panic,
    /// It did not return in time.
    Timeout,
}

impl HookFailure {
    /// Returns the value of the metrics' `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
        }
    }
}

/// A recipient of notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// A hook of this process.
    Hook,
    /// A queue's stream of events.
    Stream,
}

impl Recipient {
    /// Returns the value of the metrics' label `recipient`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Stream => "stream",
        }
    }
}

/// How spans were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanLoss {
    /// More ended than the collector takes, and there was no room left.
    Full,
    /// The collector refused them.
    Refused,
    /// The collector repeatedly did not answer.
    Unreachable,
}

variants! {
    /// Returns the value of the metrics' `reason` label.
    SpanLoss {
        Full = "full",
        Refused = "refused",
        Unreachable = "unreachable",
    }
}
