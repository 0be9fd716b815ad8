//! More situations of docs/on-call.md: floods, what became of a job, who runs what, backlogs, jobs that move, unknown types,
//! killed processes.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{JobId, State};
use streamfleet::{JobError, Producer};

use harness::cli::{json, sf, sf_with, stdout_of};
use harness::fleet::{Acts, Running, queue, quick, submit, until_empty, until_state};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::scene::{Gate, SOON, job};
use harness::wait::{until, until_async};

const STREAM: &str = "sf:{default}:jobs";

/// Returns the only item of a list that has this value under a key.
fn item(page: &Value, key: &str, value: &str) -> Value {
    let items = page["items"].as_array().unwrap();
    items.iter().find(|item| item[key] == value).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_that_floods_the_queue_waits_and_others_pass() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let set = ["gates", "set", "key:h.tenant=9", "--concurrency", "2"];
    assert_eq!(sf(&server, &set).code, Some(0));
    let handler = Gate::closed();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let producer = Producer::new(queue.clone());
    for _ in 0..30 {
        producer.submit(job("wait").header("tenant", "9").unwrap()).await.unwrap();
    }
    let other = producer.submit(job("quick").header("tenant", "1").unwrap()).await.unwrap();
    handler.until_ended(&other).await;
    let gate = || item(&json(&server, &["gates", "list"]), "gate", "key:h.tenant=9");
    until("two to run and the others to wait", SOON, || {
        let gate = gate();
        gate["held"] == 2 && gate["waiting"] == 28
    });
    let pause = ["pause", "--key", "h.tenant=9", "--reason", "runaway import"];
    assert_eq!(json(&server, &pause)["changed"], true);
    assert_eq!((&gate()["state"], &gate()["reason"]), (&"paused".into(), &"runaway import".into()));
    // The others still pass, each customer at its own rate.
    assert_eq!(sf(&server, &["gates", "set", "key:h.tenant", "--rate", "20/s"]).code, Some(0));
    let third = producer.submit(job("quick").header("tenant", "3").unwrap()).await.unwrap();
    handler.until_ended(&third).await;
    for args in [&["resume", "--key", "h.tenant=9"][..], &["gates", "clear", "key:h.tenant"]] {
        assert_eq!(sf(&server, args).code, Some(0), "{args:?}");
    }
    handler.open();
    until_empty(&queue).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_for_each_tenant_shows_which_tenants_wait() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let set = ["gates", "set", "key:h.tenant", "--concurrency", "1"];
    assert_eq!(sf(&server, &set).code, Some(0));
    let handler = Gate::closed();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let producer = Producer::new(queue.clone());
    for tenant in ["9", "9", "9", "9", "1", "1"] {
        producer.submit(job("wait").header("tenant", tenant).unwrap()).await.unwrap();
    }
    let gate = |name: &str| item(&json(&server, &["gates", "list"]), "gate", name);
    until("one of each tenant to run and the others to wait", SOON, || {
        let [many, few] = ["key:h.tenant=9", "key:h.tenant=1"].map(gate);
        [&many, &few].map(|gate| gate["held"] == 1) == [true; 2]
            && many["waiting"] == 3
            && few["waiting"] == 1
    });
    let many = gate("key:h.tenant=9");
    let told = (&many["state"], &many["concurrency"], &many["source"]);
    assert_eq!(told, (&"open".into(), &1.into(), &"command".into()));
    assert_eq!(sf(&server, &["pause", "--key", "h.tenant", "--by", "ann"]).code, Some(0));
    assert_eq!(
        (&gate("key:h.tenant=9")["state"], &gate("key:h.tenant=9")["paused_by"]),
        (&"paused".into(), &"ann".into())
    );
    assert_eq!(sf(&server, &["resume", "--key", "h.tenant"]).code, Some(0));
    handler.open();
    until_empty(&queue).await;
    // A value for which nobody waits has no line.
    until("the waiting lists to be gone", SOON, || gate("key:h.tenant=9").is_null());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_job_tells_what_became_of_it() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fails_once = Acts::new(|context, _| match context.attempt() {
        1 => Err(JobError::retry("no route to the bank")),
        _ => Ok(Value::from("paid")),
    });
    let fleet = Running::start(&server.url(), quick(3), fails_once);
    assert_eq!(sf(&server, &["enqueue", "test", r#"{"customer":9}"#, "--id", "order-7"]).code, Some(0));
    until_state(&queue, &"order-7".parse::<JobId>().unwrap(), State::Done).await;
    let status = json(&server, &["status", "order-7"]);
    assert_eq!((&status["state"], &status["result"]), (&"done".into(), &"paid".into()));
    assert_eq!(status["attempts"][0]["error"], "no route to the bank");
    let found = stdout_of(&server, &["jobs", "--state", "done", "--id-prefix", "order-", "-o", "name"]);
    assert_eq!(found, "order-7\n");
    let yesterday = [
        "jobs",
        "--state",
        "done,dead",
        "--since",
        "2020-12-01T00:00:00Z",
        "--until",
        "2100-12-02T00:00:00Z",
    ];
    let found = stdout_of(&server, &[&yesterday[..], &["--type", "test", "-o", "name"]].concat());
    assert_eq!(found, "order-7\n");
    let shown = stdout_of(&server, &["status", "order-7"]);
    assert!(shown.contains("no route to the bank"), "{shown}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_running_jobs_say_who_runs_them_and_for_how_long() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Gate::closed();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let running = submit(&queue, "wait").await;
    handler.until_started(&running).await;
    let row = until("the attempt to be reported", SOON, || {
        let row = item(&json(&server, &["jobs", "--running"]), "id", &running.to_string());
        (row["started_exact"] == true).then_some(row)
    });
    let live = json(&server, &["workers"]);
    assert_eq!(row["worker"], live["items"][0]["consumer"]);
    assert!(row["age_ms"].is_u64(), "{row}");
    handler.open();
    until_empty(&queue).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_says_when_it_is_gone() {
    // They last 100 seconds, far longer than a slow machine takes to look.
    const JOBS: usize = 40_000;
    let server = RedisServer::start();
    let rate = ["gates", "set", "queue", "--rate", "400/s"];
    assert_eq!(sf(&server, &rate).code, Some(0));
    let mut jobs = redis::pipe();
    for _ in 0..JOBS {
        jobs.cmd("XADD").arg(&[STREAM, "*", "type", "test"]);
    }
    server.try_pipe(&jobs).unwrap();
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    until("the backlog to say how long it lasts, and why", SOON, || {
        let queue = json(&server, &["queues", "default"])["items"][0].take();
        let (cause, waiting) = (&queue["cause"], queue["waiting"].as_u64().unwrap());
        assert!(waiting > 0, "it was gone before anybody saw it");
        let truth = waiting * 1000 / 400;
        let lasts = queue["empty_in"]["ms"].as_u64().is_some_and(|rest| rest.abs_diff(truth) <= truth / 5);
        lasts && cause["gate"] == "queue" && cause["rate"] == "400/s"
    });
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_of_jobs_is_moved_to_another_queue_and_runs_there() {
    let server = RedisServer::start();
    let lines = "{\"type\":\"mail.newsletter\"}\n".repeat(30)
        + &"{\"type\":\"mail.receipt\"}\n".repeat(5)
        + "{\"type\":\"mail.newsletter\",\"delay\":\"1h\",\"id\":\"late\"}\n";
    assert_eq!(sf_with(&server, &["enqueue", "--bulk", "--queue", "mail"], lines.as_bytes()).code, Some(0));
    let moving = ["move", "--queue", "mail", "--to", "bulk", "--type", "mail.newsletter"];
    assert_eq!(json(&server, &[&moving[..], &["--dry-run"]].concat())["planned"], 31);
    let moving = [&moving[..], &["--reason", "it delays the receipts", "--yes"]].concat();
    let refused = sf(&server, &moving);
    assert!(refused.code == Some(2) && refused.stderr.contains("add --unserved"), "{refused:?}");
    let moved = json(&server, &[&moving[..], &["--unserved"]].concat());
    assert_eq!((&moved["changed"], &moved["kept"]), (&31.into(), &serde_json::json!({})));
    let counts = |queue: &str| {
        let found = json(&server, &["queues", queue])["items"][0].clone();
        [found["waiting"].as_u64().unwrap(), found["delayed"].as_u64().unwrap()]
    };
    assert_eq!([counts("mail"), counts("bulk")], [[5, 0], [30, 1]]);
    assert_eq!(json(&server, &["status", "late", "--queue", "bulk"])["state"], "scheduled");
    assert_eq!(json(&server, &["audit", "--queue", "mail"])["items"][1]["why"], "it delays the receipts");
    let config =
        "telemetry.listen = \"off\"\n[queues.bulk]\n[types.\"mail.newsletter\"]\nhandler = \"noop\"\n";
    let args = ["worker", "--config", "{config}", "--redis", &server.url()];
    let worker = Launch::new(&args).config(config).start();
    until("all to run there", SOON, || counts("bulk") == [0, 1]);
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    assert_eq!(counts("mail"), [5, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lacks_a_type_delays_no_other_job() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    for _ in 0..20 {
        server.cmd(&["XADD", STREAM, "*", "type", "tset"]);
        server.cmd(&["XADD", STREAM, "*", "type", "test"]);
    }
    until_async("the known ones to run", SOON, async || handler.jobs() == 20).await;
    let unserved = until("the unknown type to be named", 2 * SOON, || {
        let types = json(&server, &["queues"])["items"][0]["unserved_types"].take();
        (types[0]["jobs"] == 20 && types[0]["did_you_mean"].is_string()).then_some(types)
    });
    assert_eq!((&unserved[0]["type"], &unserved[0]["did_you_mean"]), (&"tset".into(), &"test".into()));
    let config = "telemetry.listen = \"off\"\n[types.tset]\nhandler = \"noop\"\n";
    let args = ["worker", "--config", "{config}", "--redis", &server.url()];
    let knowing = Launch::new(&args).config(config).start();
    until_empty(&queue).await;
    knowing.term();
    assert_eq!(knowing.wait_exit(SOON).code(), Some(0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_outlives_the_process_that_carries_it_out() {
    const LETTERS: usize = 200;
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for nth in 0..LETTERS {
        let id = format!("order-{nth}");
        let fields = ["type", "noop", "id", &id, "dead_reason", "fatal", "dead_error", "no"];
        server.cmd(&[&["XADD", "sf:{default}:dead", "*"], &fields[..]].concat());
    }
    let replay = ["dead", "replay", "--type", "noop", "--rate", "50/s", "--yes", "--detach"];
    let id = json(&server, &replay)["id"].as_str().unwrap().to_owned();
    let campaign = || json(&server, &["tasks", "show", &id]);
    let config = "telemetry.listen = \"off\"\n[worker]\nlease = \"1s\"\n[types.noop]\nhandler = \"noop\"\n";
    let args = ["worker", "--config", "{config}", "--redis", &server.url()];
    let launch = Launch::new(&args).config(config);
    let first = launch.start();
    until("some to be replayed", 2 * SOON, || campaign()["replayed"].as_u64().unwrap() >= 30);
    first.kill9();
    let second = launch.start();
    until("the campaign to be done", 3 * SOON, || campaign()["state"] == "done");
    let done = campaign();
    assert_eq!((&done["replayed"], &done["succeeded"]), (&LETTERS.into(), &LETTERS.into()), "{done}");
    until_empty(&queue).await;
    second.term();
    assert_eq!(second.wait_exit(Duration::from_secs(30)).code(), Some(0));
}
