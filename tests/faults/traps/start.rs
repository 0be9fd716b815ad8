//! A worker that Redis refuses in the middle of its startup.

use harness::fleet::{Acts, Running, quick};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

/// The worker serves two queues with one job each. One of them cannot be joined for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_cannot_be_joined_takes_no_job_and_blocks_no_other() {
    let scene = Scene::new().await;
    let other = "sf:{later}:jobs";
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test"]);
    scene.server.cmd(&["XADD", other, "*", "type", "test"]);
    scene.server.cmd(&["SET", "sf:{later}:control", "a string"]);
    let mut config = scene.config(LONG);
    let own = config.worker.queues.values().next().unwrap().clone();
    config.worker.queues.insert("later".parse().unwrap(), own);
    let handler = Acts::well();
    let fleet = Running::start_with(config, quick(3), handler.clone());
    let refusals = || -> u32 {
        let stats: String = redis::from_redis_value(scene.server.cmd(&["INFO", "errorstats"])).unwrap();
        let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_WRONGTYPE:count="));
        count.map_or(0, |count| count.trim().parse().unwrap())
    };
    until_async("the job of the first queue to be done", SOON, async || scene.int(&["XLEN", STREAM]) == 0)
        .await;
    until_async("joining the second queue to be refused twice", SOON, async || refusals() > 1).await;
    assert_eq!((handler.all_runs(), scene.int(&["XLEN", other])), (1, 1));
    scene.server.cmd(&["DEL", "sf:{later}:control"]);
    until_async("the job of the second queue to be done", SOON, async || scene.int(&["XLEN", other]) == 0)
        .await;
    assert_eq!(handler.all_runs(), 2);
    fleet.stop().await;
}
