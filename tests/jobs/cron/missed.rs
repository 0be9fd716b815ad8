//! Outages: the state of an entry is set back, as if no worker had run since that time.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::cron::{MAX_CATCH_UP, Missed};

use super::{Process, Ran, SOON, status};
use harness::cron::{each_second, entry, named, set_back};
use harness::fleet::{config, queue, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// Returns a schedule that ticks once an hour, and did so about half an hour ago.
async fn hourly(queue: &Queue) -> String {
    let minutes = queue.cron().table().await.unwrap().now.as_ms() / 60_000;
    format!("{} * * * *", (minutes + 30) % 60)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_none_one_or_all_missed_ticks_are_submitted() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    let (mut want, schedule) = (Vec::new(), hourly(&queue).await);
    for missed in Missed::ALL {
        let entry = entry(missed.as_str(), &schedule).when_missed(missed);
        queue.cron().put(&entry).await.unwrap();
        let since = set_back(&server, &queue, missed.as_str(), Duration::from_secs(5 * 3600)).await;
        let now = queue.cron().table().await.unwrap().now;
        let ticks = entry.schedule().upcoming(since).take_while(|tick| *tick <= now);
        want = ticks.map(|tick| tick.as_ms()).collect();
    }
    assert_eq!(want.len(), 5);
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    until_async("all entries to be handled", SOON, async || {
        let table = queue.cron().table().await.unwrap();
        table.entries.iter().all(|status| status.handled.as_ms() == want[4])
    })
    .await;
    until_empty(&queue).await;
    process.stop().await;
    assert_eq!(ran.ticks("skip"), Vec::<u64>::new());
    assert_eq!(ran.ticks("one"), want[4..]);
    assert_eq!(ran.ticks("all"), want);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_outage_the_latest_thousand_ticks_are_submitted() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&each_second("beat")).await.unwrap();
    let since = set_back(&server, &queue, "beat", Duration::from_secs(3000)).await;
    let fleet = [(); 2].map(|()| Process::start(config(&server.url()), vec![], ran.handler()));
    ran.until("beat", MAX_CATCH_UP).await;
    queue.cron().remove(&named("beat")).await.unwrap();
    until_empty(&queue).await;
    for process in fleet {
        process.stop().await;
    }
    let ticks = ran.ticks("beat");
    assert!(super::is_every_second(&ticks), "{} ticks", ticks.len());
    assert!(ticks[0] >= since.as_ms() + 1_900_000, "{} {since:?}", ticks[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_entry_submits_no_ticks_from_before_it_was_added() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    let new = entry("new", &hourly(&queue).await).when_missed(Missed::All);
    queue.cron().put(&new).await.unwrap();
    queue.cron().put(&each_second("other")).await.unwrap();
    ran.until("other", 2).await;
    process.stop().await;
    assert_eq!(ran.ticks("new"), Vec::<u64>::new());
    assert!(status(&queue, "new").await.is_some());
}
