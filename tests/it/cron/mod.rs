//! Recurring jobs on real servers: each tick is one job, whichever process submits it, is away, or loses a reply.

mod alive;
mod change;
mod fleet;
mod lost;
mod missed;
mod scripts;
pub(crate) mod witness;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use streamfleet::admin::CronStatus;
use streamfleet::cron::{Entry, Missed, Schedule};
use streamfleet::job::{CronName, Timestamp};
use streamfleet::{Fleet, FleetConfig, Queue, Shutdown};
use tokio::task::JoinHandle;

use crate::harness::fleet::{Acts, quick};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);
pub(crate) const STATES: &str = "sf:{default}:cron:ticks";

/// Returns a recurring job of the type `test` in UTC.
pub(crate) fn entry(name: &str, expression: &str) -> Entry {
    Entry::new(name, Schedule::new(expression, "UTC").unwrap(), "test").unwrap()
}

/// Returns a recurring job with a tick each second, which submits all missed ticks.
pub(crate) fn each_second(name: &str) -> Entry {
    entry(name, "* * * * * *").when_missed(Missed::All)
}

pub(crate) fn named(name: &str) -> CronName {
    name.parse().unwrap()
}

/// Returns the status of an entry; `None` if there is none with this name.
pub(crate) async fn status(queue: &Queue, name: &str) -> Option<CronStatus> {
    let table = queue.cron().table().await.unwrap();
    table.entries.into_iter().find(|status| status.name == named(name))
}

/// The ids of the jobs that ran, in order, each as often as it ran.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<String>>>);

impl Ran {
    fn handler(&self) -> Acts {
        let ran = self.clone();
        Acts::new(move |context, _| {
            ran.0.lock().unwrap().push(context.id().to_string());
            Ok(Value::Null)
        })
    }

    /// Returns the ticks of an entry whose jobs ran, sorted.
    fn ticks(&self, name: &str) -> Vec<u64> {
        let prefix = format!("cron.{name}.");
        let ran = self.0.lock().unwrap();
        let mut ticks: Vec<u64> =
            ran.iter().filter_map(|id| id.strip_prefix(&prefix)?.parse().ok()).collect();
        ticks.sort_unstable();
        ticks
    }

    async fn until(&self, name: &str, count: usize) -> Vec<u64> {
        until_async(&format!("{count} jobs of {name}"), SOON, async || {
            Some(self.ticks(name)).filter(|ticks| ticks.len() >= count)
        })
        .await
    }
}

/// Whether the ticks are those of successive seconds, each once.
fn is_every_second(ticks: &[u64]) -> bool {
    ticks.windows(2).all(|pair| pair[1] == pair[0] + 1000)
}

/// A process of a fleet that has recurring jobs in its configuration.
struct Process {
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Process {
    fn start(config: FleetConfig, entries: Vec<Entry>, handler: Acts) -> Self {
        let builder = Fleet::builder(config).handler_with("test", quick(3), handler).unwrap();
        let fleet = entries.into_iter().fold(builder, streamfleet::Builder::cron).build();
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        Self { shutdown, task: tokio::task::spawn(async move { fleet.run(stop).await.unwrap() }) }
    }

    async fn stop(self) {
        self.shutdown.request();
        self.task.await.unwrap();
    }
}

/// Sets an entry back, as if no process had handled it since then.
pub(crate) async fn set_back(server: &RedisServer, queue: &Queue, name: &str, by: Duration) -> Timestamp {
    let now = queue.cron().table().await.unwrap().now;
    let then = now.as_ms() - u64::try_from(by.as_millis()).unwrap();
    let state: String = redis::from_redis_value(server.cmd(&["HGET", STATES, name])).unwrap();
    let rest = state.split_once(' ').unwrap().1;
    server.cmd(&["HSET", STATES, name, &format!("{then} {rest}")]);
    Timestamp::from_ms(then).unwrap()
}
