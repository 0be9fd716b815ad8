//! Who is counted as alive may be dead, and the clock may have been wrong.

use std::time::Duration;

use streamfleet::cron::Missed;

use super::{Process, Ran, SOON, each_second, entry, is_every_second, named, status};
use crate::harness::fleet::{config, queue, until_empty};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::until_async;

/// As if 62 of 64 processes had just been killed, the leader with them.
#[tokio::test(flavor = "multi_thread")]
async fn no_tick_is_skipped_where_nearly_all_who_count_as_alive_are_dead() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    server.cmd(&["SET", "sf:{default}:leader", "ghost", "PX", "60000"]);
    let mut config = config(&server.url());
    // So long that nobody else leads, and the dead are not removed.
    config.worker.lease = Duration::from_secs(120);
    let fleet = [(); 2].map(|()| Process::start(config.clone(), vec![], ran.handler()));
    until_async("both to join", SOON, async || {
        queue.consumers(streamfleet::job::Lane::Normal).await.unwrap().len() == 2
    })
    .await;
    for nth in 0..62 {
        let dead = format!("dead-{nth}");
        let read = ["XREADGROUP", "GROUP", "fleet", &dead, "COUNT", "1", "STREAMS", "sf:{default}:jobs"];
        server.cmd(&[&read[..], &["18446744073709551614-0"]].concat());
    }
    let beat = entry("beat", "* * * * * *").when_missed(Missed::Skip);
    queue.put_cron(&beat).await.unwrap();
    // Those who did not know of it learn of it when they read the entries anyway.
    let ticks = ran.until("beat", 1).await;
    until_async("fifteen seconds of ticks", SOON, async || {
        let handled = status(&queue, "beat").await.unwrap().handled.as_ms();
        handled >= ticks[0] + 15_000
    })
    .await;
    queue.remove_cron(&named("beat")).await.unwrap();
    until_empty(&queue).await;
    for process in fleet {
        process.stop().await;
    }
    let ticks = ran.ticks("beat");
    assert!(ticks.len() > 15 && is_every_second(&ticks), "{ticks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_an_hour_ahead_does_not_silence_recurring_jobs_for_an_hour() {
    let server = RedisServer::builder().clock_shifts().start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.put_cron(&each_second("beat").when_missed(Missed::Skip)).await.unwrap();
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    let first = ran.until("beat", 2).await[0];
    let hour = 3_600_000;
    server.shift_clock(hour);
    until_async("a tick of the clock that is ahead", SOON, async || {
        ran.ticks("beat").last().is_some_and(|tick| *tick >= first + hour.unsigned_abs())
    })
    .await;
    server.shift_clock(-hour);
    let now = || queue.clock();
    let back = now().await.unwrap().as_ms();
    until_async("ticks of the clock as it is again", SOON, async || {
        ran.ticks("beat").iter().filter(|tick| (back..back + 60_000).contains(tick)).count() >= 3
    })
    .await;
    process.stop().await;
}
