//! Gates, recurring jobs, workers, batches, probes and the description of the API.

use hyper::Method;
use serde_json::{Value, json};

use super::client::{Console, SOON, send, values};
use harness::fleet::{Acts, Running, quick};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn the_gates_of_a_queue_that_does_not_exist_are_changed_only_if_that_is_meant() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("mail", &json!({"type": "test"})).await;
    let (pause, set) = ("queues/male/pause", "queues/male/gates/queue");
    for refused in [
        console.post(pause, &json!({})).await.problem(409),
        console.put(set, &json!({"rate": "9/s"})).await.problem(409),
    ] {
        let why = refused["detail"].as_str().unwrap();
        assert!(why.starts_with("there is no queue male yet; did you mean mail?"), "{refused}");
    }
    console.put(set, &json!({"rate": "9/s", "confirm": true})).await.ok(200);
    console.post(pause, &json!({"confirm": true})).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_a_gate_are_set_and_cleared() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let path = "queues/mail/gates/key%3Ah.tenant%3D9%2Fx";
    let limits =
        json!({"concurrency": 2, "rate": "100/s", "breaker": "50%/20/1m/30s", "reason": "they asked"});
    let set = console.put(path, &limits).await.ok(200);
    assert_eq!((&set["gate"], &set["concurrency"]), (&json!("key:h.tenant=9/x"), &json!(2)));
    assert_eq!((&set["done"], &set["changed"]), (&json!("set"), &json!(true)));
    let gates = console.get("queues/mail/gates").await.ok(200);
    assert_eq!(values(&gates, "gate"), ["key:h.tenant=9/x"]);
    assert_eq!(gates["items"][0]["source"], "command");
    let fewer = console.put(path, &json!({"concurrency": 1})).await.ok(200);
    assert_eq!((&fewer["concurrency"], &fewer["rate"]), (&json!(1), &json!(null)), "the others are removed");
    let cleared = console.delete(path).await.ok(200);
    assert_eq!(
        (&cleared["done"], &cleared["changed"], &cleared["concurrency"]),
        (&json!("cleared"), &json!(true), &json!(null))
    );
    assert_eq!(console.delete(path).await.ok(200)["changed"], false);
    for (body, at) in [
        (json!({}), "body"),
        (json!({"concurrency": 0}), "/concurrency"),
        (json!({"concurrency": "many"}), "/concurrency"),
        (json!({"rate": "fast"}), "/rate"),
        (json!({"breaker": "half"}), "/breaker"),
    ] {
        assert_eq!(console.put(path, &body).await.wrong(422), at, "{body}");
    }
    assert_eq!(
        console.put("queues/mail/gates/door", &json!({"concurrency": 1})).await.wrong(422),
        "path.gate"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recurring_job_is_saved_paused_run_and_removed() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let (list, path) = ("queues/reports/cron", "queues/reports/cron/report.nightly");
    let body = json!({
        "schedule": "0 3 * * *", "timezone": "Europe/Berlin", "type": "report.generate", "payload": {"all": true},
        "lane": "low", "missed": "one",
    });
    let added = console.put(path, &body).await.ok(200);
    assert_eq!((&added["done"], added["next"].is_string()), (&json!("added"), true));
    assert_eq!(console.put(path, &body).await.ok(200)["done"], "unchanged");
    let jobs = console.get(&format!("{list}?next=3")).await.ok(200);
    let job = &jobs["items"][0];
    assert_eq!(
        (&job["name"], &job["lane"], &job["missed"]),
        (&json!("report.nightly"), &json!("low"), &json!("one"))
    );
    assert_eq!(job["next"].as_array().unwrap().len(), 3);
    for (action, done) in [("pause", "paused"), ("resume", "resumed"), ("run", "submitted")] {
        let changed = console.post(&format!("{path}/{action}"), &json!({})).await.ok(200);
        assert_eq!((&changed["done"], &changed["changed"]), (&json!(done), &json!(true)), "{action}");
    }
    assert_eq!(console.get("queues/reports").await.ok(200)["waiting"], 1);
    assert_eq!(console.get(&format!("{path}/ticks?last=0")).await.wrong(422), "query.last");
    console.get("queues/reports/cron/nothing/ticks").await.problem(404);
    assert_eq!(console.delete(path).await.ok(200)["done"], "removed");
    console.delete(path).await.problem(404);
    console.post(&format!("{path}/run"), &json!({})).await.problem(404);
    for (change, at) in [
        (json!({"schedule": "often"}), "/schedule"),
        (json!({"timezone": "Mars/Olympus"}), "/schedule"),
        (json!({"type": "A"}), "/type"),
        (json!({"lane": "fast"}), "/lane"),
        (json!({"missed": "maybe"}), "/missed"),
        (json!({"encoding": "xml"}), "/encoding"),
    ] {
        let mut wrong = body.clone();
        wrong.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(console.put(path, &wrong).await.wrong(422), at, "{change}");
    }
    assert_eq!(console.put("queues/reports/cron/Nightly!", &body).await.wrong(422), "path.name");
    assert_eq!(console.get(&format!("{list}?next=0")).await.wrong(422), "query.next");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_ticks_of_a_recurring_job_lead_to_its_jobs() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let path = "queues/default/cron/often";
    console.put(path, &json!({"schedule": "* * * * * *", "type": "test"})).await.ok(200);
    let ticks = until_async("two ticks to be done", SOON, async || {
        let ticks = console.get(&format!("{path}/ticks?last=3")).await.ok(200);
        let done = ticks["items"].as_array().unwrap().iter().filter(|tick| tick["state"] == "done").count();
        (done >= 2).then_some(ticks)
    })
    .await;
    let times: Vec<u64> =
        ticks["items"].as_array().unwrap().iter().filter_map(|tick| tick["at_ms"].as_u64()).collect();
    assert!(times.is_sorted_by(|newer, older| newer > older) && times.len() <= 3, "{ticks}");
    let job = values(&ticks, "job").remove(0);
    let found = console.get(&format!("jobs/{job}")).await.ok(200);
    assert_eq!(values(&found, "queue"), ["default"]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_listed_for_those_who_may_see_their_queues() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let workers = until_async("the worker to be listed", SOON, async || {
        let list = console.get("workers").await.ok(200);
        (!list["items"].as_array().unwrap().is_empty()).then_some(list)
    })
    .await;
    assert_eq!(
        (&workers["items"][0]["queues"], &workers["items"][0]["types"]),
        (&json!(["default"]), &json!(["test"]))
    );
    let limited = send(console.ask_as("limited", Method::GET, "workers")).await.ok(200);
    assert!(limited["items"].as_array().unwrap().is_empty(), "{limited}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_drained_and_resumed() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let listed = async || console.get("workers").await.ok(200)["items"][0].clone();
    let name = until_async("the worker to be listed", SOON, async || {
        listed().await["consumer"].as_str().map(str::to_owned)
    })
    .await;
    let path = format!("workers/{name}/drain");
    let asked = console.post(&path, &json!({"reason": "its disk"})).await.ok(200);
    assert_eq!((&asked["asked"], &asked["changed"]), (&json!("drain"), &json!(true)));
    until_async("the worker to be drained", SOON, async || listed().await["state"] == "drained").await;
    let drain = listed().await["drain"].clone();
    assert_eq!(
        (&drain["by"], &drain["why"], &drain["heard"]),
        (&json!("admin"), &json!("its disk"), &json!(true))
    );
    assert_eq!(console.delete(&path).await.ok(200)["asked"], "resume");
    until_async("the worker to take jobs", SOON, async || listed().await["state"] == "running").await;
    let audit = console.get("audit?action=workers&who=ADMIN&queue=default").await.ok(200);
    assert_eq!(values(&audit, "what"), ["workers resume", "workers drain"]);
    assert_eq!(values(&audit, "target"), [name.clone(), name.clone()]);
    let earlier = console.get("audit?until=1d").await.ok(200);
    assert!(earlier["items"].as_array().unwrap().is_empty(), "{earlier}");
    console.post("workers/nobody/drain", &json!({})).await.problem(404);
    send(console.ask_as("limited", Method::DELETE, &path)).await.problem(404);
    server.cmd(&["HSET", "sf:worker:old-1", "version", "0.0.9", "queues", "default", "state", "running"]);
    console.post("workers/old-1/drain", &json!({})).await.problem(409);
    fleet.stop().await;
}

/// Asks for an audit line by line. Returns the gates that were paused, and the last progress.
async fn paused(console: &Console, token: &str, path: &str) -> (Vec<String>, Value) {
    let answer =
        send(console.ask_as(token, Method::GET, path).header("accept", "application/x-ndjson")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")), "{path}");
    let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let targets = lines.iter().filter_map(|line| Some(line["action"]["target"].as_str()?.to_owned()));
    (targets.collect(), lines.last().unwrap()["progress"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_arrives_line_by_line() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for (queue, count) in [("sms", 1), ("mail", 2)] {
        console.submit(queue, &json!({"type": format!("{queue}.0")})).await;
        for nth in 0..count {
            let body = json!({"type": format!("{queue}.{nth}"), "confirm": true, "reason": "a test"});
            console.post(&format!("queues/{queue}/pause"), &body).await.ok(200);
        }
    }
    until_async("the console to know the queues", SOON, async || {
        values(&console.get("queues").await.ok(200), "queue") == ["mail", "sms"]
    })
    .await;
    let (all, last) = paused(&console, "admin", "audit?action=pause&since=1h").await;
    assert_eq!(all, ["type:mail.1", "type:mail.0", "type:sms.0"]);
    assert_eq!((&last["found"], &last["next"]), (&json!(3), &Value::Null));
    let (some, last) = paused(&console, "admin", "audit?limit=2").await;
    assert_eq!((&some[..], &last["found"]), (&all[..2], &json!(2)));
    let next = last["next"].as_str().unwrap().replace(':', "%3A");
    let (rest, last) = paused(&console, "admin", &format!("audit?after={next}")).await;
    assert_eq!((&rest[..], &last["next"]), (&all[2..], &Value::Null));
    let (limited, _) = paused(&console, "limited", "audit").await;
    assert_eq!(limited, all[..2], "only what they may see");
    let (one, _) = paused(&console, "admin", "queues/sms/audit?target=SMS").await;
    assert_eq!(one, all[2..]);
    let nowhere = console.ask(Method::GET, "queues/nowhere/audit").header("accept", "application/x-ndjson");
    send(nowhere).await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_does_not_exist_is_not_found() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.get("queues/default/batches/invoices").await.problem(404);
    let queue = harness::fleet::queue(&server).await;
    let producer = streamfleet::Producer::new(queue);
    let job = || streamfleet::Submission::new("test").unwrap();
    producer.submit_batch(&"invoices".parse().unwrap(), job(), [job(), job()]).await.unwrap();
    let shown = console.get("queues/default/batches/invoices").await.ok(200);
    assert_eq!((&shown["name"], &shown["members"]), (&json!("invoices"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_opened_once_and_the_wrong_field_of_a_member_is_named() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let path = "queues/default/batches/invoices";
    let jobs =
        json!({"follow": {"type": "total"}, "members": [{"type": "test"}, {"type": "test", "id": "own"}]});
    for _ in 0..2 {
        let opened = console.put(path, &jobs).await.ok(200);
        assert_eq!(opened["ids"], json!(["invoices.0", "own"]));
    }
    assert_eq!(console.get("queues/default").await.ok(200)["waiting"], 2);
    assert_eq!(console.get(path).await.ok(200)["state"], "closed");
    for (body, at) in [
        (json!({"follow": {"type": "total"}, "members": []}), "/members"),
        (json!({"follow": {"type": "Total"}, "members": [{"type": "test"}]}), "/follow/type"),
        (
            json!({"follow": {"type": "total"}, "members": [{"type": "a"}, {"type": "a", "delay": "x"}]}),
            "/members/1/delay",
        ),
        (
            json!({"follow": {"type": "total"}, "members": [{"type": "a", "headers": {"": "x"}}]}),
            "/members/0",
        ),
    ] {
        assert_eq!(console.put("queues/default/batches/wrong", &body).await.wrong(422), at, "{body}");
    }
    send(console.ask_as("viewer", Method::PUT, path).json(&jobs)).await.problem(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_the_description_need_no_token() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    assert_eq!(send(console.open(Method::GET, "/healthz")).await.ok(200), json!({"status": "ok"}));
    let document = send(console.open(Method::GET, "openapi.json")).await.ok(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/api/v1/queues/{queue}/jobs"]["post"].is_object());
    server.stop_gracefully();
    until_async("the probe to fail", SOON, async || {
        send(console.open(Method::GET, "/healthz")).await.status == 503
    })
    .await;
}
