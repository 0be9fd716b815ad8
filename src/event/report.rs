//! What this process reports to others, and what did not arrive, and why: calls of hooks, notifications, spans.

/// Something that happened to what this process reports to others.
#[derive(Debug, Clone, Copy)]
pub enum ReportEvent<'a> {
    /// A call of a hook failed. This changes nothing for any job.
    HookFailed {
        /// The hook's name.
        hook: &'a str,
        /// How it failed.
        kind: HookFailure,
        /// The error message.
        error: &'a str,
    },
    /// Events were written to a queue's `events` stream.
    Published {
        /// How many.
        events: u64,
    },
    /// Notifications were dropped: the channel was full, a hook did not return, or Redis refused.
    NotificationsDropped {
        /// Who missed them.
        recipient: Recipient,
        /// How many.
        notifications: u64,
    },
    /// Spans of attempts reached the collector.
    Exported {
        /// How many.
        spans: u64,
    },
    /// Spans of attempts were dropped. This changes nothing for any job.
    Unexported {
        /// How many.
        spans: u64,
        /// How they were lost.
        loss: SpanLoss,
        /// Why, for people.
        why: &'a str,
    },
    /// The metrics of this process were pushed to a collector, or were not. This changes nothing for any job.
    MetricsPushed {
        /// What became of them.
        result: PushResult,
        /// How many pushes in a row have failed, with this one if it did, or before it.
        failures: u64,
        /// Why it failed, for people.
        why: &'a str,
    },
}

variants! {
    /// What became of metrics that were pushed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PushResult {
        /// The collector has taken them.
        Accepted = "accepted",
        /// The collector refused them, or some of them.
        Refused = "refused",
        /// The collector did not answer, or cannot take them now.
        Unreachable = "unreachable",
    }
}

variants! {
    /// How a call of a hook failed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum HookFailure {
        /// It returned an error.
        Error = "error",
        /// It panicked.
        Panic = "panic",
        /// It did not return in time.
        Timeout = "timeout",
    }
}

variants! {
    /// A recipient of notifications.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Recipient {
        /// A hook of this process.
        Hook = "hook",
        /// A queue's stream of events.
        Stream = "stream",
    }
}

variants! {
    /// How spans were lost.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SpanLoss {
        /// More ended than the collector takes, and there was no room left.
        Full = "full",
        /// The collector refused them.
        Refused = "refused",
        /// The collector repeatedly did not answer.
        Unreachable = "unreachable",
    }
}
