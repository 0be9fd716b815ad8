//! Incidents: what is listed for whom, and who may acknowledge them.

use hyper::Method;
use serde_json::json;

use super::client::{Console, send, values};
use crate::console::trouble::{ERROR, GROUP, MEMORY, OTHER, OVER, incidents};
use harness::redis_server::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn incidents_are_listed_for_those_who_may_see_their_queues() {
    let server = RedisServer::start();
    incidents(&server);
    let console = Console::start(&server).await;
    let open = console.get("incidents").await.ok(200);
    assert_eq!(values(&open, "id"), [GROUP, OTHER, MEMORY]);
    let first = &open["items"][0];
    assert_eq!(
        (&first["kind"], &first["queue"], &first["example_error"], &first["sinks"]),
        (&json!("dead_group"), &json!("mail"), &json!(ERROR), &json!({"ops": 1}))
    );
    let all = console.get("incidents?all=true&limit=1").await.ok(200);
    assert_eq!((values(&all, "id").last().unwrap().as_str(), &all["open"]), (OVER, &json!(3)));
    let next = all["next"].as_str().unwrap();
    let rest = console.get(&format!("incidents?all=true&after={next}")).await.ok(200);
    assert_eq!((values(&rest, "id").len(), &rest["next"]), (0, &json!(null)));
    let limited = send(console.ask_as("limited", Method::GET, "incidents?all=true")).await.ok(200);
    assert_eq!(values(&limited, "id"), [GROUP, OVER]);
    let viewer = send(console.ask_as("viewer", Method::GET, "incidents")).await.ok(200);
    assert_eq!(viewer["items"][0]["example_error"], "***", "errors may contain payloads");
    assert_eq!(console.get("incidents?after=1-1").await.wrong(422), "query.after");
    assert_eq!(console.get("incidents?al=true").await.wrong(422), "query.al");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_is_shown_by_its_id_also_when_it_is_over() {
    let server = RedisServer::start();
    incidents(&server);
    let console = Console::start(&server).await;
    let shown = console.get(&format!("incidents/{GROUP}")).await.ok(200);
    assert_eq!(
        (&shown["id"], &shown["state"], &shown["sinks"], &shown["given_up"]),
        (&json!(GROUP), &json!("open"), &json!({"ops": 1}), &json!({"ops": 2}))
    );
    assert_eq!(console.get(&format!("incidents/{OVER}")).await.ok(200)["state"], "resolved");
    for id in [GROUP, OVER] {
        send(console.ask_as("limited", Method::GET, &format!("incidents/{id}"))).await.ok(200);
    }
    for id in [OTHER, MEMORY, "00000000"] {
        send(console.ask_as("limited", Method::GET, &format!("incidents/{id}"))).await.problem(404);
    }
    let viewer = send(console.ask_as("viewer", Method::GET, &format!("incidents/{GROUP}"))).await.ok(200);
    assert_eq!(viewer["example_error"], "***", "errors may contain payloads");
    assert_eq!(console.get("incidents/nonsense").await.wrong(422), "path.incident");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_is_acknowledged_by_those_who_may() {
    let server = RedisServer::start();
    incidents(&server);
    let console = Console::start(&server).await;
    let path = |id: &str| format!("incidents/{id}/ack");
    let wish = json!({"for": "2h", "reason": "the relay is being repaired"});
    let ack = async |token: &'static str, id: &str| {
        send(console.ask_as(token, Method::POST, &path(id)).json(&wish)).await
    };
    for (token, id) in [("viewer", GROUP), ("submitter", GROUP), ("limited", OTHER), ("limited", MEMORY)] {
        ack(token, id).await.problem(403);
    }
    let done = ack("limited", GROUP).await.ok(200);
    assert!(done["incident"] == GROUP && done["until_ms"].as_u64().is_some(), "{done}");
    ack("admin", MEMORY).await.ok(200);
    let list = console.get("incidents").await.ok(200);
    let known = &list["items"][0]["acknowledged"];
    assert_eq!(
        (&known["who"], &known["why"], &known["until_ms"]),
        (&json!("limited"), &wish["reason"], &done["until_ms"])
    );
    console.post(&path(GROUP), &json!({"for": 0, "reason": "remind us"})).await.ok(200);
    assert_eq!(console.get("incidents").await.ok(200)["items"][0]["acknowledged"], json!(null));
    for id in [OVER, "00000000"] {
        console.post(&path(id), &wish).await.problem(404);
    }
    assert_eq!(console.post(&path("nonsense"), &wish).await.wrong(422), "path.incident");
    let soon = json!({"for": "soon", "reason": "x"});
    assert_eq!(console.post(&path(GROUP), &soon).await.wrong(422), "/for");
    console.post(&path(GROUP), &json!({"for": "2h"})).await.problem(422);
    let silent = json!({"for": "2h", "reason": " "});
    assert_eq!(console.post(&path(GROUP), &silent).await.wrong(422), "/reason");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_is_tested_by_those_who_may_use_all_queues() {
    use crate::alerts::stand_in::Robot;

    let (server, robot) = (RedisServer::start(), Robot::slack().await);
    let url = format!("{}/services/T0/B0/x", robot.server.uri());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    std::fs::write(&file, url).unwrap();
    let section =
        format!("[alerts]\nevery = \"1h\"\n[alerts.sinks.ops]\nkind = \"slack\"\nurl_file = {file:?}\n");
    let console = Console::start_with(&server, &section).await;
    let test = async |token: &str, sink: &str| {
        send(console.ask_as(token, Method::POST, &format!("alerts/sinks/{sink}/test"))).await
    };
    for token in ["viewer", "submitter", "limited"] {
        test(token, "ops").await.problem(403);
    }
    assert_eq!(robot.taken(), Vec::<String>::new());
    let sent = test("admin", "ops").await.ok(200);
    assert_eq!(sent, json!({"sink": "ops", "accepted": true, "answer": "ok"}));
    assert_eq!(robot.taken().len(), 1);
    robot.refuse(1, 200, "invalid_token");
    let refused = test("admin", "ops").await.ok(200);
    assert_eq!((&refused["accepted"], robot.taken().len()), (&json!(false), 1));
    assert!(refused["answer"].as_str().unwrap().contains("invalid_token"), "{refused}");
    test("admin", "nobody").await.problem(404);
    assert_eq!(test("admin", "No%20Body").await.wrong(422), "path.sink");
    let without = Console::start(&server).await;
    let why = send(without.ask(Method::POST, "alerts/sinks/ops/test")).await.problem(422);
    assert!(why["detail"].as_str().unwrap().contains("there is no section [alerts]"), "{why}");
}
