//! Past events in pages, and live events by SSE. A client that reconnects with `Last-Event-ID` gets what it has missed, as far as
//! the streams still have it.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;
use streamfleet::job::{EntryId, QueueName};
use streamfleet_operations::events::{self, Events};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use utoipa_axum::routes;

use super::feed::{Live, Message, QueueEvent};
use super::query::wrong;
use super::work_limits::{Held, Work};
use super::{Answer, Call, PageParams, Problem, QueryParams, Routes, names, operations};
use crate::console::access::Role;

/// How often a client gets a comment if nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a client may listen until it has to come again, so that lost rights end.
pub(super) const LONGEST: Duration = Duration::from_secs(15 * 60);

/// After how long a client should come again.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// How many missed events are read at once.
const PAGE: u64 = 200;

/// Events of other queues that are as old as the last one, or a little older, are sent again.
const OVERLAP_MS: u64 = 2000;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::EVENTS, routes!(past_events))
        .operation(&operations::EVENTS, routes!(queue_events))
        .operation(&operations::EVENTS, routes!(all_events))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct EventParams {
    /// Begin after this event, as the header `Last-Event-ID` does.
    after: Option<String>,
}

/// The event after which to begin. The header wins, because it is newer when a client reconnects.
fn after<T>(
    headers: &HeaderMap,
    asked: &EventParams,
    parse: fn(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    const RULE: &str = "it must be the id of an earlier event";
    let after = asked.after.as_deref().map(|id| parse(id).ok_or_else(|| wrong("after", RULE)));
    let after = after.transpose()?;
    let sent = headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()));
    let Some(id) = sent.filter(|id| !id.is_empty()) else { return Ok(after) };
    parse(&id).map(Some).ok_or_else(|| Problem::field("header.Last-Event-ID", RULE))
}

/// Lists past events of a queue, oldest first: those after `after`, or else the newest ones.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/events/past", tag = "events", params(PageParams),
    responses((status = 200, description = "A page of events", body = Events)))]
async fn past_events(call: Call, QueryParams(wanted): QueryParams<PageParams>) -> Answer {
    let (queue, after) = (call.queue()?, wanted.after::<EntryId>()?);
    let page = events::list(&queue, after, wanted.limit()).await?;
    call.list(&queue, &page).await
}

/// Streams the events of a queue as they happen.
///
/// Each message has an event as JSON, and its `id`. A comment comes every 15 s if nothing happens. The last message of a stream has
/// the type `end` or `dropped` (the client is too slow); then reconnect with `Last-Event-ID`. A message of the type `problem` says
/// that events cannot be read at present.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/events", tag = "events",
    params(EventParams, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received")),
    responses((status = 200, description = "The events", body = QueueEvent, content_type = "text/event-stream")))]
async fn queue_events(
    call: Call,
    QueryParams(asked): QueryParams<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let queue = call.queue()?;
    let after = after(&headers, &asked, |id| id.parse::<EntryId>().ok())?;
    names::must_have(&call.app, queue.name()).await?;
    let held = call.app.work_limits.begin(Work::Events)?;
    let receiver = call.app.work_limits.feeds.listen(&call.app, &queue).await?;
    let missed = after.map(|after| (queue.name().clone(), Some(after)));
    Ok(answer(Client { is_single: true, ..Client::new(call, receiver, held, missed) }))
}

/// Streams the events of all queues that you may see, as they happen.
///
/// As the events of one queue. Each event has its `queue`. After a reconnect, events may come twice, and those of different queues in
/// another order.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(EventParams, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received")),
    responses((status = 200, description = "The events", body = QueueEvent, content_type = "text/event-stream")))]
async fn all_events(
    call: Call,
    QueryParams(asked): QueryParams<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = after(&headers, &asked, |id| {
        let (queue, entry) = id.split_once('/')?;
        Some((queue.parse::<QueueName>().ok()?, entry.parse::<EntryId>().ok()?))
    })?;
    if let Some((queue, _)) = after.as_ref().filter(|(queue, _)| !call.person.may(Role::Viewer, queue)) {
        return Err(wrong("after", format!("it names the queue {queue}, which you may not see")));
    }
    let held = call.app.work_limits.begin(Work::Events)?;
    let receiver = call.app.work_limits.feeds.listen_to_all(&call.app).await?;
    let mut missed = Vec::new();
    if let Some((last, entry)) = after {
        let earlier = EntryId::new(entry.ms.saturating_sub(OVERLAP_MS), 0);
        for queue in names::visible(&call).await?.queues {
            let from = if queue == last { entry } else { earlier };
            missed.push((queue, Some(from)));
        }
    }
    Ok(answer(Client::new(call, receiver, held, missed)))
}

