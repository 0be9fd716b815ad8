//! Where each system keeps the jobs of a queue. The names of keys and what they hold are those of Hyperf's async-queue 3, Laravel 8 to 13,
//! webman/redis-queue 1 and 2, Sidekiq 5 to 8, `BullMQ` 1 to 5, Celery 4 and 5 (kombu), and rq 1 and 2.

use serde::Deserialize;
use streamfleet::job::Timestamp;
use streamfleet_engine::ForeignKind;

use super::mapping::Fields;

/// A system whose jobs can be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum System {
    Hyperf,
    Laravel,
    Webman,
    Sidekiq,
    BullMq,
    Celery,
    Rq,
}

/// A key with jobs of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: String,
    pub(super) kind: ForeignKind,
    pub(super) state: State,
    /// What its score says of waiting jobs.
    pub(super) due: Due,
    /// Whether other queues keep their jobs there, too.
    pub(super) is_shared: bool,
    /// What tells its ids from those of other keys.
    pub(super) label: &'static str,
}

/// What the jobs of a key are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// They wait, or are due later.
    Waiting,
    /// They have failed for good.
    Dead,
    /// A worker has taken them, and may have begun.
    Held,
}

/// What a score means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing about when the job is due.
    No,
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970, times 4096, plus a number that orders jobs of one millisecond.
    Shifted,
}

impl System {
    /// Its name in mappings and ids.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hyperf => "hyperf",
            Self::Laravel => "laravel",
            Self::Webman => "webman",
            Self::Sidekiq => "sidekiq",
            Self::BullMq => "bullmq",
            Self::Celery => "celery",
            Self::Rq => "rq",
        }
    }

    /// What its keys begin with, unless the mapping says something else.
    fn prefix(self) -> &'static str {
        match self {
            Self::Webman => "{redis-queue}-",
            Self::BullMq => "bull:",
            Self::Rq => "rq:",
            Self::Hyperf | Self::Laravel | Self::Sidekiq | Self::Celery => "",
        }
    }
}

impl Place {
    fn new(label: &'static str, key: String, kind: ForeignKind) -> Self {
        Self { key, kind, state: State::Waiting, due: Due::No, is_shared: false, label }
    }

    fn due(self, due: Due) -> Self {
        Self { due, ..self }
    }

    fn state(self, state: State) -> Self {
        Self { state, ..self }
    }

    fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }
}

impl Fields {
    fn key(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix.as_deref().unwrap_or_else(|| self.system.prefix()))
    }

    /// The key that has the fields of a job, for systems whose lists have only ids.
    pub(super) fn record(&self, id: &str) -> Option<String> {
        match self.system {
            System::BullMq => Some(self.key(&format!("{}:{id}", self.name))),
            System::Rq => Some(self.key(&format!("job:{id}"))),
            System::Hyperf | System::Laravel | System::Webman | System::Sidekiq | System::Celery => None,
        }
    }

    /// Whether an id in a list of `BullMQ` is none, but tells its workers when the next job is due.
    pub(super) fn is_marker(&self, id: &[u8]) -> bool {
        self.system == System::BullMq && id.starts_with(b"0:")
    }

    /// Whether the jobs of a key are taken over.
    pub(super) fn takes(&self, place: &Place) -> bool {
        match place.state {
            State::Waiting => true,
            State::Dead => self.dead,
            State::Held => self.held,
        }
    }

    /// All keys, those of held jobs last: a worker may still give them back.
    pub(super) fn places(&self) -> Vec<Place> {
        use ForeignKind::{First, Last, Set};
        use State::{Dead, Held};
        let of = |label, rest: String, kind| Place::new(label, self.key(&rest), kind);
        let name = &self.name;
        match self.system {
            System::Hyperf => vec![
                of("waiting", format!("{name}:waiting"), Last),
                of("delayed", format!("{name}:delayed"), Set).due(Due::Seconds),
                of("failed", format!("{name}:failed"), Last).state(Dead),
                of("timeout", format!("{name}:timeout"), Last).state(Dead),
                of("reserved", format!("{name}:reserved"), Set).state(Held),
            ],
            System::Laravel => vec![
                of("waiting", format!("queues:{name}"), First),
                of("delayed", format!("queues:{name}:delayed"), Set).due(Due::Seconds),
                of("reserved", format!("queues:{name}:reserved"), Set).state(Held),
            ],
            System::Webman => vec![
                of("waiting", format!("waiting{name}"), Last),
                of("delayed", "delayed".to_owned(), Set).due(Due::Seconds).shared(),
                of("failed", "failed".to_owned(), Last).state(Dead).shared(),
            ],
            System::Sidekiq => vec![
                of("waiting", format!("queue:{name}"), Last),
                of("schedule", "schedule".to_owned(), Set).due(Due::Seconds).shared(),
                of("retry", "retry".to_owned(), Set).due(Due::Seconds).shared(),
                of("dead", "dead".to_owned(), Set).state(Dead).shared(),
            ],
            System::BullMq => vec![
                of("waiting", format!("{name}:wait"), Last),
                of("paused", format!("{name}:paused"), Last),
                of("prioritized", format!("{name}:prioritized"), Set),
                of("delayed", format!("{name}:delayed"), Set).due(Due::Shifted),
                of("failed", format!("{name}:failed"), Set).state(Dead),
                of("active", format!("{name}:active"), Last).state(Held),
            ],
            System::Celery => vec![
                of("waiting", name.clone(), Last),
                // The lists of other priorities, with the separator that kombu uses unless told otherwise.
                of("priority3", format!("{name}\u{6}\u{16}3"), Last),
                of("priority6", format!("{name}\u{6}\u{16}6"), Last),
                of("priority9", format!("{name}\u{6}\u{16}9"), Last),
            ],
            System::Rq => vec![
                of("waiting", format!("queue:{name}"), First),
                of("scheduled", format!("scheduled:{name}"), Set).due(Due::Seconds),
                of("failed", format!("failed:{name}"), Set).state(Dead),
                of("wip", format!("wip:{name}"), Set).state(Held),
            ],
        }
    }
}

impl Due {
    /// When a job with this score is due.
    pub(super) fn at(self, score: f64) -> Option<Timestamp> {
        let ms = match self {
            Self::No => return None,
            Self::Seconds => score * 1000.0,
            Self::Shifted => score / 4096.0,
        };
        (ms >= 0.0).then_some(ms as u64).and_then(Timestamp::from_ms)
    }
}
