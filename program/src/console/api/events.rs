//! Past events in pages, and live events by SSE. A client that reconnects with `Last-Event-ID` gets what it has missed, as far as
//! the streams still have it.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use streamfleet::job::{EntryId, QueueName};
use streamfleet_operations as operations;
use streamfleet_operations::events::{self, Events};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use utoipa_axum::routes;

use super::feed::{Live, Message, QueueEvent};
use super::names;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{PageParams, QueryParams, wrong};
use super::work_limits::{Held, Work};
use crate::console::access::{Person, Role};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

/// How often a client gets a comment if nothing happens.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

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

/// The header `Last-Event-ID`.
struct LastEvent(Option<String>);

impl<S: Sync> FromRequestParts<S> for LastEvent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let sent = parts.headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()));
        Ok(Self(sent.map(|id| id.into_owned()).filter(|id| !id.is_empty())))
    }
}

impl LastEvent {
    /// The event after which to begin. The header wins, because it is newer when a client reconnects.
    fn or<T>(self, asked: &EventParams, parse: fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        const RULE: &str = "it must be the id of an earlier event";
        let after = asked.after.as_deref().map(|id| parse(id).ok_or_else(|| wrong("after", RULE)));
        let after = after.transpose()?;
        let Some(id) = self.0 else { return Ok(after) };
        parse(&id).map(Some).ok_or_else(|| Problem::field("header.Last-Event-ID", RULE))
    }
}

/// Lists past events of a queue, oldest first: those after `after`, or else the newest ones.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/events/past", tag = "events", params(PageParams),
    responses((status = 200, description = "A page of events", body = Events)))]
async fn past_events(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(wanted): QueryParams<PageParams>,
) -> Result<Json<Value>, Problem> {
    let (queue, after) = (path.queue(&app)?, wanted.after::<EntryId>()?);
    let page = events::list(&queue, after, wanted.limit()).await?;
    if page.items.is_empty() {
        names::must_have(&app, queue.name()).await?;
    }
    View::of(&person, &app).json(&page)
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
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(asked): QueryParams<EventParams>,
    last: LastEvent,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let queue = path.queue(&app)?;
    let after = last.or(&asked, |id| id.parse::<EntryId>().ok())?;
    names::must_have(&app, queue.name()).await?;
    let held = app.work_limits().begin(Work::Events)?;
    let receiver = app.work_limits().feeds.listen(&app, &queue).await?;
    let missed = after.map(|after| (queue.name().clone(), Some(after)));
    let client = Client::new((app, person), receiver, held, missed);
    Ok(answer(Client { is_single: true, ..client }))
}

/// Streams the events of all queues that you may see, as they happen.
///
/// As the events of one queue. Each event has its `queue`. After a reconnect, events may come twice, and those of different queues in
/// another order.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(EventParams, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received")),
    responses((status = 200, description = "The events", body = QueueEvent, content_type = "text/event-stream")))]
async fn all_events(
    State(app): State<AppState>,
    person: Person,
    QueryParams(asked): QueryParams<EventParams>,
    last: LastEvent,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let after = last.or(&asked, |id| {
        let (queue, entry) = id.split_once('/')?;
        Some((queue.parse::<QueueName>().ok()?, entry.parse::<EntryId>().ok()?))
    })?;
    if let Some((queue, _)) = after.as_ref().filter(|(queue, _)| !person.may(Role::Viewer, queue)) {
        return Err(wrong("after", format!("it names the queue {queue}, which you may not see")));
    }
    let held = app.work_limits().begin(Work::Events)?;
    let receiver = app.work_limits().feeds.listen_to_all(&app).await?;
    let mut missed = Vec::new();
    if let Some((last, entry)) = after {
        let earlier = EntryId::new(entry.ms.saturating_sub(OVERLAP_MS), 0);
        for queue in names::visible(&app, &person).await?.queues {
            let from = if queue == last { entry } else { earlier };
            missed.push((queue, Some(from)));
        }
    }
    Ok(answer(Client::new((app, person), receiver, held, missed)))
}

fn answer(client: Client) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(client, |mut client| async move {
        let event = client.next().await?;
        Some((Ok(event), client))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

/// Somebody who listens.
struct Client {
    app: AppState,
    person: Person,
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
        (app, person): (AppState, Person),
        receiver: broadcast::Receiver<Message>,
        held: Held,
        missed: impl IntoIterator<Item = (QueueName, Option<EntryId>)>,
    ) -> Self {
        // The first thing that a client gets shows that it is heard from now on.
        let hello = Event::default().comment("listening").retry(RETRY);
        Self {
            app,
            person,
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
        let queue = self.app.queue(name.clone());
        match queue.events().page(after, PAGE).await {
            Ok(events) => {
                if events.len() as u64 >= PAGE {
                    let last = events.last().map(|event| event.entry);
                    self.missed.push_front((name.clone(), last));
                }
                for event in events {
                    let live = Live::of(&name, event, &self.app);
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
            () = self.app.stopping().requested() => return self.end("end", "the console stops"),
            () = tokio::time::sleep_until(self.until) => return self.end("end", "listen again"),
            message = self.receiver.recv() => message,
        };
        match message {
            Ok(Message::Event(live)) if self.person.may(Role::Viewer, &live.queue) => self.push(&live),
            Ok(Message::Failed(why)) if self.person.may(Role::Viewer, &why.0) => {
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
        let event = Event::default().id(id).data(live.json(self.person.sees_payloads()));
        self.pending.push_back(event);
    }

    /// Sends the last message.
    fn end(&mut self, kind: &'static str, why: &str) {
        self.has_ended = true;
        self.pending.push_back(Event::default().event(kind).data(json!({ "detail": why }).to_string()));
    }
}
