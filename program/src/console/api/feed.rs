//! Live events, read once for all clients. One task per queue asks Redis for new events as long as anybody listens, and
//! hands them to everybody over a bounded channel. A client that is too slow misses events and is told so.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use streamfleet::Queue;
use streamfleet::job::{EntryId, Envelope, QueueName};
use streamfleet_engine::admin::PastEvent;
use streamfleet_engine::mutex::lock;
use streamfleet_operations::events::Event;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::failure::redis;
use super::{Problem, privacy};
use crate::console::access::{Mask, Person};
use crate::console::app_state::AppState;

/// How often a queue is asked for new events.
const EVERY: Duration = Duration::from_millis(250);

/// How many events are read at once.
const PAGE: u64 = 500;

/// The pause after an error.
const PAUSE: Duration = Duration::from_secs(2);

/// How many events a client may be behind. Those that were not sent to all clients stay in memory.
const BUFFERED: usize = 2048;

/// How large an event may be as JSON. Workers publish smaller ones, but others may write to the stream too.
const MAX_EVENT_BYTES: usize = 8 * 1024;

/// The name of an event that was larger.
const TOO_LARGE: &[u8] = b"too_large";

/// How long a task goes on when nobody listens.
const LINGER: Duration = Duration::from_secs(5);

/// How often those who listen to all queues get queues that are new.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What clients receive.
#[derive(Debug, Clone)]
pub(super) enum Message {
    /// Something happened.
    Event(Arc<Live>),
    /// The events of a queue cannot be read at present.
    Failed(Arc<(QueueName, String)>),
}

/// An event, ready to be sent.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) queue: QueueName,
    pub(super) entry: EntryId,
    /// As JSON on one line, for those who see payloads …
    full: String,
    /// … those who see them without secrets …
    guarded: String,
    /// … and others.
    hidden: String,
}

/// An event of a queue, as streams have it.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct QueueEvent {
    #[serde(flatten)]
    event: Event,
    /// The queue. It comes last, in place of a field of this name.
    queue: String,
}

impl Live {
    /// Describes an event of a queue. One that is too large loses its fields.
    pub(super) fn of(queue: &QueueName, past: PastEvent, app: &AppState) -> Self {
        let shown = QueueEvent { event: Event::from(past), queue: queue.to_string() };
        let value = serde_json::to_value(&shown).expect("an event is an object with texts as keys");
        let mut hidden = value.clone();
        privacy::hide(&mut hidden);
        let text = |mut value: Value, mask: &Mask| {
            mask.apply(&mut value);
            value.to_string()
        };
        let guarded = text(value.clone(), &app.guarding_mask);
        let full = text(value, &app.mask_for_all);
        let mut past = shown.event.past;
        if full.len() > MAX_EVENT_BYTES {
            past.fields = Envelope::new([(&b"event"[..], TOO_LARGE)].into_iter());
            return Self::of(queue, past, app);
        }
        let hidden = text(hidden, &app.guarding_mask);
        Self { queue: queue.clone(), entry: past.entry, full, guarded, hidden }
    }

    /// The event as JSON on one line, as this person may see it.
    pub(super) fn json(&self, person: &Person) -> &str {
        match (person.sees_payloads(), person.sees_secrets()) {
            (true, true) => &self.full,
            (true, false) => &self.guarded,
            (false, _) => &self.hidden,
        }
    }
}

/// The tasks that read events.
#[derive(Default)]
pub(super) struct Feeds {
    channels: Mutex<Channels>,
    tasks: Mutex<JoinSet<()>>,
}

/// Where the events of a queue go, or those of all queues.
type Channels = HashMap<Option<QueueName>, broadcast::Sender<Message>>;

impl Feeds {
    /// Listens to a queue, from now on.
    ///
    /// # Errors
    ///
    /// [`Problem`] if Redis does not answer.
    pub(super) async fn listen(
        &self,
        app: &AppState,
        queue: &Queue,
    ) -> Result<broadcast::Receiver<Message>, Problem> {
        if let Some(sender) = self.channels().get(&Some(queue.name().clone())) {
            return Ok(sender.subscribe());
        }
        let last = queue.events().last(1).await.map_err(redis("failed to read the events"))?;
        Ok(self.read(app, queue, last.last().map(|event| event.entry)))
    }

