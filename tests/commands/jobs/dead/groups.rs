//! The counts of the groups are exact, whatever dies meanwhile.

use redis::Value;

use super::SOON;
use harness::dead::{DEAD, counts, letters};
use harness::fleet::queue;
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until;

#[tokio::test(flavor = "multi_thread")]
async fn groups_stay_exact_while_workers_are_killed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for nth in 0..400 {
        let (id, job_type) = (format!("j{nth}"), ["one", "two"][nth % 2]);
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", job_type, "id", &id, "max_attempts", "1"]);
    }
    let config = "telemetry.listen = \"off\"\n[worker]\nlease = \"1s\"\n[types.one]\nhandler = { exec = { command = [\"false\"] } }\n\
        [types.two]\nhandler = { exec = { command = [\"false\"] } }\n";
    let launch = Launch::new(&["worker", "--config", "{config}", "--redis", &server.url()]).config(config);
    for least in [50, 150, 250] {
        let worker = launch.start();
        until(
            "some to be dead",
            SOON,
            || matches!(server.cmd(&["XLEN", DEAD]), Value::Int(dead) if dead >= least),
        );
        worker.kill9();
    }
    let worker = launch.start();
    until("all to be dead", 3 * SOON, || server.cmd(&["XLEN", DEAD]) == Value::Int(400));
    worker.kill9();
    let total: u64 = counts(&queue).await.iter().sum();
    assert_eq!(total, 400);
    let ids: std::collections::BTreeSet<String> =
        letters(&queue).await.iter().map(|letter| letter.job().to_string()).collect();
    assert_eq!(ids.len(), 400);
}
