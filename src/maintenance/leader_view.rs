//! What the leader election tells the tasks of a queue.

use crate::job::Pacing;

/// What a candidate learns by asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaderView {
    /// Grows with every change of the recurring jobs.
    pub(super) revision: u64,
    /// Whether this process leads.
    pub(super) leads: bool,
    /// How many workers the queue has.
    pub(super) pacing: Pacing,
    /// How often the server's clock has been set back.
    pub(super) steps: u64,
}

impl LeaderView {
    /// Returns what a candidate knows before it has asked.
    pub(super) fn initial() -> Self {
        Self { revision: 0, leads: false, pacing: Pacing::of(1), steps: 0 }
    }
}
