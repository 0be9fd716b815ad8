//! The series of a queue's dead letters: what retention and campaigns do with them.

use metrics::{Counter, Gauge};

use super::Maker;
use crate::telemetry::catalogue;
use streamfleet::event::QueueEvent;

/// The series of a queue's dead letters.
pub(in super::super) struct LetterSeries {
    evicted: Counter,
    archived: Counter,
    archive_failures: Counter,
    campaigns: Gauge,
    replayed: Counter,
    succeeded: Counter,
    died: Counter,
    stopped: Counter,
}

impl LetterSeries {
    pub(super) fn new(maker: &Maker<'_>, queue: &str) -> Self {
        let counter = |descriptor| maker.counter(descriptor, &[queue]);
        Self {
            evicted: counter(&catalogue::EVICTED),
            archived: counter(&catalogue::ARCHIVED),
            archive_failures: counter(&catalogue::ARCHIVE_FAILURES),
            campaigns: maker.gauge(&catalogue::CAMPAIGNS, &[queue]),
            replayed: counter(&catalogue::CAMPAIGN_REPLAYED),
            succeeded: counter(&catalogue::CAMPAIGN_SUCCEEDED),
            died: counter(&catalogue::CAMPAIGN_DIED),
            stopped: counter(&catalogue::CAMPAIGNS_STOPPED),
        }
    }

    /// Records an event about dead letters.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes only these events")]
    pub(super) fn record(&self, event: QueueEvent<'_>) {
        match event {
            QueueEvent::Evicted { letters } => self.evicted.increment(letters),
            QueueEvent::Archived { letters } => self.archived.increment(letters),
            QueueEvent::ArchiveFailed { why: _ } => self.archive_failures.increment(1),
            QueueEvent::Campaigns { running, replayed, succeeded, died } => {
                self.campaigns.set(running as f64);
                self.replayed.increment(replayed);
                self.succeeded.increment(succeeded);
                self.died.increment(died);
            }
            QueueEvent::CampaignStopped { campaign: _, why: _ } => self.stopped.increment(1),
            _ => {}
        }
    }

    /// Resets what only the leader knows: another process is the leader.
    pub(super) fn forget(&self) {
        self.campaigns.set(0.0);
    }
}
