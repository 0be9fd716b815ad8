//! The series of notifications: hooks, event streams, traces and pushed metrics.

use metrics::Counter;

use super::Maker;
use crate::telemetry::catalogue;
use streamfleet::event::{HookFailure, PushResult, Recipient, ReportEvent, SpanLoss};

/// The series of notifications: hooks, event streams and traces.
pub(in super::super) struct NotificationSeries {
    published: Counter,
    hook_failures: [Counter; HookFailure::ALL.len()],
    notifications_dropped: [Counter; Recipient::ALL.len()],
    spans_exported: Counter,
    spans_dropped: [Counter; SpanLoss::ALL.len()],
    pushes: [Counter; PushResult::ALL.len()],
}

impl NotificationSeries {
    pub(in super::super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            published: maker.counter(&catalogue::PUBLISHED, &[]),
            hook_failures: HookFailure::NAMES.map(|kind| maker.counter(&catalogue::HOOK_FAILURES, &[kind])),
            notifications_dropped: Recipient::NAMES
                .map(|recipient| maker.counter(&catalogue::NOTIFICATIONS_DROPPED, &[recipient])),
            spans_exported: maker.counter(&catalogue::SPANS_EXPORTED, &[]),
            pushes: PushResult::NAMES.map(|result| maker.counter(&catalogue::PUSHES, &[result])),
            spans_dropped: SpanLoss::NAMES.map(|loss| maker.counter(&catalogue::SPANS_DROPPED, &[loss])),
        }
    }

    /// Records an event about what this process reports to others.
    pub(in super::super) fn record(&self, event: ReportEvent<'_>) {
        match event {
            ReportEvent::HookFailed { kind, hook: _, error: _ } => {
                self.hook_failures[kind as usize].increment(1);
            }
            ReportEvent::Published { events } => self.published.increment(events),
            ReportEvent::NotificationsDropped { recipient, notifications } => {
                self.notifications_dropped[recipient as usize].increment(notifications);
            }
            ReportEvent::Exported { spans } => self.spans_exported.increment(spans),
            ReportEvent::Unexported { spans, loss, why: _ } => {
                self.spans_dropped[loss as usize].increment(spans);
            }
            ReportEvent::MetricsPushed { result, failures: _, why: _ } => {
                self.pushes[result as usize].increment(1);
            }
        }
    }
}
