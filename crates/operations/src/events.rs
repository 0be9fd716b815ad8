//! The past events of a queue's jobs.

use serde::Serialize;
use serde_json::{Map, Value};
use streamfleet::Queue;
use streamfleet::job::EntryId;
use streamfleet_engine::admin::PastEvent;

use crate::times::rfc3339;
use crate::{Error, List};

/// A page of events, oldest first. `next` is where the next page begins, now or later.
pub type Events = List<Event, EventFacts>;

/// What is known about all events of a page.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct EventFacts {
    /// The queue.
    pub queue: String,
}

/// One event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Event {
    /// Its entry. Later events have greater ids.
    pub entry: String,
    /// When it was published.
    pub at: String,
    /// When it was published, in milliseconds since 1970.
    pub at_ms: u64,
    /// The fields of the event; see docs/hooks.md.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
    /// The event as it is stored.
    #[serde(skip)]
    pub past: PastEvent,
}

impl From<PastEvent> for Event {
    fn from(past: PastEvent) -> Self {
        let fields = past.fields.fields().map(|(name, value)| {
            let (name, text) = (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value));
            let count = is_count(&name).then(|| text.parse::<u64>().ok()).flatten();
            let value = count.map_or_else(|| Value::from(text.into_owned()), Value::from);
            (name, value)
        });
        let fields = fields.collect();
        Self { entry: past.entry.to_string(), at: rfc3339(past.at()), at_ms: past.entry.ms, fields, past }
    }
}

/// Lists events after one of them, or else the newest ones, at most `limit`.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(queue: &Queue, after: Option<EntryId>, limit: u64) -> Result<Events, Error> {
    let read = match after {
        Some(_) => queue.events().page(after, limit).await,
        None => queue.events().last(limit).await,
    };
    let items: Vec<Event> =
        read.map_err(Error::redis("failed to read the events"))?.into_iter().map(Event::from).collect();
    let last = items.last().map(|event| event.past.entry).or(after);
    let facts = EventFacts { queue: queue.name().to_string() };
    Ok(Events { next: last.map(|entry| entry.to_string()), items, facts, former: None })
}

fn is_count(name: &str) -> bool {
    name.ends_with("_ms") || matches!(name, "attempt" | "waiting" | "running" | "delayed" | "dead")
}
