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
            spans_dropped: SpanLoss::NAMES.map(|loss| maker.counter(&catalogue::SPANS_DROPPED, &[loss])),
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
        self.hook_failures[kind as usize].increment(1);
    }

    /// Counts spans that did not reach the collector.
    fn dropped(&self, loss: SpanLoss, spans: u64) {
        self.spans_dropped[loss as usize].increment(spans);
    }

    /// Counts notifications that did not reach their recipient.
    fn notifications_dropped(&self, recipient: Recipient, notifications: u64) {
        self.notifications_dropped[recipient as usize].increment(notifications);
    }
}