    /// Listens to a queue that nobody has listened to, from this entry on. Somebody else may have begun meanwhile.
    fn read(&self, app: &AppState, queue: &Queue, last: Option<EntryId>) -> broadcast::Receiver<Message> {
        let mut channels = self.channels();
        let sender = match channels.entry(Some(queue.name().clone())) {
            Entry::Occupied(known) => return known.get().subscribe(),
            Entry::Vacant(new) => new.insert(broadcast::Sender::new(BUFFERED)).clone(),
        };
        let receiver = sender.subscribe();
        drop(channels);
        self.spawn(Reader { app: app.clone(), queue: queue.clone(), sender, last }.run());
        receiver
    }

    /// Listens to all queues, from now on. Queues that are new are added.
    ///
    /// # Errors
    ///
    /// [`Problem`] if Redis does not answer.
    pub(super) async fn listen_to_all(
        &self,
        app: &AppState,
    ) -> Result<broadcast::Receiver<Message>, Problem> {
        if let Some(sender) = self.channels().get(&None) {
            return Ok(sender.subscribe());
        }
        // The readers begin before the client gets its answer, so that it misses nothing that happens afterwards.
        let mut kept = Vec::new();
        for name in app.known().await?.queues.clone() {
            kept.push((name.clone(), self.listen(app, &app.queue(name)).await?));
        }
        let mut channels = self.channels();
        let sender = match channels.entry(None) {
            Entry::Occupied(known) => return Ok(known.get().subscribe()),
            Entry::Vacant(new) => new.insert(broadcast::Sender::new(BUFFERED)).clone(),
        };
        let receiver = sender.subscribe();
        drop(channels);
        self.spawn(watch_all(app.clone(), sender, kept));
        Ok(receiver)
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        lock(&self.channels)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Stops reading.
    pub(super) fn stop(&self) {
        lock(&self.tasks).abort_all();
    }

    /// Removes the channel of a queue, or of all queues, unless somebody listens to it.
    fn close(&self, queue: &Option<QueueName>) -> bool {
        let mut channels = self.channels();
        let is_unused = channels.get(queue).is_none_or(|sender| sender.receiver_count() == 0);
        if is_unused {
            channels.remove(queue);
        }
        is_unused
    }
}

/// Reads the events of one queue.
struct Reader {
    app: AppState,
    queue: Queue,
    sender: broadcast::Sender<Message>,
    /// The last event that was read.
    last: Option<EntryId>,
}

impl Reader {
    async fn run(mut self) {
        let (mut used, mut has_failed) = (Instant::now(), false);
        loop {
            let page = self.queue.events().page(self.last, PAGE).await;
            let pause = match page {
                Ok(events) => {
                    has_failed = false;
                    let is_full = events.len() as u64 >= PAGE;
                    for event in events {
                        self.last = Some(event.entry);
                        let live = Live::of(self.queue.name(), event, &self.app);
                        self.send(&Message::Event(Arc::new(live)));
                    }
                    if is_full { Duration::ZERO } else { EVERY }
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::warn!(queue = %self.queue.name(), %error, "events cannot be read; trying again");
                        let why = self.queue.with_keys(&error);
                        self.send(&Message::Failed(Arc::new((self.queue.name().clone(), why))));
                    }
                    PAUSE
                }
            };
            if self.sender.receiver_count() > 0 {
                used = Instant::now();
            } else if used.elapsed() >= LINGER
                && self.app.work_limits.feeds.close(&Some(self.queue.name().clone()))
            {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends to those who listen to this queue, and to those who listen to all. That nobody does is no error.
    fn send(&self, message: &Message) {
        let all = self.app.work_limits.feeds.channels().get(&None).cloned();
        for sender in all.iter().chain([&self.sender]) {
            if sender.send(message.clone()).is_err() {
                tracing::trace!("nobody listens");
            }
        }
    }
}

/// Keeps all queues read as long as anybody listens to all of them.
async fn watch_all(
    app: AppState,
    sender: broadcast::Sender<Message>,
    mut kept: Vec<(QueueName, broadcast::Receiver<Message>)>,
) {
    let mut used = Instant::now();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if sender.receiver_count() > 0 {
            used = Instant::now();
        } else if used.elapsed() >= LINGER && app.work_limits.feeds.close(&None) {
            return;
        }
        let Ok(known) = app.known().await else { continue };
        if known.missing.is_empty() {
            kept.retain(|(name, _)| known.queues.contains(name));
        }
        for name in &known.queues {
            if kept.iter().all(|(listened, _)| listened != name) {
                // The queue is new, so all its events are.
                let receiver = app.work_limits.feeds.read(&app, &app.queue(name.clone()), None);
                kept.push((name.clone(), receiver));
            }
        }
    }
}
