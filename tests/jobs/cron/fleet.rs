//! Running processes: which one submits, when an entry is noticed, and the entries in their own configuration.

use std::time::Duration;

use streamfleet::cron::{Missed, Source};

use super::{Process, Ran, SOON, is_every_second, status};
use harness::cron::{each_second, entry, named, set_back};
use harness::fleet::{config, queue, submit, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;
use harness::witness::Witness;

#[tokio::test(flavor = "multi_thread")]
async fn each_tick_is_one_job_for_any_number_of_processes() {
    let server = RedisServer::start();
    let (queue, ran, witness) = (queue(&server).await, Ran::default(), Witness::of(&server));
    queue.cron().put(&each_second("beat")).await.unwrap();
    let start = |_| Process::start(config(&server.url()), vec![], ran.handler());
    let fleet: Vec<_> = (0..4).map(start).collect();
    ran.until("beat", 8).await;
    queue.cron().remove(&named("beat")).await.unwrap();
    until_empty(&queue).await;
    for process in fleet {
        process.stop().await;
    }
    let ticks = ran.ticks("beat");
    assert!(is_every_second(&ticks), "{ticks:?}");
    assert!(witness.counts().values().all(|count| *count == 1), "{:?}", witness.counts());
    let late = witness.seen().iter().map(|seen| seen.at_ms - seen.tick).max().unwrap();
    eprintln!("{} ticks, at most {late} ms late", ticks.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_added_to_a_running_fleet_is_noticed_within_seconds() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    let mut config = config(&server.url());
    config.worker.lease = Duration::from_secs(15);
    let process = Process::start(config, vec![], ran.handler());
    submit(&queue, "{}").await;
    until_empty(&queue).await;
    queue.cron().put(&each_second("new")).await.unwrap();
    let added = status(&queue, "new").await.unwrap().handled;
    until_async("the first tick", Duration::from_secs(6), async || !ran.ticks("new").is_empty()).await;
    let ticks = ran.ticks("new");
    assert!(ticks[0] > added.as_ms() && ticks[0] <= added.as_ms() + 1000, "{ticks:?} {added:?}");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_gets_the_name_of_the_entry_and_the_tick() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let listener = seen.clone();
    let handler = harness::fleet::Acts::new(move |context, payload| {
        let header = |name| context.header(name).map(str::to_owned);
        let payload = String::from_utf8(payload.to_vec()).unwrap();
        listener.lock().unwrap().push((
            header("cron"),
            header("cron-tick-ms"),
            payload,
            context.id().to_string(),
        ));
        Ok(serde_json::Value::Null)
    });
    let entry = each_second("told").json(&serde_json::json!({ "to": "ann" })).unwrap();
    let process = Process::start(config(&server.url()), vec![entry], handler);
    until_async("a job", SOON, async || !seen.lock().unwrap().is_empty()).await;
    process.stop().await;
    let (name, tick, payload, id) = seen.lock().unwrap()[0].clone();
    assert_eq!((name.as_deref(), payload.as_str()), (Some("told"), r#"{"to":"ann"}"#));
    assert_eq!(id, format!("cron.told.{}", tick.unwrap()));
    assert_eq!(status(&queue, "told").await.unwrap().entry.unwrap().source(), Source::Config);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_outlives_its_process_and_is_updated_by_a_later_one() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    let yearly = |payload: &str| entry("report", "@yearly").json(&payload).unwrap().when_missed(Missed::One);
    let known = async |payload: &str| {
        let want = format!("{payload:?}");
        until_async("the entry to be stored", SOON, async || {
            let known = status(&queue, "report").await;
            known.filter(|known| known.entry.as_ref().unwrap().payload_bytes() == want.as_bytes())
        })
        .await
    };
    let first = Process::start(config(&server.url()), vec![yearly("a")], ran.handler());
    let before = known("a").await;
    first.stop().await;
    queue.cron().pause(&named("report")).await.unwrap();
    let year = Duration::from_secs(400 * 24 * 3600);
    let handled = set_back(&server, &queue, "report", year).await;
    // Another schedule would start from now; another payload does not.
    let second = Process::start(config(&server.url()), vec![yearly("b")], ran.handler());
    let after = known("b").await;
    assert!(before.handled > after.handled);
    assert_eq!((after.handled, after.paused), (handled, true));
    second.stop().await;
    let third = Process::start(config(&server.url()), vec![], ran.handler());
    submit(&queue, "{}").await;
    until_empty(&queue).await;
    third.stop().await;
    assert!(status(&queue, "report").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_stored_again_after_redis_was_flushed() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    let process = Process::start(config(&server.url()), vec![each_second("beat")], ran.handler());
    ran.until("beat", 2).await;
    server.cmd(&["FLUSHALL"]);
    until_async("the entry to be stored again", SOON, async || status(&queue, "beat").await.is_some()).await;
    let so_far = ran.ticks("beat").len();
    ran.until("beat", so_far + 2).await;
    process.stop().await;
}
