//! The figures of all queues and what needs a person, read once for all who watch them. Each of them gets what they may see, at once
//! or as a stream.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::response::Response;
use axum::response::sse::Event;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::{Value, json};
use streamfleet::RedisError;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::{Incident, OpenIncidents};
use streamfleet_engine::mutex::lock;
use streamfleet_operations::List;
use streamfleet_operations::needs::{self, Need, Troubles};
use streamfleet_operations::queues::{self, QueueReport};
use tokio::sync::OnceCell;
use utoipa_axum::routes;

use super::events::{LONGEST, RETRY, live};
use super::queues::set_objective;
use super::work_limits::{Held, Work};
use super::{Answer, Call, Problem, QueryParams, QueuesParams, Routes, operations};
use crate::console::access::Role;
use crate::console::app_state::AppState;

/// For how long what was read is used.
const FRESH: Duration = Duration::from_millis(1500);

/// How often those who watch get what there is.
const EVERY: Duration = Duration::from_secs(2);

/// How many queues are read at once.
const AT_ONCE: usize = 16;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::QUEUES, routes!(list_needs))
        .operation(&operations::QUEUES, routes!(watch_figures))
}

/// What was read last, or is being read.
type Cell = Arc<OnceCell<Arc<Seen>>>;

/// Reads the figures of all queues, once for all who ask at about the same time.
#[derive(Default)]
pub(super) struct Figures(Mutex<Option<(Instant, Cell)>>);

/// What was read of all queues.
struct Seen {
    queues: Vec<SeenQueue>,
    incidents: Result<OpenIncidents, String>,
    /// The servers of a cluster that could not be asked, and why.
    unread: Vec<String>,
}

struct SeenQueue {
    name: QueueName,
    report: Value,
    troubles: Result<Troubles, RedisError>,
    /// How many live workers serve it.
    workers: u64,
}

impl Figures {
    async fn look(&self, app: &AppState) -> Result<Arc<Seen>, Problem> {
        let cell = self.cell();
        let seen = cell.get_or_try_init(|| async { Seen::read(app).await.map(Arc::new) }).await?;
        Ok(Arc::clone(seen))
    }

    fn cell(&self) -> Cell {
        let mut last = lock(&self.0);
        // A new one while another is being read would ask Redis for the same.
        if let Some((begun, cell)) = &*last
            && (begun.elapsed() < FRESH || !cell.initialized())
        {
            return Arc::clone(cell);
        }
        let cell = Cell::default();
        *last = Some((Instant::now(), Arc::clone(&cell)));
        cell
    }
}

impl Seen {
    async fn read(app: &AppState) -> Result<Self, Problem> {
        let known = app.known().await?;
        // Futures rather than a closure that makes them, because a server's tasks may move to another thread at every wait.
        let names = known.queues.iter().cloned();
        let reading: Vec<_> = names
            .map(|name| SeenQueue::read(app.clone(), needs::serving(&known.workers, &name), name))
            .collect();
        let incidents = app.broker.incidents();
        let (queues, incidents) =
            tokio::join!(stream::iter(reading).buffered(AT_ONCE).collect::<Vec<_>>(), incidents.open());
        let incidents = incidents.map_err(|error| format!("the incidents cannot be read: {error}"));
        Ok(Self { queues, incidents, unread: known.missing.clone() })
    }

    /// What somebody may see of it.
    fn shown(&self, call: &Call, of: &QueuesParams) -> LiveFigures {
        let shown = |text: &str| call.about(text);
        let mut figures = LiveFigures { unread: self.unread.clone(), ..LiveFigures::default() };
        match &self.incidents {
            Ok(open) => {
                let is_shown = |incident: &Incident| {
                    incident.queue.as_ref().map_or(of.are_all(), |queue| of.has(queue))
                        && call.person.check_about(Role::Viewer, incident.queue.as_ref()).is_ok()
                };
                figures.needs = needs::of_incidents(open, is_shown);
            }
            Err(why) => figures.unread.push(why.clone()),
        }
        let is_shown = |queue: &&SeenQueue| of.has(&queue.name) && call.person.may(Role::Viewer, &queue.name);
        for queue in self.queues.iter().filter(is_shown) {
            figures.queues.push(queue.report.clone());
            match &queue.troubles {
                Ok(troubles) => figures.needs.extend(troubles.needs(queue.workers, shown)),
                Err(error) => figures.unread.push(format!("{}: {error}", queue.name)),
            }
        }
        figures
    }
}

