//! What a process does with databases while it runs.

use std::sync::Arc;
use std::time::Duration;

use streamfleet::event::Events;
use streamfleet::job::QueueName;
use streamfleet::{RedisConfig, chore};
use streamfleet_service::config::{Effective, HistorySection, OutboxSection};
use streamfleet_sql::{LazyDatabase, Options};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::relay::Relay;
use super::writer::Writer;

/// How long a statement that is under way may take when the process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The tasks of a process that write the history and submit the outbox.
pub(crate) struct Databases {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Databases {
    /// Starts what the configuration asks for, in tasks of this runtime. Redis and the database may be out of reach for now.
    pub(crate) fn start(effective: &Effective, events: &Events) -> Self {
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let config = &effective.config;
        let own = format!("sql-{:016x}", rand::random::<u64>());
        if let Some(history) = &config.history {
            let parts = (config.redis.clone(), history.clone(), own.clone());
            tasks.spawn(write_history(parts, config.history_queues(), events.clone(), stop.clone()));
        }
        if let Some(outbox) = &config.outbox {
            let parts = (config.redis.clone(), outbox.clone(), own);
            tasks.spawn(relay_outbox(parts, events.clone(), stop.clone()));
        }
        Self { stop, tasks }
    }

    /// Stops: what is under way is finished, and another process can take over.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, ended).await.is_err() {
            tracing::warn!("a statement was cut short; another process repeats it");
        }
    }
}

async fn write_history(
    (redis, config, own): (RedisConfig, HistorySection, String),
    queues: Vec<QueueName>,
    events: Events,
    stop: CancellationToken,
) {
    let config = Arc::new(config);
    let Some(broker) = chore::connect(&redis, &events, &stop).await else { return };
    let address = Arc::clone(&config);
    let database = Arc::new(LazyDatabase::new(move || address.address(), Options::default()));
    let mut writers = JoinSet::new();
    for name in queues {
        let writer = Writer {
            queue: broker.queue(name),
            broker: broker.clone(),
            database: Arc::clone(&database),
            config: Arc::clone(&config),
            own: own.clone(),
            events: events.clone(),
        };
        writers.spawn(writer.run(stop.clone()));
    }
    while writers.join_next().await.is_some() {}
    database.close().await;
}

async fn relay_outbox(
    (redis, config, own): (RedisConfig, OutboxSection, String),
    events: Events,
    stop: CancellationToken,
) {
    let Some(broker) = chore::connect(&redis, &events, &stop).await else { return };
    let address = config.clone();
    let database = LazyDatabase::new(move || address.address(), Options::default());
    Relay { broker, database, config, own, events }.run(stop).await;
}
