//! How long retention keeps a dead letter, by the configuration of this process. The leader of the queue may have another one.

use serde::Serialize;
use streamfleet::job::{EntryId, QueueName, Timestamp};
use streamfleet_service::config::Effective;

use crate::times::{Clock, rfc3339};

/// How long a letter stays unless somebody replays or drops it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct Kept {
    /// When retention drops it at the latest; absent if it stays for any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    /// How many letters the queue keeps: with more, the oldest go first. Absent if there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dead_max: Option<u64>,
    #[serde(skip)]
    pub(crate) at: Option<Timestamp>,
}

impl Kept {
    /// How long this configuration keeps a letter of a queue. Its time begins with the letter's id, which an edit renews.
    pub(crate) fn of(letter: EntryId, queue: &QueueName, effective: &Effective) -> Self {
        let served = effective.config.queues.get(queue).map(|section| &section.served);
        let written = Timestamp::from_ms(letter.ms).unwrap_or_default();
        let at = served.and_then(|served| served.dead_retention).map(|retention| written.after(retention));
        Self {
            expires_at: at.map(rfc3339),
            expires_at_ms: at.map(Timestamp::as_ms),
            dead_max: served.and_then(|served| served.dead_max),
            at,
        }
    }

    /// Says when retention drops the letter; `None` if it never does.
    pub(super) fn told(&self, clock: &Clock, now: Timestamp) -> Option<String> {
        let at = self.at.map(|at| format!("at the latest {}", clock.with_age(at, now)));
        let most = self.dead_max.map(|most| format!("as soon as the queue has {most} newer ones"));
        let rules: Vec<String> = at.into_iter().chain(most).collect();
        (!rules.is_empty()).then(|| format!("retention drops it {}", rules.join(", or ")))
    }
}
