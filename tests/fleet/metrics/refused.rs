//! Refusals by Redis show in the metrics.

use harness::metrics::{SOON, Scraped};
use harness::redis_server::RedisServer;
use harness::wait::until;

const TYPES: &str = r#"
[types.note]
handler = "noop"
[cron.often]
schedule = "* * * * * *"
type = "note"
"#;

#[test]
fn a_full_redis_shows_in_the_memory_and_overdue_metrics() {
    let server = RedisServer::start();
    let worker = Scraped::start(&server.url(), TYPES);
    let value = |name: &str| worker.value(&format!("{name}{{queue=\"default\"}}"));
    until("ticks are submitted", SOON, || value("cron_ticks_total") >= 2.0);
    until("nothing is overdue", SOON, || {
        value("cron_overdue_seconds") < 2.0 && value("queue_overdue_seconds") < 2.0
    });
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "note", "delay_ms", "500"]);
    server.cmd(&["CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "100000"]);
    let full = |name: &str| worker.value(&format!("redis_errors_total{{kind=\"{name}\"}}"));
    until("redis refuses for lack of memory", SOON, || full("full") >= 1.0);
    until("a recurring job is overdue", SOON, || value("cron_overdue_seconds") > 2.0);
    let figures = worker.scrape();
    assert_eq!(figures.value("redis_memory_max_bytes"), 100_000.0);
    assert_eq!(figures.value("redis_eviction_safe"), 1.0);
    server.cmd(&["CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "allkeys-lru"]);
    until("nothing is overdue again", SOON, || value("cron_overdue_seconds") < 2.0);
    until("the policy is reported", SOON, || worker.value("redis_eviction_safe") == 0.0);
}

#[test]
fn a_delayed_job_that_cannot_be_promoted_counts_as_overdue() {
    let server = RedisServer::start();
    let worker = Scraped::start(&server.url(), "[types.note]\nhandler = \"noop\"\n");
    let overdue = || worker.value("queue_overdue_seconds{queue=\"default\"}");
    let leads = || worker.value("scheduler_leader{queue=\"default\"}") == 1.0;
    until("it leads", SOON, leads);
    assert_eq!(overdue(), 0.0);
    // A key of the wrong type makes Redis refuse the promoter.
    server.cmd(&["SET", "sf:{default}:delayed:fields", "no hash"]);
    server.cmd(&["ZADD", "sf:{default}:delayed", "1700000000000", "job"]);
    until("the job is reported as overdue", SOON, || overdue() > 3600.0);
    server.cmd(&["DEL", "sf:{default}:delayed:fields"]);
    until("it is a dead letter", SOON, || overdue() == 0.0);
}
