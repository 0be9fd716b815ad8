//! Incidents: what is wrong with a fleet and needs a person. An incident opens once, is repeated by reminders at growing
//! intervals, and is resolved once. What a check leads to is decided here.

pub mod decide;
pub mod delivery;
pub mod line;
mod observation;

use serde::{Deserialize, Serialize};

pub use self::observation::Observation;
use super::{QueueName, Timestamp};

/// The key of the incident that stands for all those of a kind and a queue that have none of their own.
pub const OTHERS: &str = "*";

variants! {
    /// What is wrong.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum IncidentKind: Display {
        /// Jobs die of a cause that is new. The key is their group.
        DeadGroup = "dead_group",
        /// More jobs die than usual, of causes that are not new.
        DeadRate = "dead_rate",
        /// A job has died whose type asks for an incident for each. The key is its dead letter.
        DeadJob = "dead_job",
        /// Jobs wait for longer than the queue's objective allows.
        Backlog = "backlog",
        /// Jobs wait, and no worker is live.
        NoWorker = "no_worker",
        /// Jobs wait, and no live worker knows their type. The key is the type.
        UnservedType = "unserved_type",
        /// No program of a pool can start or keeps running, so some types run nowhere. The key is the pool.
        PoolDown = "pool_down",
        /// Dead jobs wait for a person's decision about one of their steps.
        NeedsDecision = "needs_decision",
        /// A campaign stopped itself. The key is the campaign.
        CampaignStopped = "campaign_stopped",
        /// The queue has been paused for long.
        QueuePaused = "queue_paused",
        /// Redis has nearly no memory left. The key is the server, if there are several.
        RedisMemory = "redis_memory",
        /// Ends of jobs wait too long to be written to the history.
        HistoryBehind = "history_behind",
        /// The history lacks ends of jobs: its journal had no room for them.
        HistoryLost = "history_lost",
        /// Rows of the outbox wait too long, or can never be jobs.
        OutboxStuck = "outbox_stuck",
    }
}

impl IncidentKind {
    /// Returns what is wrong, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::DeadGroup => "jobs die of a new cause",
            Self::DeadRate => "many jobs die",
            Self::DeadJob => "a job died",
            Self::Backlog => "jobs wait too long",
            Self::NoWorker => "no worker is live",
            Self::UnservedType => "no worker knows a type",
            Self::PoolDown => "a pool cannot start",
            Self::NeedsDecision => "jobs need a decision",
            Self::CampaignStopped => "a campaign stopped itself",
            Self::QueuePaused => "a queue is still paused",
            Self::RedisMemory => "Redis is nearly full",
            Self::HistoryBehind => "the history is behind",
            Self::HistoryLost => "the history lacks jobs",
            Self::OutboxStuck => "the outbox is stuck",
        }
    }
}

text!(
    /// The id of an incident: 8 hexadecimal digits.
    IncidentId(Box<str>), "incident",
    |text| text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
    "an incident's id has 8 hexadecimal digits"
);

impl IncidentId {
    /// Returns the id made of a random number.
    #[doc(hidden)]
    pub fn of(roll: u32) -> Self {
        Self(format!("{roll:08x}").into())
    }
}

as_text!(IncidentId);

variants! {
    /// Where an incident is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum IncidentState {
        /// It opens if it lasts a little longer.
        Pending = "pending",
        /// It is open.
        Open = "open",
        /// It is over.
        Resolved = "resolved",
    }
}

/// A job that shows what an incident is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IncidentExample {
    /// The job's id, as its letter has it; may be empty.
    pub job: String,
    /// Its error, on one line, cut to 300 bytes.
    pub error: String,
}

