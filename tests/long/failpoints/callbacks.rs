//! Callbacks and chains: each is submitted once, whatever happens to the worker that settles the job.

use std::collections::BTreeSet;

use super::drill::Drill;
use harness::ledger::{Ledger, Record};
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;

fn submit(server: &RedisServer) {
    let add = |fields: &[&str]| {
        let head = ["XADD", "sf:{default}:jobs", "*", "type", "test"];
        server.cmd(&head.iter().chain(fields).copied().collect::<Vec<_>>());
    };
    add(&["id", "retried", "payload", "fail 1", "on_success", "test", "on_failure", "test"]);
    add(&["id", "fatal", "payload", "fatal", "on_success", "test", "on_failure", "test"]);
    add(&["id", "chain", "payload", "ok", "then", r#"[{"type":"test","payload":"ok"},{"type":"test"}]"#]);
}

/// Checks that the three jobs, two callbacks and two links of the chain ran, with one id each, and that there is one dead letter.
fn judge(server: &RedisServer, ledger: &Ledger) -> Result<(), String> {
    let started = ledger.read().into_iter().filter_map(|record| match record {
        Record::Start { run, .. } => Some(run.job),
        _ => None,
    });
    let jobs: BTreeSet<String> = started.collect();
    let dead: u64 = redis::from_redis_value(server.cmd(&["XLEN", "sf:{default}:dead"])).unwrap();
    match (jobs.len(), dead) {
        (7, 1) => Ok(()),
        (count, dead) => {
            let letters = server.cmd(&["XRANGE", "sf:{default}:dead", "-", "+", "COUNT", "10"]);
            Err(format!("{count} jobs ran and {dead} died: {jobs:?} {letters:?}"))
        }
    }
}

#[test]
fn each_callback_is_submitted_once_despite_any_fault() {
    let drill = Drill {
        scripts: &["begin", "complete", "defer", "bury", "promote"],
        submit,
        is_done: |server| jobs_left(server) == 0,
        judge,
    };
    drill.run("callbacks");
}