fn answer(client: Client) -> Response {
    live(stream::unfold(client, async |mut client| Some((client.next().await?, client))))
}

/// Answers with events as they come.
pub(super) fn live(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// Somebody who listens.
struct Client {
    call: Call,
    receiver: broadcast::Receiver<Message>,
    /// Queues whose missed events are still to be read, and after which entry.
    missed: VecDeque<(QueueName, Option<EntryId>)>,
    /// The last event of each queue that was sent.
    sent: BTreeMap<QueueName, EntryId>,
    /// What goes out next.
    pending: VecDeque<Event>,
    /// When the client has to come again.
    until: Instant,
    /// True if all events are of one queue, so that their entries are enough as ids.
    is_single: bool,
    has_ended: bool,
    _held: Held,
}

impl Client {
    fn new(
        call: Call,
        receiver: broadcast::Receiver<Message>,
        held: Held,
        missed: impl IntoIterator<Item = (QueueName, Option<EntryId>)>,
    ) -> Self {
        // The first thing that a client gets shows that it is heard from now on.
        let hello = Event::default().comment("listening").retry(RETRY);
        Self {
            call,
            receiver,
            missed: missed.into_iter().collect(),
            sent: BTreeMap::new(),
            pending: VecDeque::from([hello]),
            until: Instant::now() + LONGEST,
            is_single: false,
            has_ended: false,
            _held: held,
        }
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            match self.missed.pop_front() {
                Some((queue, after)) => self.read_missed(queue, after).await,
                None => self.receive().await,
            }
        }
    }

    /// Reads a page of events that were missed.
    async fn read_missed(&mut self, name: QueueName, after: Option<EntryId>) {
        let queue = self.call.app.queue(name.clone());
        match queue.events().page(after, PAGE).await {
            Ok(events) => {
                if events.len() as u64 >= PAGE {
                    let last = events.last().map(|event| event.entry);
                    self.missed.push_front((name.clone(), last));
                }
                for event in events {
                    let live = Live::of(&name, event, &self.call.app);
                    self.push(&live);
                }
            }
            Err(error) => {
                self.end("end", &format!("missed events cannot be read: {}", queue.with_keys(&error)))
            }
        }
    }

    /// Waits for the next event.
    async fn receive(&mut self) {
        let message = tokio::select! {
            biased;
            () = self.call.app.stopping.requested() => return self.end("end", "the console stops"),
            () = tokio::time::sleep_until(self.until) => return self.end("end", "listen again"),
            message = self.receiver.recv() => message,
        };
        match message {
            Ok(Message::Event(live)) if self.call.person.may(Role::Viewer, &live.queue) => self.push(&live),
            Ok(Message::Failed(why)) if self.call.person.may(Role::Viewer, &why.0) => {
                let (queue, why) = &*why;
                let text = json!({ "queue": queue.as_str(), "detail": why }).to_string();
                self.pending.push_back(Event::default().event("problem").data(text));
            }
            Ok(Message::Event(_) | Message::Failed(_)) => {}
            Err(RecvError::Lagged(count)) => {
                self.end("dropped", &format!("too slow: {count} events were skipped; listen again"));
            }
            Err(RecvError::Closed) => self.end("end", "listen again"),
        }
    }

    /// Sends an event, unless it was sent before.
    fn push(&mut self, live: &Live) {
        if self.sent.get(&live.queue).is_some_and(|sent| *sent >= live.entry) {
            return;
        }
        self.sent.insert(live.queue.clone(), live.entry);
        let id =
            if self.is_single { live.entry.to_string() } else { format!("{}/{}", live.queue, live.entry) };
        let event = Event::default().id(id).data(live.json(&self.call.person));
        self.pending.push_back(event);
    }

    /// Sends the last message.
    fn end(&mut self, kind: &'static str, why: &str) {
        self.has_ended = true;
        self.pending.push_back(Event::default().event(kind).data(json!({ "detail": why }).to_string()));
    }
}
