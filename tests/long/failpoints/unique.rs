//! Unique keys: no lock is left without a live job, whatever happens to the worker that starts or settles its job.

use streamfleet::job::Encoding;
use streamfleet::{Producer, Submission, UniqueMode, UniqueScope};

use super::drill::Drill;
use harness::fleet::queue;
use harness::ledger::Ledger;
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;

/// A job for each way to end, and the scopes that end with the job.
const JOBS: [(&str, &str, UniqueScope); 4] = [
    ("retried", "fail 1", UniqueScope::Running),
    ("fatal", "fatal", UniqueScope::Running),
    ("done", "ok", UniqueScope::Running),
    ("started", "fail 1", UniqueScope::Waiting),
];

fn offer(server: &RedisServer) -> Vec<bool> {
    let offers = async {
        let producer = Producer::new(queue(server).await);
        let mut accepted = Vec::new();
        for (key, payload, scope) in JOBS {
            let job = Submission::new("test").unwrap().payload(payload, Encoding::Raw).unwrap();
            let job = job.unique(key.parse().unwrap(), scope, UniqueMode::Reject);
            accepted.push(producer.submit_or_find(job).await.unwrap().existing().is_none());
        }
        accepted
    };
    tokio::runtime::Runtime::new().unwrap().block_on(offers)
}

fn submit(server: &RedisServer) {
    assert_eq!(offer(server), [true; 4]);
}

/// Checks, after every job has ended, that no lock is left and each key is free.
fn judge(server: &RedisServer, _ledger: &Ledger) -> Result<(), String> {
    let locks: Vec<String> = redis::from_redis_value(server.cmd(&["KEYS", "sf:{default}:unique:*"])).unwrap();
    let free = offer(server);
    if locks.is_empty() && free == [true; 4] {
        Ok(())
    } else {
        Err(format!("these locks are left: {locks:?}; keys that are free: {free:?}"))
    }
}

#[test]
fn no_lock_is_left_without_a_live_job_despite_any_fault() {
    let drill = Drill {
        scripts: &["begin", "complete", "defer", "bury", "promote"],
        submit,
        is_done: |server| jobs_left(server) == 0,
        judge,
    };
    drill.run("unique");
}
