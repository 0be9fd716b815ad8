//! The series of notifications: hooks, event streams and traces.

use metrics::Counter;

use super::Maker;
use crate::telemetry::catalogue;
use streamfleet::event::{HookFailure, Recipient, ReportEvent, SpanLoss};

/// The series of notifications: hooks, event streams and traces.
pub(in super::super) struct NotificationSeries {
    published: Counter,
    hook_failures: [Counter; 3],
    notifications_dropped: [Counter; 2],
    spans_exported: Counter,
    spans_dropped: [Counter; SpanLoss::ALL.len()],
}

impl NotificationSeries {
    pub(in super::super) fn new(maker: &Maker<'_>) -> Self {
        let failures = [HookFailure::Error, HookFailure::Panic, HookFailure::Timeout];
        let failure = |kind: HookFailure| maker.counter(&catalogue::HOOK_FAILURES, &[kind.as_str()]);
        let notifications_dropped =
            |recipient: Recipient| maker.counter(&catalogue::NOTIFICATIONS_DROPPED, &[recipient.as_str()]);
        Self {
            published: maker.counter(&catalogue::PUBLISHED, &[]),
            hook_failures: failures.map(failure),
            notifications_dropped: [Recipient::Hook, Recipient::Stream].map(notifications_dropped),
            spans_exported: maker.counter(&catalogue::SPANS_EXPORTED, &[]),
            spans_dropped: SpanLoss::ALL
                .map(|loss| maker.counter(&catalogue::SPANS_DROPPED, &[loss.as_str()])),
        }
    }

    /// Records an event about what this process reports to others.
    pub(in super::super) fn record(&self, event: ReportEvent<'_>) {
        match event {
            ReportEvent::HookFailed { kind, hook: _, error: _ } => self.failed(kind),
            ReportEvent::Published { events } => self.published.increment(events),
            ReportEvent::NotificationsDropped { recipient, notifications } => {
                self.notifications_dropped(recipient, notifications);
            }
            ReportEvent::Exported { spans } => self.spans_exported.increment(spans),
            ReportEvent::Unexported { spans, loss, why: _ } => self.dropped(loss, spans),
        }
    }

    /// Counts a call of a hook that failed.
    fn failed(&self, kind: HookFailure) {
        let at = match kind {
            HookFailure::Error => 0,
            HookFailure::Panic => 1,
            HookFailure::Timeout => 2,
        };
        self.hook_failures[at].increment(1);
    }

    /// Counts spans that did not reach the collector.
    fn dropped(&self, loss: SpanLoss, spans: u64) {
        let at = match loss {
            SpanLoss::Full => 0,
            SpanLoss::Refused => 1,
            SpanLoss::Unreachable => 2,
        };
        self.spans_dropped[at].increment(spans);
    }

    /// Counts notifications that did not reach their recipient.
    fn notifications_dropped(&self, recipient: Recipient, notifications: u64) {
        let at = match recipient {
            Recipient::Hook => 0,
            Recipient::Stream => 1,
        };
        self.notifications_dropped[at].increment(notifications);
    }
}
