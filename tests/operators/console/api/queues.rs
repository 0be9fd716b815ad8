//! Queues: counting, pausing, emptying and deleting them.

use hyper::Method;
use serde_json::{Value, json};

use super::client::{Console, SOON, send, values};
use harness::fleet::{Acts, Running, quick};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_counted_as_the_command_line_counts_them() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for id in ["one", "two"] {
        console.submit("mail", &json!({"type": "mail.send", "id": id})).await;
    }
    let queue = console.get("queues/mail").await.ok(200);
    assert_eq!((&queue["queue"], &queue["waiting"], &queue["dead"]), (&json!("mail"), &json!(2), &json!(0)));
    let printed = harness::cli::json(&server, &["queues", "mail"])["items"][0].take();
    for key in ["queue", "waiting", "running", "delayed", "dead", "oldest_waiting_ms"] {
        assert_eq!(queue[key], printed[key], "{key}");
    }
    for (lane, printed) in queue["lanes"].as_array().unwrap().iter().zip(printed["lanes"].as_array().unwrap())
    {
        for key in ["lane", "waiting", "running"] {
            assert_eq!(lane[key], printed[key], "{key}");
        }
    }
    let list = console.get("queues?memory=true").await.ok(200);
    assert_eq!(values(&list, "queue"), ["mail"]);
    assert!(list["items"][0]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{list}");
    assert_eq!((&list["version"], &list["next"]), (&json!(1), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_named() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    assert_eq!(console.get("queues?quue=mail").await.wrong(422), "query.quue");
    assert_eq!(console.get("queues?queue=Mail").await.wrong(422), "query.queue");
    assert_eq!(console.get("queues/Mail").await.wrong(422), "path.queue");
    let unknown = console.get("queues/nowhere").await.problem(404);
    assert!(unknown["detail"].as_str().unwrap().contains("nowhere"), "{unknown}");
    console.get("nothing").await.problem(404);
    console.put("queues", &json!({})).await.problem(405);
    send(console.open(Method::GET, "queues")).await.problem(401);
    send(console.ask_as("nobody", Method::GET, "queues")).await.problem(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_types_of_a_queue_are_those_of_its_workers() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let types = until_async("the type to be known", SOON, async || {
        let answer = console.get("queues/default/types").await;
        let list = if answer.status == 200 { answer.json() } else { return None };
        values(&list, "type").contains(&"test".to_owned()).then_some(list)
    })
    .await;
    assert_eq!((&types["known"], &types["items"][0]["served"]), (&json!(true), &json!(true)), "{types}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_paused_and_resumed() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let pause = json!({"type": "mail.send", "for": "1h", "reason": "the relay is down"});
    let paused = console.post("queues/mail/pause", &pause).await.ok(200);
    assert_eq!((&paused["gate"], &paused["for_ms"]), (&json!("type:mail.send"), &json!(3_600_000)));
    let gates = console.get("queues/mail/gates").await.ok(200);
    assert_eq!(
        (&gates["items"][0]["state"], &gates["items"][0]["paused_by"]),
        (&json!("paused"), &json!("admin"))
    );
    let resumed = console.post("queues/mail/resume", &json!({"type": "mail.send"})).await.ok(200);
    assert_eq!(resumed["changed"], true);
    let audit = console.get("queues/mail/audit").await.ok(200);
    assert_eq!(values(&audit, "what"), ["resume", "pause"]);
    assert_eq!(audit["items"][1]["why"], "the relay is down");
    for (body, at) in [
        (json!({"type": "A"}), "/type"),
        (json!({"key": ""}), "/key"),
        (json!({"type": "a", "key": "h.a=1"}), "/key"),
        (json!({"for": "soon"}), "/for"),
        (json!({"kind": "a"}), "body"),
    ] {
        let answer = console.post("queues/mail/pause", &body).await;
        let named = answer.wrong(422);
        assert!(named == at || at == "body", "{body}: {named}");
    }
    assert_eq!(console.post("queues/mail/pause", &json!({})).await.ok(200)["gate"], "queue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_emptied_only_if_its_name_is_repeated() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for id in ["one", "two"] {
        console.submit("mail", &json!({"type": "mail.send", "id": id})).await;
    }
    let path = "queues/mail/purge";
    assert_eq!(console.post(path, &json!({"confirm": "mail"})).await.wrong(422), "body");
    for confirm in [json!(null), json!("post")] {
        let answer = console.post(path, &json!({"waiting": true, "confirm": confirm})).await;
        assert_eq!(answer.wrong(422), "/confirm");
    }
    let plan = console.post(path, &json!({"waiting": true, "dry_run": true})).await.ok(200);
    assert_eq!((&plan["waiting"], &plan["changed"]), (&json!(2), &json!(0)));
    let begun = console.post(path, &json!({"waiting": true, "confirm": "mail", "reason": "a test"})).await;
    let done = console.ended(&begun).await;
    assert_eq!((&done["kind"], &done["done"]), (&json!("purge"), &json!(2)));
    assert_eq!(console.get("queues/mail").await.ok(200)["waiting"], 0);
    send(console.ask_as("limited", Method::POST, path).json(&json!({}))).await.problem(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_deleted_with_everything_it_has() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("old", &json!({"type": "mail.send", "id": "one"})).await;
    assert_eq!(console.delete("queues/old").await.wrong(422), "query.confirm");
    let plan = console.delete("queues/old?dry_run=true").await.ok(200);
    assert_eq!((&plan["waiting"], &plan["keys"]), (&json!(1), &json!(0)));
    let deleted = console.delete("queues/old?confirm=old&reason=gone").await.ok(200);
    assert!(deleted["keys"].as_u64().is_some_and(|keys| keys >= 1), "{deleted}");
    until_async("the queue to be gone", SOON, async || console.get("queues/old").await.status == 404).await;
}
