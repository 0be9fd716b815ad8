//! Submitting many jobs in one body, and changing many at once.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::client::{Answer, Console, SOON, send, values};
use harness::proxy::{Mode, Proxy};
use harness::redis_server::RedisServer;

const PATH: &str = "queues/default/jobs";

async fn post(console: &Console, key: Option<&str>, body: impl Into<Body>) -> Answer {
    let request = console.ask(Method::POST, PATH).header("content-type", "application/x-ndjson").body(body);
    send(match key {
        Some(key) => request.header("Idempotency-Key", key),
        None => request,
    })
    .await
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"), "{answer:?}");
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_gets_its_answer_and_a_bad_one_stops_nothing() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let body = "{\"type\":\"test\",\"id\":\"one\"}\n\n{oops\n{\"type\":\"test\",\"lane\":\"fast\"}\n{\"type\":\"test\"}\n{\"type\":\"test\",\"id\":\"one\"}";
    let answer = post(&console, None, body).await;
    let lines = lines(&answer);
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["line"].as_u64()).collect();
    assert_eq!(numbers, [1, 3, 4, 5, 6], "an empty line is no job");
    assert_eq!((&lines[0]["id"], &lines[0]["existing"]), (&json!("one"), &json!(false)));
    assert_eq!((&lines[1]["problem"]["status"], &lines[2]["problem"]["status"]), (&json!(400), &json!(422)));
    assert_eq!(lines[2]["problem"]["errors"][0]["at"], "/lane");
    assert_eq!(lines[3]["state"], "waiting");
    assert_eq!(lines[4]["existing"], true);
    let summary = json!({"done": true, "accepted": 3, "existing": 1, "rejected": 2, "unknown": 0});
    assert_eq!(lines.last(), Some(&summary));
    assert_eq!(console.get("queues/default").await.ok(200)["waiting"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_beside_one_that_redis_refuses_gets_its_own_answer() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    server.cmd(&["SET", "sf:{default}:job:j41", "oops"]);
    let body: String = (1..=300).map(|n| format!("{{\"type\":\"test\",\"id\":\"j{n}\"}}\n")).collect();
    let mut lines = lines(&post(&console, None, body).await);
    let summary = lines.pop().unwrap();
    let accepted = lines.iter().filter(|line| line["id"].is_string()).count();
    assert_eq!(console.get("queues/default").await.ok(200)["waiting"], accepted);
    assert_eq!(accepted, lines.len() - 1, "{summary}");
    let counts = ["done", "accepted", "existing", "rejected", "unknown"].map(|name| &summary[name]);
    assert_eq!(counts, [&json!(false), &json!(accepted), &json!(0), &json!(1), &json!(0)], "{summary}");
    assert_eq!((&lines[40]["line"], &lines[40]["problem"]["status"]), (&json!(41), &json!(409)));
    let why = lines[40]["problem"]["detail"].as_str().unwrap();
    assert!(why.contains("the job j41 was refused") && why.contains("WRONGTYPE"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_rejected_only_if_its_job_is_not_accepted() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let console = Console::start_at(&server.url_through(proxy.addr()), "").await;
    server.cmd(&["SET", "sf:{default}:job:b", "oops"]);
    let body = "{\"type\":\"test\",\"id\":\"a\"}\n{\"type\":\"test\",\"id\":\"b\"}\n{\"type\":\"test\"}\n";
    let refused = lines(&post(&console, None, body).await);
    let detail = refused[2]["problem"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("the job was not submitted: the job b was refused"), "{detail}");
    let counts = |summary: &Value| ["accepted", "rejected", "unknown"].map(|name| summary[name].clone());
    assert_eq!(counts(&refused[3]), [1, 2, 0].map(Value::from));
    // No replica confirms it.
    let durable = "{\"type\":\"test\",\"id\":\"c\",\"durability\":\"replicas:1\"}\n";
    let unconfirmed = lines(&post(&console, None, durable).await);
    assert_eq!(unconfirmed[0]["problem"]["status"], 504, "{unconfirmed:?}");
    assert_eq!(counts(&unconfirmed[1]), [1, 0, 0].map(Value::from));
    // Redis knows the script by now, so it is sent once. The reply about its entry is lost.
    console.submit("default", &json!({"type": "test"})).await;
    let (needle, holding) = (b"EVALSHA".to_vec(), b"*2\r\n:1\r\n".to_vec());
    proxy.set(Mode::DropReplyTo { needle, holding, times: 1 });
    let lost = lines(&post(&console, None, "{\"type\":\"test\"}\n").await);
    assert_eq!(lost[0]["problem"]["status"], 503, "{lost:?}");
    assert_eq!((counts(&lost[1]), &lost[1]["done"]), ([0, 0, 1].map(Value::from), &json!(false)));
    assert_eq!(server.cmd(&["XLEN", "sf:{default}:jobs"]), redis::Value::Int(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_body_with_a_key_submits_nothing_more() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let body = "{\"type\":\"test\",\"payload\":1}\n{\"type\":\"test\",\"payload\":1}\n";
    let first = lines(&post(&console, Some("batch-1"), body).await);
    let again = lines(&post(&console, Some("batch-1"), body).await);
    for line in 0..2 {
        assert_eq!(first[line]["id"], again[line]["id"]);
        assert_eq!((&first[line]["existing"], &again[line]["existing"]), (&json!(false), &json!(true)));
    }
    assert_ne!(first[0]["id"], first[1]["id"], "each line is a job of its own");
    assert_eq!(console.get("queues/default").await.ok(200)["waiting"], 2);
    let changed = lines(&post(&console, Some("batch-1"), "{\"type\":\"test\",\"payload\":2}\n").await);
    assert_eq!(changed[0]["problem"]["errors"][0]["at"], "header.Idempotency-Key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_answered_before_the_next_one_arrives() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    let body = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (Ok::<_, Infallible>(piece), receiver))
    });
    let request = console.ask(Method::POST, PATH).header("content-type", "application/x-ndjson");
    sender.send(Bytes::from_static(b"{\"type\":\"test\",\"id\":\"first\"}\n")).await.unwrap();
    let response = request.body(Body::from_stream(body)).send().await;
    assert_eq!(response.status().as_u16(), 200);
    let mut answers = response.into_body().into_data_stream();
    let piece = tokio::time::timeout(SOON, answers.next()).await.unwrap().unwrap().unwrap();
    assert!(String::from_utf8_lossy(&piece).contains("\"first\""), "{piece:?}");
    sender.send(Bytes::from_static(b"{\"type\":\"test\",\"id\":\"second\"}\n")).await.unwrap();
    drop(sender);
    let mut rest = String::new();
    while let Some(piece) = answers.next().await {
        rest += &String::from_utf8_lossy(&piece.unwrap());
    }
    assert!(rest.contains("\"second\"") && rest.contains("\"done\":true"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_lines_are_accepted_in_one_body() {
    const COUNT: usize = 10_000;
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let body: String = (0..COUNT).map(|n| format!("{{\"type\":\"test\",\"payload\":{n}}}\n")).collect();
    let answer = post(&console, None, body).await;
    assert_eq!(lines(&answer).len(), COUNT + 1);
    assert_eq!(lines(&answer)[COUNT]["accepted"], COUNT);
    assert_eq!(console.get("queues/default").await.ok(200)["waiting"], COUNT);
}

/// The path names one of the two queues of a move, also if the task undoes one.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_changed_only_with_the_role_on_both_of_its_queues() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("mail", &json!({"type": "test"})).await;
    let moving = json!({"to": "side", "all": true, "confirm": true});
    let moved = console.ended(&console.post("queues/mail/bulk/move", &moving).await).await;
    let moved = format!("queues/mail/tasks/{}", moved["id"].as_str().unwrap());
    let undone = console.ended(&console.post(&format!("{moved}/undo"), &json!({})).await).await;
    let undone = format!("queues/mail/tasks/{}", undone["id"].as_str().unwrap());
    for task in [moved, undone] {
        for verb in ["undo", "pause", "resume", "stop"] {
            let request = console.ask_as("limited", Method::POST, &format!("{task}/{verb}")).json(&json!({}));
            send(request).await.problem(403);
        }
    }
    assert_eq!(console.get("queues/mail").await.ok(200)["waiting"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_a_filter_matches_are_cancelled_or_moved() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for customer in [9, 9, 8] {
        console.submit("default", &json!({"type": "test", "payload": {"customer": customer}})).await;
    }
    let path = "queues/default/bulk/cancel";
    let filter = json!({"where": ["payload.customer=9"]});
    let plan = console.post(path, &json!({"filter": filter, "dry_run": true})).await.ok(200);
    assert_eq!((&plan["planned"], &plan["changed"]), (&json!(2), &json!(0)));
    let begun = console.post(path, &json!({"filter": filter, "reason": "the customer left"})).await;
    let done = console.ended(&begun).await;
    assert_eq!((&done["done"], &done["planned"], &done["state"]), (&json!(2), &json!(2), &json!("done")));
    let none = console.post(path, &json!({"filter": filter})).await.ok(200);
    assert_eq!(none["planned"], 0, "no task begins");
    let unknown = json!({"to": "other", "all": true});
    console.post("queues/default/bulk/move", &unknown).await.problem(409);
    let plan = json!({"to": "other", "all": true, "dry_run": true});
    let plan = console.post("queues/default/bulk/move", &plan).await.ok(200);
    assert!(plan["remarks"][0].as_str().unwrap().contains("no worker serves the queue other"), "{plan}");
    let moving = json!({"to": "other", "all": true, "confirm": true, "rate": "3000/m"});
    let moved = console.ended(&console.post("queues/default/bulk/move", &moving).await).await;
    assert_eq!((&moved["done"], &moved["to"], &moved["rate"]), (&json!(1), &json!("other"), &json!(50.0)));
    assert_eq!(console.get("queues/other").await.ok(200)["waiting"], 1);
    let audit = console.get("queues/default/audit").await.ok(200);
    assert_eq!(values(&audit, "what"), ["task done", "move", "task done", "cancel"]);
    assert_eq!(audit["items"][0]["who"], "admin");
    let there = console.get("queues/other/audit").await.ok(200);
    assert_eq!(
        (values(&there, "what"), values(&there, "target")),
        (vec!["move".to_owned()], vec!["--from default --to other --all".to_owned()])
    );
    let outcome = there["items"][0]["outcome"].as_str().unwrap();
    assert!(outcome.starts_with("task ") && outcome.ends_with(" of the queue default"), "{outcome}");
    assert_eq!(console.post(path, &json!({})).await.wrong(422), "/filter");
    let wrong = json!({"filter": {"where": ["payload."]}});
    assert_eq!(console.post(path, &wrong).await.wrong(422), "/filter");
    assert_eq!(console.post(path, &json!({"all": true, "state": ["bored"]})).await.wrong(422), "/state");
    for rate in [json!(0), json!("50/d")] {
        assert_eq!(console.post(path, &json!({"all": true, "rate": rate})).await.wrong(422), "/rate");
    }
    let same = json!({"to": "default", "all": true});
    assert_eq!(console.post("queues/default/bulk/move", &same).await.wrong(422), "/to");
    let elsewhere = json!({"to": "other", "all": true});
    assert_eq!(console.post(path, &elsewhere).await.wrong(422), "/to", "only a move has a target");
    let foreign = console.ask_as("limited", Method::POST, "queues/mail/bulk/move");
    send(foreign.json(&json!({"to": "default", "all": true}))).await.problem(403);
    let due = json!({"type": "test", "delay": "1h", "id": "later"});
    console.submit("default", &due).await;
    let was_run_now = console.post("queues/default/bulk/run-now", &json!({"all": true})).await;
    assert_eq!(console.ended(&was_run_now).await["done"], 1);
}
