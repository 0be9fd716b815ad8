//! `jobs`, and what finds or measures jobs in other commands.

use std::time::Duration;

use serde_json::Value;
use streamfleet::{Handler, JobContext, JobError, RawPayload};

use harness::cli::{json, launch, sf, sf_with, stdout_of};
use harness::fleet::{Running, config, queue, quick, submit};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::{until, until_async};

const SOON: Duration = Duration::from_secs(60);

fn ids(page: &Value) -> Vec<String> {
    let jobs = page["items"].as_array().unwrap();
    let mut ids: Vec<String> = jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn found(server: &RedisServer, args: &[&str]) -> Vec<String> {
    ids(&json(server, &[&["jobs"], args].concat()))
}

/// Starts a server with a job in each of two lanes, a delayed one and a dead one.
fn server() -> RedisServer {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "mail.send", r#"{"customer":9}"#, "--queue", "mail", "--id", "m-1"]);
    let high = ["type", "mail.send", "payload", r#"{"customer":8}"#, "id", "m-2", "h.tenant", "9"];
    server.cmd(&[&["XADD", "sf:{default}:jobs:high", "*"], &high[..]].concat());
    sf(&server, &["enqueue", "report", r#"{"customer":9}"#, "--delay", "1h", "--id", "r-1"]);
    let dead =
        ["type", "mail.send", "id", "d-1", "payload", r#"{"customer":"9"}"#, "dead_reason", "exhausted"];
    let error = ["dead_error", "timed out", "dead_at_ms", "1700000000000"];
    server.cmd(&[&["XADD", "sf:{default}:dead", "1700000000000-0"], &dead[..], &error[..]].concat());
    server
}

#[test]
fn jobs_that_wait_in_rooms_are_found_with_their_gates_and_lanes() {
    let server = server();
    let fields = ["type", "slow", "id", "s-1", "lane", "low", "room_gates", "type:slow"];
    let payload = ["payload", r#"{"customer":9}"#];
    let added = server.cmd(&[&["XADD", "sf:{default}:room:type:slow", "*"], &fields[..], &payload].concat());
    let entry: String = redis::from_redis_value(added).unwrap();
    server.cmd(&["HSET", "sf:{default}:rooms:places", "s-1", &format!("{entry} type:slow")]);
    server.cmd(&["HSET", "sf:{default}:rooms", "type:slow", "1700000000000"]);
    let page = json(&server, &["jobs", "--where", "payload.customer=9", "--state", "waiting"]);
    assert_eq!(ids(&page), ["m-1", "s-1"]);
    let job = page["items"].as_array().unwrap().iter().find(|job| job["id"] == "s-1").unwrap();
    assert!(job["gate"] == "type:slow" && job["lane"] == "low" && job["entry"] == entry.as_str(), "{job}");
    let status = json(&server, &["status", "s-1"]);
    assert!(status["gate"] == "type:slow" && status["payload"]["customer"] == 9, "{status}");
}

#[test]
fn jobs_are_found_in_every_queue_by_any_condition() {
    let server = server();
    let found = |args: &[&str]| found(&server, args);
    assert_eq!(found(&[]), ["d-1", "m-1", "m-2", "r-1"]);
    assert_eq!(found(&["--where", "payload.customer=9"]), ["d-1", "m-1", "r-1"]);
    assert_eq!(found(&["--where", "payload.customer=9", "--type", "mail.*"]), ["d-1", "m-1"]);
    assert_eq!(found(&["--type", "mail.send", "--state", "waiting"]), ["m-1", "m-2"]);
    assert_eq!(found(&["--header", "tenant=9"]), ["m-2"]);
    assert_eq!(found(&["--state", "scheduled,running"]), ["r-1"]);
    assert_eq!(found(&["--queue", "mail"]), ["m-1"]);
    for args in [["--dead-reason", "exhausted"], ["--error", "timed"], ["--until", "2024-01-01T00:00:00Z"]] {
        assert_eq!(found(&args), ["d-1"], "{args:?}");
    }
    assert_eq!(found(&["--id-prefix", "m-", "--text", "8"]), ["m-2"]);
    assert_eq!(found(&["--running"]), [""; 0]);
    let table = stdout_of(&server, &["jobs", "--state", "dead"]);
    assert!(table.contains("letter 1700000000000-0") && table.contains("1 job; 1 looked at"), "{table}");
    let none = stdout_of(&server, &["jobs", "--type", "mail.sned"]);
    let told = "no jobs match --type mail.sned; 4 were looked at, none of them done or cancelled; for those: --state done,cancelled\n";
    assert_eq!(none, told);
    let none = stdout_of(&server, &["jobs", "--type", "mail.sned", "--state", "dead"]);
    assert_eq!(none, "no jobs match --type mail.sned; 1 were looked at\n");
    assert_eq!(stdout_of(&server, &["jobs", "-q", "mail", "-o", "name"]), "m-1\n");
    let unknown = sf(&server, &["jobs", "-q", "male"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(4), ""), "{unknown:?}");
}

#[test]
fn an_empty_condition_never_means_everything() {
    let server = RedisServer::start();
    for args in [
        &["--type", ""][..],
        &["--where", "payload.="],
        &["--header", "tenant="],
        &["--error", ""],
        &["--state", ""],
        &["--text", " "],
        &["--dead-reason", "fatal", "--state", "waiting"],
        &["--after", "nowhere"],
    ] {
        let output = sf(&server, &[&["jobs"], args].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{args:?}: {output:?}");
    }
}

#[test]
fn every_job_is_on_exactly_one_page() {
    let server = server();
    let jobs = "{\"type\":\"a\"}\n{\"type\":\"a\",\"delay\":\"1h\"}\n".repeat(3);
    sf_with(&server, &["enqueue", "--bulk", "--queue", "post"], jobs.as_bytes());
    let all = found(&server, &[]);
    assert_eq!(all.len(), 10);
    for limit in ["1", "3", "4"] {
        let (mut paged, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut args = vec!["jobs", "--limit", limit];
            args.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
            let page = json(&server, &args);
            assert_eq!(page["complete"], page["next"].is_null(), "{page}");
            paged.extend(ids(&page));
            let Some(next) = page["next"].as_str() else { break };
            after = Some(next.to_owned());
            assert!(paged.len() <= 10, "{paged:?}");
        }
        paged.sort();
        assert_eq!(paged, all, "pages of {limit}");
    }
}

#[test]
fn no_more_jobs_are_listed_than_the_limit_says() {
    let server = RedisServer::start();
    for nth in 0..5 {
        let (id, record) = (format!("r-{nth}"), format!("sf:{{default}}:job:done-{nth}"));
        server.cmd(&["XADD", "sf:{default}:room:type:slow", "*", "type", "slow", "id", &id, "lane", "low"]);
        server.cmd(&["HSET", &record, "state", "done", "type", "a"]);
    }
    server.cmd(&["HSET", "sf:{default}:rooms", "type:slow", "1700000000000"]);
    let named = |args: &[&str]| {
        let listed = stdout_of(&server, &[&["jobs", "-q", "default", "-o", "name"], args].concat());
        listed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(named(&["--state", "waiting", "--limit", "3"]), ["r-0", "r-1", "r-2"]);
    let (mut ended, mut after) = (Vec::new(), None::<String>);
    for want in [2, 2, 1] {
        let mut args = vec!["jobs", "-q", "default", "--state", "done", "--limit", "2"];
        args.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
        let page = json(&server, &args);
        assert_eq!(ids(&page).len(), want, "{page}");
        ended.extend(ids(&page));
        after = page["next"].as_str().map(str::to_owned);
    }
    ended.sort();
    assert_eq!(ended, ["done-0", "done-1", "done-2", "done-3", "done-4"]);
}

#[test]
fn jobs_that_cannot_be_decided_are_counted() {
    let server = server();
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "a", "encoding", "raw", "payload", "x"]);
    server.cmd(&["SET", "sf:{default}:jobs:low", "no stream"]);
    let output = sf(&server, &["jobs", "--where", "payload.customer=8", "--json"]);
    let page: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((ids(&page), &page["unreadable"]), (vec!["m-2".to_owned()], &1.into()), "{page}");
    assert!(output.stderr.contains("not valid JSON or MessagePack"), "{output:?}");
    assert!(page["unread"][0].as_str().unwrap().contains("sf:{default}:jobs:low"), "{page}");
    assert_eq!(output.code, Some(3), "{output:?}");
}

#[test]
fn a_record_of_another_type_hides_no_other_job() {
    let server = server();
    let record = |job: &str| format!("sf:{{default}}:job:{job}");
    server.cmd(&["HSET", &record("well"), "state", "done", "type", "a"]);
    server.cmd(&["SET", &record("odd"), "no hash"]);
    let page = json(&server, &["jobs", "--queue", "default", "--state", "done"]);
    assert_eq!(
        (ids(&page), &page["unreadable"], &page["read"]),
        (vec!["well".to_owned()], &1.into(), &2.into())
    );
    // A search for errors looks up the records of jobs that have failed.
    for job in ["odd", "well"] {
        let fields = ["type", "a", "id", job, "attempt", "1"];
        server.cmd(&[&["XADD", "sf:{default}:jobs", "*"], &fields[..]].concat());
    }
    server.cmd(&["HSET", &record("well"), "state", "waiting", "error", "timed out"]);
    let page = json(&server, &["jobs", "--queue", "default", "--state", "waiting", "--error", "timed"]);
    assert_eq!((ids(&page), &page["unreadable"]), (vec!["well".to_owned()], &1.into()), "{page}");
    let elsewhere = ["jobs", "--state", "waiting", "--error", "timed", "--type", "b"];
    assert_eq!(json(&server, &elsewhere)["unreadable"], 0, "another condition rules it out");
}

#[test]
fn running_jobs_say_who_runs_them_and_since_when() {
    let server = RedisServer::start();
    let stream = "sf:{default}:jobs";
    server.cmd(&["XGROUP", "CREATE", stream, "fleet", "0", "MKSTREAM"]);
    for entry in ["1700000000000-1", "1700000000000-2", "1700000000000-3"] {
        server.cmd(&["XADD", stream, entry, "type", "a"]);
    }
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "w1", "COUNT", "2", "STREAMS", stream, ">"]);
    let attempts = "default normal 1700000000000-2 5000";
    server.cmd(&[
        "HSET",
        "sf:worker:w1",
        "beat_ms",
        "1700000060000",
        "attempts",
        attempts,
        "state",
        "running",
    ]);
    let page = json(&server, &["jobs", "--running"]);
    let job = |at: usize| {
        let job = &page["items"][at];
        (job["id"].as_str().unwrap(), job["started_ms"].as_u64().unwrap(), job["started_exact"] == true)
    };
    // The longest is first. What a complete report lacks began after it.
    assert_eq!(job(0), ("1700000000000-2", 1_700_000_055_000, true));
    assert_eq!(job(1), ("1700000000000-1", 1_700_000_060_000, false));
    assert_eq!((&page["items"][0]["worker"], page["items"].as_array().unwrap().len()), (&"w1".into(), 2));
    assert_eq!(found(&server, &["--state", "waiting"]), ["1700000000000-3"]);
    let table = stdout_of(&server, &["jobs", "--running"]);
    let line = |id: &str| table.lines().find(|line| line.contains(id)).unwrap().to_owned();
    assert!(line("1700000000000-1").split_whitespace().any(|cell| cell == "-"), "{table}");
    assert!(!line("1700000000000-2").split_whitespace().any(|cell| cell == "-"), "{table}");
}

#[test]
fn only_the_longest_of_the_running_jobs_are_read() {
    let server = RedisServer::start();
    let stream = "sf:{default}:jobs";
    server.cmd(&["XGROUP", "CREATE", stream, "fleet", "0", "MKSTREAM"]);
    for nth in 1..=30 {
        let (entry, id) = (format!("1700000000000-{nth}"), format!("own-{nth}"));
        server.cmd(&["XADD", stream, &entry, "type", "a", "id", &id]);
    }
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "w1", "STREAMS", stream, ">"]);
    let attempts = "default normal 1700000000000-7 5000,default normal 1700000000000-9 9000";
    let facts = ["beat_ms", "1700000060000", "attempts", attempts, "state", "running"];
    server.cmd(&[&["HSET", "sf:worker:w1"], &facts[..]].concat());
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let page = json(&server, &["jobs", "--running", "--limit", "2"]);
    let order: Vec<_> = page["items"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect();
    assert_eq!((order, &page["read"]), (vec!["own-9".into(), "own-7".into()], &30.into()), "{page}");
    assert_eq!(page["items"][0]["type"], "a");
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.client()).unwrap();
    assert!(stats.contains("cmdstat_xrange:calls=2,"), "{stats}");
    // A filter has to look at all of them.
    assert_eq!(found(&server, &["--running", "--id-prefix", "own-2"]).len(), 11);
}

/// A handler that never ends.
struct Endless;

impl Handler for Endless {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _: RawPayload, _: JobContext) -> Result<(), JobError> {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reports_since_when_its_jobs_run() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut config = config(&server.url());
    config.worker.drain_timeout = Duration::from_millis(100);
    let fleet = Running::start_with(config, quick(1), Endless);
    let (before, job) = (queue.clock().await.unwrap(), submit(&queue, "{}").await);
    let row = until_async("the report of the attempt", SOON, async || {
        let row = json(&server, &["jobs", "--running"])["items"][0].clone();
        (row["started_exact"] == true).then_some(row)
    })
    .await;
    assert_eq!(row["id"], job.to_string());
    let started = row["started_ms"].as_u64().unwrap();
    assert!(started >= before.as_ms() && started <= queue.clock().await.unwrap().as_ms(), "{row}");
    fleet.stop().await;
}

#[test]
fn a_job_is_found_in_any_queue_with_all_that_it_got() {
    let server = server();
    let status = json(&server, &["status", "m-1"]);
    assert_eq!((&status["queue"], &status["payload"]["customer"]), (&"mail".into(), &9.into()));
    let status = json(&server, &["status", "m-2"]);
    assert_eq!((&status["headers"]["tenant"], &status["payload_cut"]), (&"9".into(), &false.into()));
    let shown = stdout_of(&server, &["status", "r-1"]);
    assert!(shown.contains("payload:     {\"customer\":9}\n"), "{shown}");
    let large = format!("\"{}\"", "x".repeat(100_000));
    sf_with(&server, &["enqueue", "a", "-", "--queue", "mail", "--id", "large"], large.as_bytes());
    let status = json(&server, &["status", "large"]);
    assert_eq!((&status["payload"], &status["payload_bytes"]), (&Value::Null, &100_002.into()));
    assert_eq!(json(&server, &["status", "large", "--full"])["payload"].as_str().unwrap().len(), 100_000);
    sf(&server, &["enqueue", "a", "--queue", "post", "--id", "large"]);
    let several = sf(&server, &["status", "large"]);
    assert_eq!(several.code, Some(2), "{several:?}");
    assert!(several.stderr.contains("choose one with --queue: mail, post"), "{several:?}");
    assert_eq!(sf(&server, &["status", "nobody"]).code, Some(4));
}

#[test]
fn no_entries_are_searched_for_a_job_that_a_queue_knows() {
    let server = server();
    let ranges = |args: &[&str]| {
        server.cmd(&["CONFIG", "RESETSTAT"]);
        assert_eq!(json(&server, args)["queue"], "mail");
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.client()).unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_xrange:calls=")).unwrap_or("0,");
        calls.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(ranges(&["status", "m-1"]), ranges(&["status", "m-1", "--queue", "mail"]));
}

#[test]
fn queues_say_how_long_they_last_and_what_they_take() {
    let server = server();
    // Scripts may still give --rate.
    let queues = json(&server, &["queues", "--rate=100ms", "--memory"]);
    for queue in queues["items"].as_array().unwrap() {
        assert_eq!(queue["empty_in"]["window_ms"], 600_000, "{queue}");
        assert!(queue["memory_bytes"].as_u64().unwrap() > 0, "{queue}");
    }
    let plain = json(&server, &["queues"]);
    assert!(plain["items"][0].get("memory_bytes").is_none());
    let table = stdout_of(&server, &["queues"]);
    assert!(table.lines().next().unwrap().contains("empty in"), "{table}");
}

#[test]
fn top_shows_queues_and_running_jobs_again_and_again() {
    let server = server();
    let top = launch(&server, &["top", "--every", "100ms"]).start();
    until("two looks", SOON, || top.stdout().matches("no jobs; 0 were looked at").count() >= 2);
    assert!(top.stdout().contains("empty in"), "{}", top.stdout());
    assert_eq!(sf(&server, &["top", "--json"]).code, Some(2));
}

#[test]
fn a_signal_ends_a_list_of_jobs_that_is_shown_again_and_again() {
    let server = server();
    let jobs = launch(&server, &["jobs", "--watch=100ms"]).start();
    until("a look", SOON, || jobs.stdout().contains("4 jobs; 4 looked at"));
    jobs.term();
    assert_eq!(jobs.wait_exit(SOON).code(), Some(0));
}

#[test]
fn a_job_that_a_decision_ends_is_kept_for_its_queues_retention() {
    let server = RedisServer::start();
    let toml = "[telemetry]\nlisten = \"off\"\n[worker]\nretention = \"1m\"\n[queues.default]\nretention = \"2h\"\n\
        [types.gift.steps.charge]\nkind = \"once\"\nhandler = { exec = { command = [\"false\"] } }\n";
    let configured = |args: &[&str]| {
        Launch::new(&[&["--config", "{config}", "--redis", &server.url()], args].concat()).config(toml)
    };
    let worker = configured(&["worker"]).start();
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", "g-1"]);
    until("a step to need a decision", SOON, || json(&server, &["dead", "list"])["items"][0]["id"] == "g-1");
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    let decided = configured(&["steps", "decide", "g-1", "charge", "done", "--json"]).output(SOON);
    let decided: Value = serde_json::from_str(&decided.stdout).unwrap();
    assert_eq!(decided["job"], "done");
    for key in ["sf:{default}:job:g-1", "sf:{default}:steps:g-1"] {
        let ttl: i64 = redis::from_redis_value(server.cmd(&["PTTL", key])).unwrap();
        assert!(ttl > 3_600_000, "{key} {ttl}");
    }
}
