//! A queue's stream of events: what happened to its jobs, for other processes. Its length is capped, and it has ids and
//! facts, never payloads.

use fred::types::Value;

use crate::client::error::Error;
use crate::client::link::entries;
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Envelope, Lane, Timestamp};
use crate::{Entry, Queue, bytes};

scripts! { PUBLISH "publish" }

/// One event of the stream; see the [example](EventStream).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastEvent {
    /// Its entry. Later events have greater ids.
    pub entry: EntryId,
    /// The fields of the event; see `docs/hooks.md`.
    pub fields: Envelope,
}

impl PastEvent {
    /// Returns a field as text; `None` if the event has no such field.
    pub fn text(&self, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(self.fields.get(name.as_bytes())?).into_owned())
    }

    /// When it was published, by the server's clock.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_ms(self.entry.ms).unwrap_or(Timestamp::MAX)
    }
}

/// The stream of events of a queue. [`Queue::events`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// let mut seen = None;
/// loop {
///     let events = queue.events().page(seen, 100).await?;
///     let Some(last) = events.last() else { break }; // those that come later are after `seen`
///     seen = Some(last.entry);
///     for event in events.iter().filter(|event| event.text("event").as_deref() == Some("failed_handle")) {
///         println!("{} died: {}", event.text("id").unwrap_or_default(), event.text("error").unwrap_or_default());
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct EventStream<'a> {
    queue: &'a Queue,
}

impl Queue {
    /// Gives access to the stream of events.
    pub fn events(&self) -> EventStream<'_> {
        EventStream { queue: self }
    }
}

impl EventStream<'_> {
    /// Appends events, all or none, and keeps about `max_length`.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Do not send again: the events may have been appended.
    #[doc(hidden)]
    pub async fn publish(self, max_length: u64, events: &[Vec<(&'static str, String)>]) -> Result<(), Error> {
        let most = i64::try_from(max_length).unwrap_or(i64::MAX);
        let mut args = Vec::from(args![PUBLISH; most]);
        for event in events {
            args.push(Value::Integer(2 * event.len() as i64));
            let flat = event.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
            args.extend(flat.map(bytes));
        }
        let answer = self.queue.run(&PUBLISH, vec![self.queue.keys.events.clone()], args).await?;
        (answer.status == events.len() as i64).then_some(()).ok_or_else(|| Error::contract("publish", answer))
    }

    /// Returns a page of the events, oldest first, after the entry `after`.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn page(self, after: Option<EntryId>, count: u64) -> Result<Vec<PastEvent>, Error> {
        let range = (entries::after(after), "+".to_owned());
        Ok(past(self.queue.link.xrange(&self.queue.keys.events, range, count, Lane::Normal).await?))
    }

    /// Returns the last events, oldest first.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn last(self, count: u64) -> Result<Vec<PastEvent>, Error> {
        let (link, key) = (&self.queue.link, &self.queue.keys.events);
        let mut events = past(link.xrevrange(key, entries::before(None), count, Lane::Normal).await?);
        events.reverse();
        Ok(events)
    }
}

fn past(entries: Vec<Entry>) -> Vec<PastEvent> {
    let event = |entry: Entry| PastEvent { entry: entry.id, fields: entry.envelope.unwrap_or_default() };
    entries.into_iter().map(event).collect()
}
