//! The endpoint that `report.notify` posts to: it collects notifications and, like any endpoint, is sometimes unavailable.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::plan;

/// One in this many notifications is refused at its first attempt.
const REFUSED_ONE_OF: u64 = 4;

/// A running endpoint; it ends when this is dropped.
pub(super) struct Endpoint {
    port: u16,
    inbox: Arc<Mutex<Inbox>>,
    _serving: JoinSet<io::Result<()>>,
}

struct Inbox {
    /// How often each job's notification was accepted.
    accepted: BTreeMap<String, u64>,
    refused: u64,
    /// Whether it accepts [`plan::REFUSED`] by now.
    mended: bool,
    seed: u64,
}

/// What the endpoint has received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notifications {
    /// The number of distinct jobs whose notification was accepted.
    pub(super) accepted: usize,
    /// How many of them arrived more than once, by their `Idempotency-Key`.
    pub(super) repeated: usize,
    /// How often the endpoint responded with 503.
    pub(super) refused: u64,
}

impl Endpoint {
    /// Opens the endpoint on a free port.
    pub(super) async fn open(seed: u64, pace: Duration) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let inbox = Inbox { accepted: BTreeMap::new(), refused: 0, mended: false, seed };
        let inbox = Arc::new(Mutex::new(inbox));
        let routes = Router::new().route("/notify", post(notify)).with_state((Arc::clone(&inbox), pace));
        let mut serving = JoinSet::new();
        serving.spawn(axum::serve(listener, routes).into_future());
        Ok(Self { port, inbox, _serving: serving })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/notify", self.port)
    }

    /// Fixes what made it refuse one notification every time.
    pub(super) fn mend(&self) {
        self.inbox().mended = true;
    }

    pub(super) fn notifications(&self) -> Notifications {
        let inbox = self.inbox();
        let repeated = inbox.accepted.values().filter(|times| **times > 1).count();
        Notifications { accepted: inbox.accepted.len(), repeated, refused: inbox.refused }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn notify(
    State((inbox, pace)): State<(Arc<Mutex<Inbox>>, Duration)>,
    headers: HeaderMap,
) -> (StatusCode, &'static str) {
    tokio::time::sleep(pace / 2).await;
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let attempt = header("x-streamfleet-job-attempt");
    inbox.lock().unwrap_or_else(PoisonError::into_inner).answer(header("idempotency-key"), attempt)
}

impl Inbox {
    fn answer(&mut self, job: &str, attempt: &str) -> (StatusCode, &'static str) {
        let barred = !self.mended && job == plan::REFUSED;
        if barred || attempt == "1" && self.is_unlucky(job) {
            self.refused += 1;
            let why = if barred { "the mailbox is full" } else { "too busy" };
            return (StatusCode::SERVICE_UNAVAILABLE, why);
        }
        *self.accepted.entry(job.to_owned()).or_default() += 1;
        (StatusCode::OK, "{\"accepted\":true}")
    }

    /// Whether the seed makes this job's first attempt fail, independent of the order of arrival.
    fn is_unlucky(&self, job: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.seed, job).hash(&mut hasher);
        hasher.finish().is_multiple_of(REFUSED_ONE_OF)
    }
}
