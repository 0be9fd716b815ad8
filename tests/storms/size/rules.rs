//! As many rules as a queue may have, as long as they may be, and as many waiting lists as one look counts.

use std::time::Duration;

use streamfleet::job::{Breaker, GateName, Limits};

use harness::alone::alone;
use harness::scene::Scene;
use harness::scripts::{reply, source};
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

/// More rules than a queue may have.
const TOO_MANY: usize = 4000;

/// Makes a thousand waiting lists of a job each.
const LISTS: &str = "for nth = 1, 1000 do local name = 'unknown:t' .. nth redis.call('HSET', KEYS[1], name, 1) \
    redis.call('XADD', ARGV[1] .. name, '*', 'type', 'test') end return 1";

/// What the queue's leader asks.
const SNAPSHOT: [&str; 11] = [
    "sf:{default}:delayed",
    "sf:{default}:dead",
    "sf:{default}:leader",
    "sf:{default}:jobs:high",
    "sf:{default}:jobs",
    "sf:{default}:jobs:low",
    "sf:{default}:cron",
    "sf:{default}:rooms:places",
    "sf:{default}:gates",
    "sf:{default}:rooms",
    "sf:{default}:counts",
];

fn tenant(nth: usize) -> GateName {
    format!("key:h.tenant={nth}").parse().unwrap()
}

/// Adds rules, each with `add`, until the queue has no room for more. Then changes and reads them, and looks at the queue.
async fn fill(add: impl AsyncFn(&Scene, &GateName) -> bool) -> Verdict {
    let scene = Scene::new().await;
    scene.server.cmd(&["EVAL", LISTS, "1", "sf:{default}:rooms", "sf:{default}:room:"]);
    let mut rules = 0;
    while add(&scene, &tenant(rules)).await {
        rules += 1;
        assert!(rules < TOO_MANY, "no rule was refused");
    }
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    for nth in 0..100 {
        assert!(add(&scene, &tenant(nth)).await, "a rule may be replaced");
        assert_eq!(scene.queue.gates().rules().await.unwrap().iter().count(), rules);
        reply(&scene.server, source("snapshot"), &SNAPSHOT, &["1000", "15000"]);
    }
    println!("{rules} rules");
    yardstick.judge(&scene.server)
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_closed_gates_as_a_queue_may_have_hold_redis_up_for_a_short_time() {
    let _alone = alone();
    let (by, why) = ("b".repeat(128), "w".repeat(512));
    in_one_of_three(async || {
        fill(async |scene, gate| scene.queue.gates().close(gate, &by, &why, None).await.is_ok()).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_breakers_as_a_queue_may_have_hold_redis_up_for_a_short_time() {
    let _alone = alone();
    let minute = Duration::from_secs(60);
    let limits = Limits::default().breaker(Breaker::new(0.5, 20, minute, minute).unwrap());
    in_one_of_three(async || {
        fill(async |scene, gate| scene.queue.gates().set(gate, &limits).await.is_ok()).await
    })
    .await;
}
