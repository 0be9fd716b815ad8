//! `/scale` and the backlog behind it: jobs that wait, run, or are due within a minute.

use std::time::{Duration, Instant};

use serde_json::json;
use streamfleet::cron::{Entry, Schedule};

use super::{SOON, json, launch, ready, status};
use harness::fleet::queue;
use harness::redis_server::RedisServer;
use harness::scrape::{address, get};
use harness::wait::{until, until_async};

fn submit(server: &RedisServer, job_type: &str, delay_ms: &str) {
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", job_type, "delay_ms", delay_ms]);
}

#[tokio::test]
async fn a_backlog_counts_jobs_waiting_running_and_due_within_a_minute() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    assert_eq!(queue.snapshot().await.unwrap().jobs(), 0, "of an unused queue");
    queue.join(Duration::from_secs(15)).await.unwrap();
    for lane in ["jobs:high", "jobs", "jobs:low", "jobs:low"] {
        server.cmd(&["XADD", &format!("sf:{{default}}:{lane}"), "*", "type", "note"]);
    }
    let read = ["COUNT", "1", "STREAMS", "sf:{default}:jobs:low", ">"];
    server.cmd(&[&["XREADGROUP", "GROUP", "fleet", "somebody"], &read[..]].concat());
    let now = queue.clock().await.unwrap().as_ms();
    for (at, name) in [(now - 5_000, "overdue"), (now + 50_000, "soon"), (now + 90_000, "later")] {
        server.cmd(&["ZADD", "sf:{default}:delayed", &at.to_string(), name]);
    }
    let snapshot = queue.snapshot().await.unwrap();
    let parts = (snapshot.waiting(), snapshot.running(), snapshot.due_soon, snapshot.ticks);
    assert_eq!((parts, snapshot.jobs()), ((3, 1, 2, Some(0)), 6));
    assert!(snapshot.unread.is_empty(), "{:?}", snapshot.unread);
}

#[tokio::test]
async fn recurring_jobs_due_within_a_minute_count_in_the_backlog() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for (name, expression) in [("minutely", "* * * * *"), ("paused", "* * * * *"), ("yearly", "@yearly")] {
        let schedule = Schedule::new(expression, "UTC").unwrap();
        queue.cron().put(&Entry::new(name, schedule, "note").unwrap()).await.unwrap();
    }
    queue.cron().pause(&"paused".parse().unwrap()).await.unwrap();
    // On New Year's Eve the yearly one is due as well.
    let ticks = queue.snapshot().await.unwrap().ticks.unwrap();
    assert!((1..=2).contains(&ticks), "{ticks}");
    queue.cron().remove(&"minutely".parse().unwrap()).await.unwrap();
    assert_eq!(queue.snapshot().await.unwrap().ticks, Some(ticks - 1));
}

#[test]
fn any_worker_reports_the_backlog() {
    let server = RedisServer::start();
    let (_worker, address) = ready(&launch(&server.url()));
    let none = json!({"jobs": 0, "waiting": 0, "running": 0, "due": 0, "ticks": 0});
    assert_eq!(
        json(&address, "/scale"),
        Some((200, json!({"jobs": 0, "queues": {"default": none, "mail": none}})))
    );
    submit(&server, "long", "0");
    submit(&server, "note", "30000");
    submit(&server, "note", "3600000");
    let some = json!({"jobs": 2, "waiting": 0, "running": 1, "due": 1, "ticks": 0});
    until("one runs and one is due", SOON, || {
        json(&address, "/scale?queue=default") == Some((200, json!({"jobs": 2, "queues": {"default": some}})))
    });
    assert_eq!(json(&address, "/scale?queue=mail").unwrap().1["jobs"], json!(0));
    let (status, body) = json(&address, "/scale?queue=post").unwrap();
    let want = "this process does not serve the queue post; it serves: default, mail";
    assert_eq!((status, &body["error"]), (404, &json!(want)));
}

#[test]
fn no_backlog_is_reported_while_redis_is_down() {
    let server = RedisServer::start();
    server.kill9();
    let worker = launch(&server.url()).start();
    let address = address(&worker);
    assert_eq!(get(&address, "/scale"), Some((503, "{\"error\":\"waiting for redis\"}\n".to_owned())));
    server.restart();
    until("redis is up", SOON, || status(&address, "/scale") == Some(200));
    server.freeze();
    let asked = Instant::now();
    until("the last answer is old", SOON, || status(&address, "/scale") == Some(503));
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    server.thaw();
    until("redis is back", SOON, || status(&address, "/scale") == Some(200));
    server.kill9();
    until("redis is away", SOON, || status(&address, "/scale") == Some(503));
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_queried_once_a_second_however_often_it_is_scraped() {
    let server = RedisServer::start();
    let (_worker, address) = ready(&launch(&server.url()));
    let (before, began) = (server.calls("zcount"), Instant::now());
    let mut asked = 0;
    // The first second begins with a query, and the leader also measures the queue now and then, and samples it once a minute.
    let most = || began.elapsed().as_secs() + 6;
    until_async("many requests in each of three seconds", 3 * SOON, async || {
        assert_eq!(status(&address, "/scale?queue=mail"), Some(200));
        asked += 1;
        began.elapsed() > Duration::from_secs(3) && asked > 2 * most()
    })
    .await;
    let calls = server.calls("zcount") - before;
    assert!(
        calls <= most() && calls >= 2,
        "{calls} queries for {asked} requests, at most {} allowed",
        most()
    );
}