impl SeenQueue {
    async fn read(app: AppState, workers: u64, name: QueueName) -> Self {
        let queue = app.queue(name.clone());
        let (mut report, troubles) = tokio::join!(queues::show(queue.clone(), false), needs::read(&queue));
        set_objective(&app, &mut report);
        let report = serde_json::to_value(&report).expect("a report has only texts as keys");
        Self { name, report, troubles, workers }
    }
}

/// What all queues have, and what needs a person, at one moment.
#[derive(Default, Serialize, utoipa::ToSchema)]
struct LiveFigures {
    /// The queues that you may see.
    #[schema(value_type = Vec<QueueReport>)]
    queues: Vec<Value>,
    /// What needs a person.
    needs: Vec<Need>,
    /// What could not be read, and why.
    unread: Vec<String>,
}

/// What is known about everything that needs a person.
#[derive(Serialize, utoipa::ToSchema)]
struct NeedFacts {
    /// What could not be read, and why.
    unread: Vec<String>,
}

type NeedList = List<Need, NeedFacts>;

/// Lists what needs a person: first incidents that nobody has acknowledged, then the troubles of each queue.
#[utoipa::path(get, path = "/api/v1/needs", tag = "incidents", params(QueuesParams),
    responses((status = 200, description = "What needs a person", body = NeedList)))]
async fn list_needs(call: Call, QueryParams(of): QueryParams<QueuesParams>) -> Answer {
    of.check(&call)?;
    let LiveFigures { needs, unread, .. } = figures(&call, &of).await?;
    call.answer(&NeedList { items: needs, next: None, facts: NeedFacts { unread }, former: None })
}

/// The figures that somebody may see.
async fn figures(call: &Call, of: &QueuesParams) -> Result<LiveFigures, Problem> {
    Ok(call.app.work_limits.figures.look(&call.app).await?.shown(call, of))
}

/// Streams the figures of queues and what needs a person, every 2 s.
///
/// The first message comes at once. Each has `queues`, `needs` and `unread` as JSON. The last message of a stream has the type `end`; then
/// listen again. A message of the type `problem` says that the figures cannot be read at present.
#[utoipa::path(get, path = "/api/v1/live", tag = "events", params(QueuesParams),
    responses((status = 200, description = "The figures", body = LiveFigures, content_type = "text/event-stream")))]
async fn watch_figures(call: Call, QueryParams(of): QueryParams<QueuesParams>) -> Result<Response, Problem> {
    of.check(&call)?;
    let held = call.app.work_limits.begin(Work::Events)?;
    let watcher = Watcher { call, of, begun: None, has_ended: false, _held: held };
    Ok(live(stream::unfold(watcher, async |mut watcher| Some((watcher.next().await?, watcher)))))
}

/// Somebody who watches.
struct Watcher {
    call: Call,
    of: QueuesParams,
    /// When the first message was sent.
    begun: Option<Instant>,
    has_ended: bool,
    _held: Held,
}

impl Watcher {
    async fn next(&mut self) -> Option<Event> {
        if self.has_ended {
            return None;
        }
        let Some(begun) = self.begun else {
            self.begun = Some(Instant::now());
            return Some(self.look().await.retry(RETRY));
        };
        let stops = tokio::select! {
            biased;
            () = self.call.app.stopping.requested() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        if !stops && begun.elapsed() < LONGEST {
            return Some(self.look().await);
        }
        self.has_ended = true;
        let why = if stops { "the console stops" } else { "listen again" };
        Some(Event::default().event("end").data(json!({ "detail": why }).to_string()))
    }

    async fn look(&self) -> Event {
        match figures(&self.call, &self.of).await.and_then(|figures| self.call.value(&figures)) {
            Ok(figures) => Event::default().data(figures.to_string()),
            Err(problem) => {
                let why = json!({ "detail": problem.detail() }).to_string();
                Event::default().event("problem").data(why)
            }
        }
    }
}
