//! How long one script blocks Redis next to a large backlog.

use std::time::Duration;

use streamfleet::{JobError, Producer};

use super::cost::fill;
use harness::fleet::{Acts, Running, config, quick};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, Scene, job};
use harness::wait::until_async;
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

const OTHERS: &str = "sf:{default}:jobs:low";
const DEAD: &str = "sf:{default}:dead";

fn fails_twice() -> Acts {
    Acts::new(|context, _| match context.attempt() {
        1 => Err(JobError::retry("once more")),
        _ => Err(JobError::fatal("no")),
    })
}

fn fleet(scene: &Scene, handler: Acts) -> Running {
    let mut config = config(&scene.server.url());
    config.worker.lease = LONG;
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 500;
    }
    Running::start_with(config, quick(3), handler)
}

fn backlog() -> u32 {
    std::env::var("STREAMFLEET_TEST_WAITING").map_or(200_000, |text| text.parse().unwrap())
}

/// Lets the other jobs stay in their lane while the fleet works: its group begins behind them.
fn never_deliver(server: &RedisServer) {
    server.cmd(&["XGROUP", "CREATE", OTHERS, "fleet", "$"]);
}

async fn until_dead(scene: &Scene, jobs: i64) {
    until_async("all to be dead", 15 * SOON, async || scene.int(&["XLEN", DEAD]) == jobs).await;
}

/// No script blocks Redis for long, however many jobs there are.
#[tokio::test(flavor = "multi_thread")]
async fn promise_9_no_script_blocks_redis_for_long() {
    in_one_of_three(async || many_jobs().await).await;
}

/// Large jobs do not block Redis either: the other half of the promise.
#[tokio::test(flavor = "multi_thread")]
async fn promise_9_scripts_carry_no_large_fields() {
    in_one_of_three(async || large_jobs().await).await;
}

async fn many_jobs() -> Verdict {
    let scene = Scene::new().await;
    fill(&scene.server, OTHERS, backlog(), 100);
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let producer = Producer::new(scene.queue.clone());
    let due = scene.queue.snapshot().await.unwrap().now.after(Duration::from_secs(2));
    let plain = (0..1_000).map(|_| job("{}"));
    let own = (0..1_000).map(|nth| job("{}").id(format!("own-{nth}").parse().unwrap()));
    let later = (0..4_000).map(|_| job("{}").at(due));
    producer.submit_all(plain.chain(own).chain(later)).await.unwrap();
    never_deliver(&scene.server);
    let fleet = fleet(&scene, fails_twice());
    until_dead(&scene, 6_000).await;
    let unknown = "nobody".parse().unwrap();
    scene.queue.cancel(&unknown, "a test", LONG).await.unwrap();
    scene.queue.delayed().page(0, 1_000).await.unwrap();
    fleet.stop().await;
    yardstick.judge(&scene.server)
}

async fn large_jobs() -> Verdict {
    const LARGE: usize = 8 * 1024 * 1024 - 200;
    const JOBS: i64 = 40;
    let scene = Scene::new().await;
    let large = vec![b'x'; LARGE];
    fill(&scene.server, OTHERS, backlog(), 100);
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let producer = Producer::new(scene.queue.clone());
    let due = scene.queue.snapshot().await.unwrap().now.after(Duration::from_secs(4));
    for _ in 0..JOBS - 10 {
        producer.submit(job(large.clone()).at(due)).await.unwrap();
    }
    for nth in 0..5 {
        producer.submit(job(large.clone())).await.unwrap();
        producer.submit(job(large.clone()).id(format!("own-{nth}").parse().unwrap())).await.unwrap();
    }
    never_deliver(&scene.server);
    let running = fleet(&scene, fails_twice());
    until_dead(&scene, JOBS).await;
    running.stop().await;
    let page = scene.queue.dead_letters().recent(None, 100).await.unwrap();
    assert!(page.iter().all(|letter| letter.fields.get(b"payload") == Some(&large[..])));
    for letter in page.iter().take(3) {
        scene.queue.dead_letters().replay(letter.entry, &letter.job()).await.unwrap();
    }
    yardstick.judge(&scene.server)
}
