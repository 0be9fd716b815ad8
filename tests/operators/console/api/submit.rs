//! Submitting one job.

use hyper::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use streamfleet::JobError;
use tempfile::TempDir;

use super::client::{Console, send};
use harness::cli::sf;
use harness::fleet::{Acts, Running, quick};
use harness::redis_server::RedisServer;

const PATH: &str = "queues/default/jobs";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_accepted_and_found_at_its_address() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let job =
        json!({"type": "test", "payload": {"to": "ann"}, "id": "order/7-½", "headers": {"tenant": "9"}});
    let answer = console.post(PATH, &job).await;
    let accepted = answer.ok(201);
    assert_eq!((&accepted["state"], &accepted["existing"]), (&json!("waiting"), &json!(false)));
    let address = answer.header("location").unwrap().to_owned();
    let found = console.get(&address).await.ok(200);
    assert_eq!((&found["id"], &found["payload"]), (&job["id"], &job["payload"]));
    assert_eq!(found["headers"]["tenant"], "9");
    let again = console.post(PATH, &job).await.ok(200);
    assert_eq!((&again["id"], &again["existing"]), (&job["id"], &json!(true)));
    assert_eq!(console.get("queues/default").await.ok(200)["waiting"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_belongs_to_the_trace_that_it_names() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (id, named, kept) in [("a", trace, json!(trace)), ("b", "nonsense", Value::Null)] {
        console.post(PATH, &json!({"type": "test", "id": id, "traceparent": named})).await.ok(201);
        let shown = console.get(&format!("{PATH}/{id}")).await.ok(200);
        assert_eq!(shown["terms"]["traceparent"], kept, "{named}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_goes_only_to_queues_to_which_one_may_submit() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let post = |person: &'static str, path: &'static str, method: Method, body: Value| {
        send(console.ask_as(person, method, path).json(&body))
    };
    let chain = |queue: &str| json!({"type": "a", "then": [{"type": "b"}, {"type": "c", "queue": queue}]});
    post("limited", "queues/mail/jobs", Method::POST, chain("mail")).await.ok(201);
    let refused = post("limited", "queues/mail/jobs", Method::POST, chain("default")).await.problem(403);
    assert!(refused["detail"].as_str().unwrap().contains("queue default"), "{refused}");
    let batch = json!({"follow": {"type": "a"}, "members": [chain("default")]});
    post("limited", "queues/mail/batches/b", Method::PUT, batch).await.problem(403);
    let lines = format!("{}\n{}\n", chain("mail"), chain("default"));
    let many = console.ask_as("limited", Method::POST, "queues/mail/jobs");
    let many = send(many.header("content-type", "application/x-ndjson").body(lines)).await;
    let fates: Vec<Value> = many.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&fates[0]["state"], &fates[1]["problem"]["status"]),
        (&json!("waiting"), &json!(403)),
        "{fates:?}"
    );
    post("submitter", "queues/mail/jobs", Method::POST, chain("default")).await.ok(201);
    assert_eq!(console.get("queues/mail").await.ok(200)["waiting"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_id_is_dots_is_found_at_its_address() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for id in [".", ".."] {
        let answer = console.post(PATH, &json!({"type": "test", "id": id})).await;
        answer.ok(201);
        let address = answer.header("location").unwrap().to_owned();
        assert_eq!(console.get(&address).await.ok(200)["id"], id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_field_of_a_job_is_named() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for (job, at) in [
        (json!({"type": "A"}), "/type"),
        (json!({"type": "a", "delay": "soon"}), "/delay"),
        (json!({"type": "a", "lane": "fast"}), "/lane"),
        (json!({"type": "a", "encoding": "xml"}), "/encoding"),
        (json!({"type": "a", "payload": {}, "encoding": "raw"}), "/payload"),
        (json!({"type": "a", "id": "1700000000000-3"}), "/id"),
        (json!({"type": "a", "on_success": "B"}), "/on_success"),
        (json!({"type": "streamfleet.handover", "payload": {"queue": "mail"}}), "/type"),
        (json!({"type": "a", "then": [{"type": "b", "queue": "No"}]}), "/then"),
        (json!({"type": "a", "then": [{"type": "streamfleet.handover"}]}), "/then"),
        (json!({"type": "a", "max_attempts": 0}), "/max_attempts"),
        (json!({"type": "a", "headers": {"x": 1}}), "/headers"),
        (json!({}), "body"),
        (json!([]), "body"),
    ] {
        assert_eq!(console.post(PATH, &job).await.wrong(422), at, "{job}");
    }
    for body in ["{oops", "", r#"{"type":"a""#, r#"{"type":"a" "payload":1}"#] {
        let request = console.ask(Method::POST, PATH).header("content-type", "application/json");
        assert_eq!(send(request.body(body)).await.wrong(400), "body", "{body}");
    }
    let form = console.ask(Method::POST, PATH).header("content-type", "text/plain").body("{}");
    send(form).await.problem(415);
    assert_eq!(
        console.post(&format!("{PATH}?wait=61s"), &json!({"type": "a"})).await.wrong(422),
        "query.wait"
    );
    assert_eq!(console.post("queues/Mail/jobs", &json!({"type": "a"})).await.wrong(422), "path.queue");
    send(console.ask_as("viewer", Method::POST, PATH).json(&json!({"type": "a"}))).await.problem(403);
    let large = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(9 << 20));
    let large = console.ask(Method::POST, PATH).header("content-type", "application/json").body(large);
    send(large).await.problem(413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_with_a_key_submits_nothing_more() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let post = |person: &'static str, key: &'static str, payload: u32| {
        let job = json!({"type": "test", "payload": payload});
        send(console.ask_as(person, Method::POST, PATH).header("Idempotency-Key", key).json(&job))
    };
    let first = post("admin", "4f1c", 1).await.ok(201);
    let again = post("admin", "4f1c", 1).await.ok(200);
    assert_eq!((&again["id"], &again["existing"]), (&first["id"], &json!(true)));
    assert_eq!(post("admin", "4f1c", 2).await.wrong(422), "header.Idempotency-Key");
    let other = post("submitter", "4f1c", 1).await.ok(201);
    assert_ne!(other["id"], first["id"], "the keys of two people are not the same");
    post("admin", "4f1d", 1).await.ok(201);
    assert_eq!(console.get("queues/default").await.ok(200)["waiting"], 3);
    for key in ["", "two words", "x".repeat(256).leak()] {
        assert_eq!(post("admin", key, 1).await.wrong(422), "header.Idempotency-Key", "{key}");
    }
    // After its end, the answer is the same.
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let id = first["id"].as_str().unwrap();
    assert_eq!(console.get(&format!("{PATH}/{id}?wait=60s")).await.ok(200)["state"], "done");
    let late = post("admin", "4f1c", 1).await.ok(200);
    assert_eq!((&late["id"], &late["state"]), (&first["id"], &json!("done")));
    assert_eq!(
        post("admin", "4f1c", 2).await.wrong(422),
        "header.Idempotency-Key",
        "though its payload is gone"
    );
    let kept: i64 =
        redis::from_redis_value(server.cmd(&["PTTL", &format!("sf:{{default}}:mark:{id}")])).unwrap();
    assert!((1..=24 * 3600 * 1000).contains(&kept), "{kept}");
    fleet.stop().await;
}

/// A hash of these parts, each with its length before it.
fn hash(parts: [&[u8]; 2]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_the_place_of_a_job_with_a_key() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let of_line = hash([hash([b"submitter", b"order-10"]).as_bytes(), &0_u64.to_be_bytes()]);
    let id = format!("key-{}", &of_line[..40]);
    let planted = json!({"type": "test", "id": id});
    assert_eq!(console.post(PATH, &planted).await.wrong(422), "/id");
    let lines = console.ask(Method::POST, PATH).header("content-type", "application/x-ndjson");
    let answer = send(lines.body(planted.to_string())).await;
    let line: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    assert_eq!(line["problem"]["errors"][0]["at"], "/id", "{answer:?}");
    // Redis itself takes any id.
    let sent = sf(&server, &["enqueue", "test", "--id", &id, "--delay", "1h"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let job = json!({"type": "test", "payload": {"order": 10}});
    let request = console.ask_as("submitter", Method::POST, PATH).header("Idempotency-Key", "order-10");
    assert_eq!(send(request.json(&job)).await.wrong(422), "header.Idempotency-Key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_key_finds_the_job_that_holds_the_unique_key() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let unique = |payload: u32| json!({"type": "test", "payload": payload, "unique": "M", "delay": "1h"});
    let post = |path: &'static str, key: &'static str, payload: u32| {
        let request = console.ask(Method::POST, path).header("Idempotency-Key", key);
        send(request.json(&unique(payload)))
    };
    let first = post(PATH, "h1", 1).await.ok(201);
    for _ in 0..2 {
        let held = post(PATH, "h2", 2).await.ok(200);
        assert_eq!((&held["id"], &held["existing"]), (&first["id"], &json!(true)));
    }
    let waited = post("queues/default/jobs?wait=100ms", "h3", 3).await.ok(202);
    assert_eq!(waited["id"], first["id"]);
    assert_eq!(post(PATH, "h1", 2).await.wrong(422), "header.Idempotency-Key");
    let many = console.ask(Method::POST, PATH).header("content-type", "application/x-ndjson");
    let answer = send(many.header("Idempotency-Key", "h4").body(unique(4).to_string())).await;
    let line: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    assert_eq!((&line["id"], &line["existing"]), (&first["id"], &json!(true)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_the_result() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let late =
        console.post(&format!("{PATH}?wait=300ms"), &json!({"type": "test", "id": "late"})).await.ok(202);
    assert_eq!((&late["id"], &late["result"]), (&json!("late"), &json!(null)));
    assert_eq!(late["existing"], false, "{late}");
    let again = json!({"type": "test", "id": "late"});
    assert_eq!(console.post(&format!("{PATH}?wait=1ms"), &again).await.ok(202)["existing"], true);
    let fleet = Running::start(
        &server.url(),
        quick(1),
        Acts::new(|_, payload| match payload {
            b"\"bad\"" => Err(JobError::fatal("no such account")),
            _ => Ok(json!({"rows": 3})),
        }),
    );
    let path = format!("{PATH}?wait=60s");
    let done = console.post(&path, &json!({"type": "test", "payload": "good"})).await.ok(200);
    assert_eq!((&done["state"], &done["result"]), (&json!("done"), &json!({"rows": 3})));
    let dead = console.post(&path, &json!({"type": "test", "payload": "bad"})).await.ok(200);
    assert_eq!((&dead["state"], &dead["error"]), (&json!("dead"), &json!("no such account")));
    let result = console.get(&format!("{PATH}/late/result?wait=60s")).await;
    assert_eq!(result.ok(200), json!({"rows": 3}));
    let id = dead["id"].as_str().unwrap();
    console.get(&format!("{PATH}/{id}/result")).await.problem(409);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_a_job_for_now() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "[queues.default]\nmax_depth = 1\n").await;
    console.submit("default", &json!({"type": "test"})).await;
    let refused = console.post(PATH, &json!({"type": "test"})).await;
    refused.problem(429);
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
}

/// A console that knows a schema of the type `test`: an object with a text `to`.
async fn with_schema(server: &RedisServer, folder: &TempDir) -> Console {
    let schema = folder.path().join("mail.json");
    let text = json!({"required": ["to"], "properties": {"to": {"type": "string"}}});
    std::fs::write(&schema, text.to_string()).unwrap();
    Console::start_with(server, &format!("[types.test]\npayload_schema = {schema:?}\n")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_does_not_fit_is_refused_and_its_fields_are_named() {
    let (server, folder) = (RedisServer::start(), TempDir::new().unwrap());
    let console = with_schema(&server, &folder).await;
    let fits = json!({"type": "test", "id": "fits", "payload": {"to": "ann"}, "delay": "1h"});
    let unfit = json!({"type": "test", "payload": {"to": 7}});
    let problem = console.post(PATH, &unfit).await.problem(422);
    assert_eq!(
        problem["errors"],
        json!([{
            "at": "/payload/to", "code": "type", "values": {"type": "string"}, "detail": "7 is not of type \"string\"",
        }])
    );
    let missing = json!({"type": "test", "payload": {}});
    assert_eq!(console.post(PATH, &missing).await.wrong(422), "/payload/to");
    let following = json!({"type": "other", "then": [{"type": "test", "payload": {}}]});
    assert_eq!(console.post(PATH, &following).await.wrong(422), "/then");
    let nightly = json!({"schedule": "@daily", "type": "test", "payload": {"to": 7}});
    assert_eq!(console.put("queues/default/cron/nightly", &nightly).await.wrong(422), "/payload");
    console.submit("default", &fits).await;
    let edit = json!({"payload": {"to": 7}});
    let edited = send(console.ask(Method::PATCH, &format!("{PATH}/fits")).json(&edit)).await;
    assert_eq!(edited.wrong(422), "/payload/to");
    assert_eq!(console.get(&format!("{PATH}/fits")).await.ok(200)["payload"], fits["payload"]);
    let letter = ["XADD", "sf:{default}:dead", "1-1", "type", "test", "payload", r#"{"to":7}"#];
    server.cmd(&letter);
    let correct =
        async |body: Value| send(console.ask(Method::PATCH, "queues/default/dead/1-1").json(&body)).await;
    assert_eq!(correct(json!({"payload": {"to": 8}})).await.wrong(422), "/payload/to");
    correct(json!({"payload": {"to": "ann"}})).await.ok(200);
    let many = console.ask(Method::POST, PATH).header("content-type", "application/x-ndjson");
    let lines = format!("{unfit}\n{}\n", json!({"type": "test", "payload": {"to": "bob"}}));
    let answer = send(many.body(lines)).await;
    let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["problem"]["errors"][0]["at"], "/payload/to", "{answer:?}");
    assert_eq!((&lines[1]["state"], &lines[2]["rejected"]), (&json!("waiting"), &json!(1)), "{answer:?}");
}
