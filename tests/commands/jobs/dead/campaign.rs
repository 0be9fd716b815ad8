//! A campaign replays each letter once, although the workers that lead it are killed.

use redis::Value;
use streamfleet_engine::admin::{ReplayRules, TaskState};

use super::SOON;
use harness::campaigns::{begin, until_campaign, write};
use harness::dead::{DEAD, letters};
use harness::fleet::queue;
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until;

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_goes_on_though_its_leaders_are_killed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 400, "noop");
    let id = begin(&queue, ReplayRules::default().rate(100.0)).await;
    let config = "telemetry.listen = \"off\"\n[worker]\nlease = \"1s\"\n[types.noop]\nhandler = \"noop\"\n";
    let launch = Launch::new(&["worker", "--config", "{config}", "--redis", &server.url()]).config(config);
    for most in [330, 200] {
        let worker = launch.start();
        until(
            "some to be replayed",
            2 * SOON,
            || matches!(server.cmd(&["XLEN", DEAD]), Value::Int(left) if left <= most),
        );
        worker.kill9();
    }
    let worker = launch.start();
    let counts = until_campaign(&queue, &id, TaskState::Done).await.replay.unwrap();
    worker.kill9();
    assert_eq!((counts.replayed, counts.succeeded, counts.skipped), (400, 400, 0));
    assert_eq!(letters(&queue).await.len(), 0);
}