/// What is wrong, where, and since when. Redis holds it as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Its id.
    pub id: IncidentId,
    /// What is wrong.
    pub kind: IncidentKind,
    /// In which queue; `None` if it is not about a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// About what, as [`IncidentKind`] says; `*` for all that have no incident of their own; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Where it is.
    pub state: IncidentState,
    /// The type of the jobs, if they have the same; may be empty.
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    pub job_type: String,
    /// What is wrong, as one sentence without a full stop.
    #[serde(default)]
    pub detail: String,
    /// How many jobs it concerns; for other things than jobs, 0.
    #[serde(default)]
    pub count: u64,
    /// A job that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<IncidentExample>,
    /// When it began, by the clock of Redis.
    #[serde(rename = "since_ms")]
    pub since: Timestamp,
    /// When it opened.
    #[serde(rename = "opened_ms", default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<Timestamp>,
    /// When it was last seen.
    #[serde(rename = "seen_ms")]
    pub seen: Timestamp,
    /// Since when nothing is wrong any more. After a while, the incident is resolved.
    #[serde(rename = "clear_since_ms", default, skip_serializing_if = "Option::is_none")]
    pub clear_since: Option<Timestamp>,
    /// When it was resolved.
    #[serde(rename = "resolved_ms", default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Timestamp>,
    /// The number of the last message that each sink should get: 1 for the one when it opened.
    #[serde(default)]
    pub notices: u32,
    /// The number of the message that says that it is resolved; 0 if there is none yet.
    #[serde(default)]
    pub resolving: u32,
    /// When the next reminder is due.
    #[serde(rename = "next_ms", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
}

impl Incident {
    /// Returns the command that shows what it is about. People paste it into a shell, and anybody with access to Redis may have
    /// written the key, so a key with other characters than those of names is left out.
    pub fn command(&self) -> String {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let has_key = !self.key.is_empty() && !self.key.starts_with('-') && self.key.chars().all(is_name);
        let queue = self.queue.as_ref().map_or_else(String::new, |queue| format!(" --queue {queue}"));
        match self.kind {
            IncidentKind::DeadGroup if has_key => {
                format!("streamfleet dead list{queue} --group {}", self.key)
            }
            IncidentKind::DeadGroup | IncidentKind::DeadRate => format!("streamfleet dead groups{queue}"),
            IncidentKind::DeadJob if has_key => {
                format!("streamfleet dead show {}{queue}", self.key)
            }
            IncidentKind::DeadJob => format!("streamfleet dead list{queue}"),
            IncidentKind::NeedsDecision => {
                format!("streamfleet dead list{queue} --dead-reason needs_decision")
            }
            IncidentKind::Backlog | IncidentKind::UnservedType => "streamfleet queues -o wide".to_owned(),
            IncidentKind::NoWorker | IncidentKind::PoolDown => "streamfleet workers".to_owned(),
            IncidentKind::CampaignStopped if has_key => {
                format!("streamfleet tasks show {}{queue}", self.key)
            }
            IncidentKind::CampaignStopped => format!("streamfleet tasks list{queue}"),
            IncidentKind::QueuePaused => format!("streamfleet gates list{queue}"),
            IncidentKind::RedisMemory => "streamfleet check".to_owned(),
            IncidentKind::HistoryBehind | IncidentKind::HistoryLost => {
                format!("streamfleet history stats{queue}")
            }
            IncidentKind::OutboxStuck => "streamfleet alerts list".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_unique_and_are_those_of_json() {
        for kind in IncidentKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(
                IncidentKind::ALL.into_iter().filter(|other| other.as_str() == kind.as_str()).count(),
                1
            );
        }
    }

    #[test]
    fn an_id_has_eight_digits() {
        assert_eq!(IncidentId::of(255).as_str(), "000000ff");
        for wrong in ["", "00ff", "000000FF", "000000fg", "000000ff0"] {
            assert!(wrong.parse::<IncidentId>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn an_id_survives_being_shown_and_read(roll: u32) {
            let id = IncidentId::of(roll);
            prop_assert_eq!(id.as_str().parse::<IncidentId>().unwrap(), id);
        }
    }
}
