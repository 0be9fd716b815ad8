//! Changing recurring jobs while a fleet runs.

use std::time::Duration;

use streamfleet_engine::admin::{Kept, MAX_ENTRIES};

use super::{Process, Ran, SOON, status};
use harness::cron::{STATES, each_second, entry, named, set_back};
use harness::fleet::{config, queue, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_entry_submits_nothing_and_continues_when_resumed() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&each_second("held")).await.unwrap();
    queue.cron().put(&each_second("other")).await.unwrap();
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    ran.until("held", 2).await;
    assert_eq!(queue.cron().pause(&named("held")).await.unwrap(), Some(true));
    assert_eq!(queue.cron().pause(&named("held")).await.unwrap(), Some(false));
    until_empty(&queue).await;
    let held = ran.ticks("held");
    let other = ran.ticks("other").len();
    ran.until("other", other + 3).await;
    assert_eq!(ran.ticks("held"), held);
    assert!(status(&queue, "held").await.unwrap().paused);
    let resumed = server.now_ms();
    assert_eq!(queue.cron().resume(&named("held")).await.unwrap(), Some(true));
    let ticks = ran.until("held", held.len() + 2).await;
    // All ticks that were due during the pause are gone, although the entry submits all missed ticks.
    assert!(ticks[held.len()] > *held.last().unwrap() + 2000, "{ticks:?}");
    assert!(ticks[held.len()..].iter().all(|tick| *tick + 1000 > resumed), "{ticks:?} {resumed}");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_of_a_moment_cost_no_tick() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&each_second("held")).await.unwrap();
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    ran.until("held", 1).await;
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let second = server.now_ms() / 1000;
        until_async("the next tick", Duration::from_secs(20), async || server.now_ms() / 1000 > second).await;
        // It is due, and a worker may not have submitted it yet.
        let paused = server.now_ms();
        queue.cron().pause(&named("held")).await.unwrap();
        queue.cron().resume(&named("held")).await.unwrap();
        pauses.push(paused..=server.now_ms());
    }
    let ticks = ran.until("held", 7).await;
    for pair in ticks.windows(2) {
        // On a busy machine, a pause may contain a tick.
        let mut lost = (pair[0] + 1000..pair[1]).step_by(1000);
        assert!(lost.all(|tick| pauses.iter().any(|pause| pause.contains(&tick))), "{ticks:?} {pauses:?}");
    }
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_survives_a_restart_and_a_change_of_the_entry() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&each_second("held")).await.unwrap();
    queue.cron().pause(&named("held")).await.unwrap();
    let brought = each_second("held").json(&1).unwrap();
    let process = Process::start(config(&server.url()), vec![brought, each_second("other")], ran.handler());
    ran.until("other", 2).await;
    process.stop().await;
    assert_eq!(ran.ticks("held"), Vec::<u64>::new());
    let held = status(&queue, "held").await.unwrap();
    assert_eq!((held.paused, held.entry.unwrap().payload_bytes()), (true, &b"1"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_run_has_its_own_id_and_leaves_the_schedule_alone() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&entry("report", "@yearly")).await.unwrap();
    queue.cron().pause(&named("report")).await.unwrap();
    let before: String = redis::from_redis_value(server.cmd(&["HGET", STATES, "report"])).unwrap();
    let first = queue.cron().run(&named("report")).await.unwrap().unwrap();
    let second = queue.cron().run(&named("report")).await.unwrap().unwrap();
    assert!(first != second && first.to_string().starts_with("cron.report.run-"), "{first}");
    assert_eq!(queue.cron().run(&named("nothing")).await.unwrap(), None);
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    until_async("both jobs", SOON, async || ran.0.lock().unwrap().len() == 2).await;
    process.stop().await;
    let after: String = redis::from_redis_value(server.cmd(&["HGET", STATES, "report"])).unwrap();
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_entry_submits_nothing_more() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&each_second("gone")).await.unwrap();
    queue.cron().put(&each_second("other")).await.unwrap();
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    ran.until("gone", 2).await;
    assert!(queue.cron().remove(&named("gone")).await.unwrap());
    assert!(!queue.cron().remove(&named("gone")).await.unwrap());
    until_empty(&queue).await;
    let (gone, other) = (ran.ticks("gone").len(), ran.ticks("other").len());
    ran.until("other", other + 3).await;
    assert_eq!(ran.ticks("gone").len(), gone);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_added_once_and_restarts_with_another_schedule() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let hourly = entry("report", "@hourly");
    assert_eq!(queue.cron().add(&hourly).await.unwrap(), Kept::Added);
    assert_eq!(queue.cron().add(&hourly).await.unwrap(), Kept::Unchanged);
    assert_eq!(queue.cron().add(&hourly.clone().json(&1).unwrap()).await.unwrap(), Kept::Taken);
    let then = set_back(&server, &queue, "report", Duration::from_secs(7200)).await;
    assert_eq!(queue.cron().put(&hourly.json(&1).unwrap()).await.unwrap(), Kept::Replaced);
    assert_eq!(status(&queue, "report").await.unwrap().handled, then);
    assert_eq!(queue.cron().put(&entry("report", "@daily")).await.unwrap(), Kept::Replaced);
    assert!(status(&queue, "report").await.unwrap().handled > then);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_entry_is_left_alone_until_a_process_replaces_it() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    for name in ["beat", "other"] {
        queue.cron().put(&each_second(name)).await.unwrap();
        server.cmd(&["HSET", "sf:{default}:cron", name, "of a later version"]);
    }
    let process = Process::start(config(&server.url()), vec![each_second("beat")], ran.handler());
    ran.until("beat", 2).await;
    process.stop().await;
    assert_eq!(ran.ticks("other"), Vec::<u64>::new());
    assert!(status(&queue, "other").await.unwrap().entry.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_a_maximum_number_of_entries() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut many = redis::cmd("HSET");
    many.arg("sf:{default}:cron");
    for nth in 0..MAX_ENTRIES {
        many.arg(format!("x{nth}")).arg("no entry");
    }
    many.exec(&mut server.client()).unwrap();
    assert_eq!(queue.cron().put(&entry("report", "@hourly")).await.unwrap(), Kept::TooMany);
    let table = queue.cron().table().await.unwrap();
    assert_eq!(table.entries.len(), MAX_ENTRIES);
    assert!(table.entries[0].entry.as_ref().unwrap_err().to_string().contains("not a recurring job"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_stores_its_entries_again_if_somebody_deleted_only_them() {
    let server = RedisServer::start();
    let ran = Ran::default();
    let start = || Process::start(config(&server.url()), vec![each_second("beat")], ran.handler());
    let process = start();
    ran.until("beat", 1).await;
    process.stop().await;
    server.cmd(&["DEL", "sf:{default}:cron"]);
    let (process, so_far) = (start(), ran.ticks("beat").len());
    ran.until("beat", so_far + 2).await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_start_over_if_somebody_deleted_their_states() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&each_second("stored")).await.unwrap();
    let process = Process::start(config(&server.url()), vec![each_second("own")], ran.handler());
    for name in ["stored", "own"] {
        ran.until(name, 1).await;
    }
    server.cmd(&["DEL", STATES]);
    for name in ["stored", "own"] {
        let so_far = ran.ticks(name).len();
        ran.until(name, so_far + 3).await;
    }
    process.stop().await;
}
