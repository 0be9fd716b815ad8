//! Recurring jobs on real servers: each tick is one job, whichever process submits it, is away, or loses a reply.

mod alive;
mod change;
mod fleet;
mod lost;
mod missed;
mod scripts;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use streamfleet::cron::Entry;
use streamfleet::{Fleet, FleetConfig, Queue, Shutdown};
use streamfleet_engine::admin::CronStatus;
use tokio::task::JoinHandle;

use harness::cron::named;
use harness::fleet::{Acts, quick};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

/// Returns the status of an entry; `None` if there is none with this name.
async fn status(queue: &Queue, name: &str) -> Option<CronStatus> {
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
