//! Retention by a worker that is killed while it drops letters.

use std::time::Duration;

use harness::dead::{DEAD, bury, left};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_worker_killed_while_trimming_leaves_whole_letters() {
    let server = RedisServer::start();
    let config = "telemetry.listen = \"off\"\ntelemetry.log_format = \"json\"\n[queues.default]\ndead_max = 7\n\
        [types.test]\nhandler = \"noop\"\n[worker]\nlease = \"1s\"\n";
    let launch = Launch::new(&["worker", "--config", "{config}", "--redis", &server.url()]).config(config);
    // On a busy machine, the work may be finished before this test sees that it has begun.
    let mut tries = (0..5).map(|_| {
        server.cmd(&["FLUSHALL"]);
        bury(&server, 0..3000, 0);
        let first = launch.start();
        until("some letters are gone", SOON, || server.cmd(&["XLEN", DEAD]) != redis::Value::Int(3000));
        first.kill9();
        left(&server)
    });
    let rest = tries.find(|rest| rest.len() > 7).expect("one of five was killed in the middle");
    assert_eq!(rest, (3000 - rest.len() as u64..3000).collect::<Vec<_>>(), "the oldest must go first");
    let second = launch.start();
    // A cheap question: each letter that is dropped waits for its answer.
    until("all others to be dropped", 3 * SOON, || server.cmd(&["XLEN", DEAD]) == redis::Value::Int(7));
    until("their records to go with them", SOON, || left(&server) == (2993..3000).collect::<Vec<_>>());
    until("it to log that", SOON, || {
        let log = second.stderr();
        log.contains("\"level\":\"WARN\"") && log.contains("retention dropped dead letters")
    });
    second.kill9();
}
