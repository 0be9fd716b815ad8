//! The limit holds over several processes that are killed, and no job is lost.

use std::time::{Duration, Instant};

use crate::harness::process::{Launch, Worker};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::until;

const STREAM: &str = "sf:{default}:jobs";
const HELD: &str = "sf:{default}:held:type:test";
const JOBS: usize = 60;
const LIMIT: i64 = 3;

const CONFIG: &str = r#"
[worker]
lease = "1s"
[queues.default]
tracking = "all"
[types.test]
handler = { exec = { command = ["sleep", "0.05"] } }
max_losses = 20
backoff = { fixed = "10ms" }
[types.test.limits]
concurrency = 3
[telemetry]
listen = "127.0.0.1:0"
"#;

fn number(server: &RedisServer, command: &[&str]) -> i64 {
    redis::from_redis_value(server.cmd(command)).unwrap()
}

#[test]
fn killed_workers_neither_exceed_the_limit_nor_lose_a_job() {
    let server = RedisServer::start();
    let url = server.url();
    let start =
        || -> Worker { Launch::new(&["-c", "{config}", "--redis", &url, "worker"]).config(CONFIG).start() };
    let mut workers: Vec<Worker> = (0..4).map(|_| start()).collect();
    let ids: Vec<String> = (0..JOBS)
        .map(|_| redis::from_redis_value(server.cmd(&["XADD", STREAM, "*", "type", "test"])).unwrap())
        .collect();
    let is_done = |id: &String| {
        let state = server.cmd(&["HGET", &format!("sf:{{default}}:job:{id}"), "state"]);
        redis::from_redis_value::<Option<String>>(state).unwrap().as_deref() == Some("done")
    };
    let (mut killed, mut last) = (0, Instant::now());
    until("all jobs to be done", Duration::from_secs(90), || {
        let held = number(&server, &["HLEN", HELD]);
        assert!(held <= LIMIT, "{held} jobs hold places");
        if killed < 6 && last.elapsed() > Duration::from_millis(700) {
            // The leader, too, in its turn.
            workers[killed % 4].kill9();
            workers[killed % 4] = start();
            (killed, last) = (killed + 1, Instant::now());
        }
        ids.iter().all(is_done)
    });
    assert!(killed > 0, "all jobs were done before the first kill");
    until("the rooms to be empty", Duration::from_secs(10), || {
        number(&server, &["EXISTS", "sf:{default}:rooms:places"]) == 0
    });
    for worker in &workers {
        worker.term();
        worker.wait_exit(Duration::from_secs(20));
    }
    assert_eq!(number(&server, &["EXISTS", HELD]), 0);
}
