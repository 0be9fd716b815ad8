//! What a worker reads at once and holds is bounded in bytes, however large the entries are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use streamfleet::{Handler, JobContext, JobError, RawPayload};
use tokio::sync::watch;

use super::cost::fill;
use harness::fleet::{Running, config, quick};
use harness::scene::{LONG, SOON, Scene};
use harness::wait::until_async;

const STREAM: &str = "sf:{default}:jobs";
const LARGE: usize = 1024 * 1024;

/// A handler whose jobs run until it is opened.
#[derive(Clone)]
struct Closed {
    open: watch::Sender<bool>,
    done: Arc<AtomicU32>,
}

impl Handler for Closed {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, _: RawPayload, _: JobContext) -> Result<Value, JobError> {
        let mut open = self.open.subscribe();
        let _closed_for_good = open.wait_for(|open| *open).await.is_err();
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(Value::Null)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_holds_few_unstarted_large_jobs_and_runs_all() {
    let scene = Scene::new().await;
    fill(&scene.server, STREAM, 300, LARGE);
    let handler = Closed { open: watch::Sender::new(false), done: Arc::default() };
    let mut config = config(&scene.server.url());
    config.worker.lease = LONG;
    config.worker.prefetch = 400;
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 2;
    }
    let fleet = Running::start_with(config, quick(3), handler.clone());
    let held = async || scene.queue.snapshot().await.unwrap().running();
    until_async("the worker to hold as much as it may", SOON, async || held().await >= 64).await;
    // A worker that continued to read would do so before its other loops have run this often.
    let before = scene.server.calls("evalsha");
    until_async("the worker to do other things", SOON, async || scene.server.calls("evalsha") >= before + 5)
        .await;
    let held = held().await;
    println!("{held} of 300 are held");
    // 64 MiB waiting, two jobs running, and two reads in addition.
    assert!((64..=120).contains(&held), "{held} of 300 are held");
    handler.open.send_replace(true);
    scene.until_at_rest().await;
    assert_eq!(handler.done.load(Ordering::Relaxed), 300);
    fleet.stop().await;
}
