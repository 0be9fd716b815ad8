//! Workers that count as alive may be dead, and the clock may have been wrong.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet::Fleet;
use streamfleet::cron::Missed;
use streamfleet::event::{Event, Events, QueueEvent};

use super::{Process, Ran, SOON, is_every_second, status};
use harness::cron::{each_second, entry, named};
use harness::fleet::{Running, config, queue, quick, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// Pretends that 62 of 64 processes, including the leader, have just been killed.
#[tokio::test(flavor = "multi_thread")]
async fn no_tick_is_skipped_although_most_workers_counted_alive_are_dead() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    server.cmd(&["SET", "sf:{default}:leader", "ghost", "PX", "60000"]);
    let mut config = config(&server.url());
    // Long enough that no other process leads and the dead consumers are not removed.
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
    queue.cron().put(&beat).await.unwrap();
    // Processes that do not know the entry yet learn of it when they next read the entries.
    let ticks = ran.until("beat", 1).await;
    until_async("fifteen seconds of ticks", SOON, async || {
        // A leader asks about every tick. Those who ask to lead shorten a lease that is longer than theirs.
        server.cmd(&["SET", "sf:{default}:leader", "ghost", "PX", "5000"]);
        let handled = status(&queue, "beat").await.unwrap().handled.as_ms();
        handled >= ticks[0] + 15_000
    })
    .await;
    queue.cron().remove(&named("beat")).await.unwrap();
    until_empty(&queue).await;
    for process in fleet {
        process.stop().await;
    }
    let ticks = ran.ticks("beat");
    assert!(ticks.len() > 15 && is_every_second(&ticks), "{ticks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_an_hour_ahead_does_not_stop_recurring_jobs() {
    let server = RedisServer::builder().clock_shifts().start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&each_second("beat").when_missed(Missed::Skip)).await.unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listening = Arc::clone(&reported);
    let listener = move |event: &Event<'_>| {
        if let Event::Queue { event: QueueEvent::ClockSetBack { by, .. }, .. } = event {
            listening.lock().unwrap().push(*by);
        }
    };
    let builder =
        Fleet::builder(config(&server.url())).handler_with("test", quick(3), ran.handler()).unwrap();
    let process = Running::of(builder.events(Events::new(vec![Arc::new(listener)])).build());
    let first = ran.until("beat", 2).await[0];
    let hour = 3_600_000;
    server.shift_clock(hour);
    until_async("a tick of the fast clock", SOON, async || {
        ran.ticks("beat").last().is_some_and(|tick| *tick >= first + hour.unsigned_abs())
    })
    .await;
    server.shift_clock(-hour);
    let now = || queue.clock();
    let back = now().await.unwrap().as_ms();
    let came = |from: u64, to: u64| ran.ticks("beat").iter().filter(|tick| (from..to).contains(tick)).count();
    let since = Instant::now();
    until_async("ticks of the corrected clock", SOON, async || came(back, back + 60_000) >= 3).await;
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
    until_async("the event about the clock", SOON, async || !reported.lock().unwrap().is_empty()).await;
    let by = reported.lock().unwrap()[0];
    assert!((3_590..=3_601).contains(&by.as_secs()), "{by:?}");
    // Move the clock once more to the ticks that were submitted while it was ahead, and beyond them.
    let ahead = *ran.ticks("beat").last().unwrap();
    let now = queue.clock().await.unwrap().as_ms();
    server.shift_clock(i64::try_from(ahead - now).unwrap() - 2_000);
    until_async("ticks beyond the repeated ones", SOON, async || came(ahead + 1_000, ahead + 60_000) >= 2)
        .await;
    process.stop().await;
    let ticks = ran.ticks("beat");
    assert!(ticks.is_sorted_by(|one, next| one < next), "a tick came twice: {ticks:?}");
}
