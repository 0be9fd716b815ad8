//! A rolling update with processes: four workers under load are replaced one by one with a version that knows one more
//! type. `cargo test --test fleet rolling:: -- --nocapture` prints the account.

mod account;
mod version;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use streamfleet::job::JobId;
use streamfleet::{Producer, Queue, Submission};

use account::{Account, Ledger};
use harness::fleet::{queue, until_empty};
use harness::process::Worker;
use harness::redis_server::RedisServer;
use harness::scrape::{address, get};
use harness::wait::{until, until_async};
use version::Version;

const SOON: Duration = Duration::from_secs(30);

/// How long after SIGTERM the supervisor kills a worker.
const GRACE: Duration = Duration::from_secs(8);

const WORKERS: usize = 4;

/// Jobs that only the new version knows.
const FRESH: usize = 5;

/// How a worker was replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped,
    Killed,
}

fn submission(job_type: &str) -> Submission {
    Submission::new(job_type).unwrap()
}

/// Submits until `over` is set. Returns the accepted jobs.
async fn load(queue: Queue, over: Arc<AtomicBool>) -> Vec<JobId> {
    let producer = Producer::new(queue);
    let (mut accepted, mut beat) = (Vec::new(), tokio::time::interval(Duration::from_millis(100)));
    while !over.load(Ordering::Relaxed) {
        beat.tick().await;
        for job_type in ["short", "short", "short", "short", "long"] {
            accepted.push(producer.submit(submission(job_type)).await.unwrap());
        }
    }
    accepted
}

fn until_ready(worker: &Worker) {
    let address = address(worker);
    until("the worker is ready", SOON, || get(&address, "/readyz").is_some_and(|(status, _)| status == 200));
}

/// Does what Kubernetes does to a pod: asks it to stop, and kills it after the grace period.
fn end(worker: &Worker) -> (End, Duration) {
    let asked = Instant::now();
    worker.term();
    let ended = until("the end, or the end of the grace period", SOON, || match worker.exit_status() {
        Some(status) => Some((End::Stopped, status.code())),
        None => (asked.elapsed() > GRACE).then_some((End::Killed, Some(0))),
    });
    assert_eq!(ended.1, Some(0), "a worker that stops gracefully exits with 0");
    if ended.0 == End::Killed {
        worker.kill9();
    }
    (ended.0, asked.elapsed())
}

/// Replaces the workers one by one, the new one first, as a rollout with `maxUnavailable: 0` does.
fn roll(old: Vec<Worker>, new: &Version, account: &mut Account) -> Vec<Worker> {
    let mut fleet = Vec::new();
    for worker in old {
        let successor = new.start();
        until_ready(&successor);
        fleet.push(successor);
        let (end, took) = end(&worker);
        account.replaced(end == End::Killed, took);
    }
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_6_a_rolling_update_loses_no_job_and_spends_no_attempt() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (ledger, queue) = (Ledger::new(dir.path()), queue(&server).await);
    let (old, new) = (Version::old(&server, &ledger), Version::new(&server, &ledger));
    let mut fleet: Vec<Worker> = (0..WORKERS).map(|_| old.start()).collect();
    fleet.iter().for_each(until_ready);
    let producer = Producer::new(queue.clone());
    let mut early = vec![producer.submit(submission("stubborn")).await.unwrap()];
    for _ in 0..FRESH {
        early.push(producer.submit(submission("fresh")).await.unwrap());
    }
    // The third worker to be replaced is the one that will not end in time.
    let stuck = until("the stubborn job runs", SOON, || ledger.starts_of(&early[0]).first().copied());
    let at = fleet.iter().position(|worker| worker.pid() == stuck).expect("a worker runs it");
    fleet.swap(at, 2);
    until_async("the new type to be unknown", SOON, async || {
        queue.snapshot().await.unwrap().in_unknown_rooms == FRESH as u64
    })
    .await;
    let (over, mut account) = (Arc::new(AtomicBool::new(false)), Account::begin());
    let loading = tokio::task::spawn(load(queue.clone(), Arc::clone(&over)));
    let fleet = tokio::task::block_in_place(|| {
        until("the load to begin", SOON, || ledger.starts() > 20);
        roll(fleet, &new, &mut account)
    });
    over.store(true, Ordering::Relaxed);
    let accepted = loading.await.unwrap();
    until_empty(&queue).await;
    let jobs: Vec<JobId> = early.iter().cloned().chain(accepted).collect();
    account.close(&server, &queue, &ledger, &jobs).await;
    eprintln!("{account}");
    account.assert_clean(&early[0]);
    let newcomers: BTreeSet<u32> = fleet.iter().map(Worker::pid).collect();
    for job in &early[1..] {
        let ran_by = ledger.starts_of(job);
        assert!(ran_by.iter().all(|pid| newcomers.contains(pid)), "{job} ran at {ran_by:?}");
    }
    for worker in fleet {
        worker.term();
        assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    }
}
