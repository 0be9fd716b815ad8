//! Gates: no job is left in a waiting list, and no place in a gate is lost, whatever happens to the worker that parks a job, lets it pass
//! or lets others out.

use std::time::Duration;

use streamfleet::job::Limits;

use super::drill::Drill;
use harness::fleet::queue;
use harness::ledger::Ledger;
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::wait::until;

const STREAM: &str = "sf:{default}:jobs";
const JOBS: usize = 3;

fn add(server: &RedisServer, payload: &str) {
    server.cmd(&["XADD", STREAM, "*", "type", "test", "payload", payload]);
}

/// One job at a time: the others wait in the waiting list. All arrive together, or else the first might end before the second arrives.
fn submit(server: &RedisServer) {
    let limiting = async {
        let gate = "type:test".parse().unwrap();
        queue(server).await.gates().set(&gate, &Limits::default().concurrency(1)).await.unwrap();
    };
    tokio::runtime::Runtime::new().unwrap().block_on(limiting);
    let script =
        "for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'payload', 'sleep 100') end";
    server.cmd(&["EVAL", script, "1", STREAM, &JOBS.to_string()]);
}

/// Checks that the gate still lets a job pass.
fn judge(server: &RedisServer, _ledger: &Ledger) -> Result<(), String> {
    add(server, "ok");
    until("one more job to pass", Duration::from_secs(20), || jobs_left(server) == 0);
    let waitlists = server.cmd(&["HLEN", "sf:{default}:rooms"]);
    let held: i64 = redis::from_redis_value(server.cmd(&["HLEN", "sf:{default}:held:type:test"])).unwrap();
    if held <= 1 { Ok(()) } else { Err(format!("{held} places are held, with these rooms: {waitlists:?}")) }
}

#[test]
fn no_job_is_left_in_a_waiting_list_despite_any_fault() {
    let is_done = |server: &RedisServer| jobs_left(server) == 0;
    let drill = Drill { scripts: &["admit", "park", "drain"], submit, is_done, judge };
    drill.run("gates");
}
