//! The series of alerts: open incidents, and messages about them.

use metrics::{Counter, Gauge};
use rustc_hash::FxHashMap;

use super::Maker;
use crate::job::SinkName;
use crate::job::incident::IncidentKind;
use crate::telemetry::catalogue::{self, MESSAGES};

/// The series of the alerts of a process.
pub(in super::super) struct AlertSeries {
    open: [Gauge; IncidentKind::ALL.len()],
    /// By sink, in the order of [`MESSAGES`].
    messages: FxHashMap<SinkName, [Counter; MESSAGES.len()]>,
}

impl AlertSeries {
    /// Creates series for these sinks.
    pub(in super::super) fn new(maker: &Maker<'_>, sinks: &[SinkName]) -> Self {
        let counters = |sink: &SinkName| {
            let counter = |result: &str| maker.counter(&catalogue::ALERT_MESSAGES, &[sink.as_str(), result]);
            (sink.clone(), MESSAGES.map(counter))
        };
        Self {
            open: IncidentKind::NAMES.map(|kind| maker.gauge(&catalogue::INCIDENTS_OPEN, &[kind])),
            messages: sinks.iter().map(counters).collect(),
        }
    }

    /// Sets how many incidents of a kind are open.
    pub(in super::super) fn set(&self, kind: IncidentKind, open: u64) {
        if let Some(nth) = IncidentKind::ALL.iter().position(|one| *one == kind) {
            self.open[nth].set(open as f64);
        }
    }

    /// Counts a message that a sink has taken.
    pub(in super::super) fn sent(&self, sink: &SinkName) {
        self.count(sink, 0);
    }

    /// Counts a message that a sink has not taken.
    pub(in super::super) fn failed(&self, sink: &SinkName, is_given_up: bool) {
        self.count(sink, if is_given_up { 2 } else { 1 });
    }

    fn count(&self, sink: &SinkName, nth: usize) {
        if let Some(counters) = self.messages.get(sink) {
            counters[nth].increment(1);
        }
    }
}
