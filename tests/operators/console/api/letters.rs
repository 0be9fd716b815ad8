//! Dead letters, and tasks that replay and drop them.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet::JobError;

use super::client::{Answer, Console, SOON, send, values};
use harness::cli;
use harness::fleet::{Acts, Running, quick};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const PATH: &str = "queues/default/dead";

/// A console, and this many letters of jobs whose payload says which customer they are for.
async fn with_letters(server: &RedisServer, count: u64) -> Console {
    let console = Console::start(server).await;
    let fleet =
        Running::start(&server.url(), quick(1), Acts::new(|_, _| Err(JobError::fatal("no such account"))));
    for customer in 0..count {
        console.submit("default", &json!({"type": "test", "payload": {"customer": customer}})).await;
    }
    until_async("the jobs to be dead", SOON, async || {
        console.get("queues/default").await.json()["dead"] == count
    })
    .await;
    fleet.stop().await;
    console
}

async fn patch(console: &Console, letter: &str, revision: Option<&str>, body: &Value) -> Answer {
    let request = console.ask(Method::PATCH, &format!("{PATH}/{letter}")).json(body);
    send(match revision {
        Some(revision) => request.header("If-Match", revision),
        None => request,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_listed_page_by_page_and_in_groups() {
    let server = RedisServer::start();
    let console = with_letters(&server, 5).await;
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = console.get(&format!("{PATH}?limit=2&oldest_first=true{after}")).await.ok(200);
        assert_eq!(page["total"], 5);
        found.extend(values(&page, "letter"));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let mut sorted = found.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((found.len(), sorted), (5, found));
    let filtered = console.get(&format!("{PATH}?where=payload.customer%3D3&reason=fatal")).await.ok(200);
    assert_eq!(filtered["items"].as_array().unwrap().len(), 1);
    let groups = console.get(&format!("{PATH}/groups")).await.ok(200);
    assert_eq!((&groups["total"], &groups["items"][0]["count"]), (&json!(5), &json!(5)));
    assert_eq!(groups["items"][0]["error"], "no such account");
    assert_eq!(console.get(&format!("{PATH}?after=x")).await.wrong(422), "query.after");
    assert_eq!(console.get(&format!("{PATH}?limit=0")).await.wrong(422), "query.limit");
    console.get("queues/nowhere/dead").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_edited_only_by_those_who_have_seen_it_as_it_is() {
    let server = RedisServer::start();
    let console = with_letters(&server, 1).await;
    let list = console.get(PATH).await.ok(200);
    let letter = values(&list, "letter").remove(0);
    let shown = console.get(&format!("{PATH}/{letter}")).await;
    let revision = shown.header("etag").unwrap().to_owned();
    let fields = shown.ok(200)["fields"].clone();
    assert!(fields.as_array().unwrap().iter().any(|field| field["name"] == "payload"), "{fields}");
    let body = json!({"set": ["payload.customer=7"], "fields": {"h.tenant": "9"}, "reason": "corrected"});
    let edited = patch(&console, &letter, Some(&revision), &body).await.ok(200);
    assert_eq!(edited["former"], json!(letter));
    let new = edited["letter"].as_str().unwrap().to_owned();
    patch(&console, &letter, Some(&revision), &json!({"set": ["payload.customer=8"]})).await.problem(412);
    patch(&console, &new, Some(&revision), &json!({"set": ["payload.customer=8"]})).await.problem(412);
    patch(&console, &letter, None, &json!({"set": ["payload.customer=8"]})).await.problem(404);
    let found = console.get(&format!("{PATH}?where=payload.customer%3D7&header=tenant%3D9")).await.ok(200);
    assert_eq!(values(&found, "letter"), std::slice::from_ref(&new));
    for (body, at) in [
        (json!({}), "body"),
        (json!({"type": "A"}), "/type"),
        (json!({"set": ["payload.a=1", "oops"]}), "/set/1"),
        (json!({"fields": {"id": "x"}}), "/fields/id"),
    ] {
        assert_eq!(patch(&console, &new, None, &body).await.wrong(422), at, "{body}");
    }
    patch(&console, &new, None, &json!({"set": ["payload.customer=7"]})).await.problem(409);
    patch(&console, "9-9", None, &json!({"set": ["payload.a=1"]})).await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_replayed_or_dropped_once() {
    let server = RedisServer::start();
    let console = with_letters(&server, 2).await;
    let letters = values(&console.get(PATH).await.ok(200), "letter");
    let replayed =
        console.post(&format!("{PATH}/{}/replay", letters[0]), &json!({"reason": "again"})).await.ok(200);
    assert_eq!((&replayed["replayed"], &replayed["dropped"]), (&json!(1), &json!(0)));
    console.post(&format!("{PATH}/{}/replay", letters[0]), &json!({})).await.problem(404);
    let dropped = console.post(&format!("{PATH}/{}/drop", letters[1]), &json!({})).await.ok(200);
    assert_eq!((&dropped["replayed"], &dropped["dropped"]), (&json!(0), &json!(1)));
    console.post(&format!("{PATH}/{}/drop", letters[1]), &json!({})).await.problem(404);
    let wrong = console.post(&format!("{PATH}/{}/replay?steps=some", letters[0]), &json!({})).await;
    assert_eq!(wrong.wrong(422), "query.steps");
    let queue = console.get("queues/default").await.ok(200);
    assert_eq!((&queue["waiting"], &queue["dead"]), (&json!(1), &json!(0)));
    let audit = console.get("queues/default/audit").await.ok(200);
    assert_eq!(values(&audit, "what"), ["dead drop", "dead replay"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_exported_as_lines() {
    let server = RedisServer::start();
    let console = with_letters(&server, 3).await;
    let all = console.get(&format!("{PATH}/export?all=true")).await;
    assert_eq!((all.status, all.header("content-type")), (200, Some("application/x-ndjson")), "{all:?}");
    let lines: Vec<Value> = all.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed = console.get(&format!("{PATH}?oldest_first=true")).await.ok(200);
    let letters: Vec<&str> = lines.iter().map(|line| line["letter"].as_str().unwrap()).collect();
    assert_eq!(letters, values(&listed, "letter"));
    for line in &lines {
        let shown = console.get(&format!("{PATH}/{}", line["letter"].as_str().unwrap())).await.ok(200);
        assert_eq!(line, &shown);
    }
    let some = console.get(&format!("{PATH}/export?where=payload.customer%3D2")).await;
    assert_eq!(some.text.lines().count(), 1, "{some:?}");
    assert_eq!(console.get(&format!("{PATH}/export")).await.wrong(422), "query");
    console.get("queues/nowhere/dead/export?all=true").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_planned_begun_and_stopped() {
    let server = RedisServer::start();
    let console = with_letters(&server, 3).await;
    let (path, tasks) = ("queues/default/bulk/replay", "queues/default/tasks");
    let plan = console.post(path, &json!({"filter": {"reason": "fatal"}, "dry_run": true})).await.ok(200);
    assert_eq!((&plan["planned"], &plan["total"]), (&json!(3), &json!(3)));
    assert_eq!(plan["groups"][0]["count"], 3);
    let body = json!({"all": true, "rate": 0.01, "canary": 1, "stop_at": 5, "reason": "the account is back"});
    let begun = console.post(path, &body).await.ok(202);
    assert_eq!((&begun["planned"], &begun["kind"]), (&json!(3), &json!("replay")));
    let id = begun["id"].as_str().unwrap();
    let task = console.get(&format!("{tasks}/{id}")).await.ok(200);
    assert_eq!((&task["who"], &task["rate"]), (&json!("admin"), &json!(0.01)));
    assert_eq!((&task["reason"], &task["canary"]), (&json!("the account is back"), &json!(1)));
    assert_eq!(values(&console.get(tasks).await.ok(200), "id"), [id]);
    for (action, status, state) in
        [("pause", 200, "paused"), ("resume", 202, "canary"), ("stop", 200, "stopped")]
    {
        let changed = console.post(&format!("{tasks}/{id}/{action}"), &json!({"reason": "a test"})).await;
        assert_eq!(changed.ok(status)["state"], state, "{action}");
    }
    for action in ["resume", "undo"] {
        console.post(&format!("{tasks}/{id}/{action}"), &json!({})).await.problem(409);
    }
    console.get(&format!("{tasks}/nothing")).await.problem(404);
    console.post(&format!("{tasks}/nothing/stop"), &json!({})).await.problem(404);
    for (body, at) in [
        (json!({}), "/filter"),
        (json!({"filter": {"reason": "bored"}}), "/filter/reason"),
        (json!({"all": true, "rate": 0}), "/rate"),
        (json!({"all": true, "rate": "50"}), "/rate"),
        (json!({"all": true, "rate": true}), "/rate"),
        (json!({"all": true, "limit": 0}), "/limit"),
        (json!({"all": true, "steps": "some"}), "/steps"),
        (json!({"all": true, "stop_at": 101}), "/stop_at"),
        (json!({"all": true, "max_replays": 0}), "/max_replays"),
        (json!({"all": true, "canary": -1}), "/canary"),
    ] {
        assert_eq!(console.post(path, &body).await.wrong(422), at, "{body}");
    }
    let none = json!({"filter": {"type": "other"}});
    console.post(path, &none).await.problem(409);
    console.post("queues/default/bulk/drop", &none).await.problem(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_carries_on_a_replay_that_it_begins_or_resumes_without_a_worker() {
    let server = RedisServer::start();
    let console = with_letters(&server, 3).await;
    let left = async || console.get(PATH).await.ok(200)["total"].as_u64().unwrap();
    let oldest = json!({"all": true, "limit": 1, "rate": "300/m"});
    let begun = console.post("queues/default/bulk/replay", &oldest).await.ok(202);
    assert_eq!((&begun["rate"], &begun["planned"]), (&json!(5.0), &json!(1)));
    until_async("one letter to be replayed", SOON, async || left().await == 2).await;
    let detached = cli::json(&server, &["dead", "replay", "--all", "--yes", "--detach"]);
    let task = format!("queues/default/tasks/{}", detached["id"].as_str().unwrap());
    let shown = console.get(&task).await.ok(200);
    assert!(shown["hint"].as_str().unwrap().starts_with("no worker of the queue default is up"), "{shown}");
    console.post(&format!("{task}/pause"), &json!({})).await.ok(200);
    console.post(&format!("{task}/resume"), &json!({})).await.ok(202);
    until_async("all letters to be replayed", SOON, async || left().await == 0).await;
    let shown = console.get(&task).await.ok(200);
    assert_eq!((&shown["replayed"], &shown["running"], shown.get("hint")), (&json!(2), &json!(2), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_edits_of_a_letter_are_taken_back() {
    let server = RedisServer::start();
    let console = with_letters(&server, 1).await;
    let newest = async || values(&console.get(PATH).await.ok(200), "letter").remove(0);
    let payload = async || {
        let shown = console.get(&format!("{PATH}/{}", newest().await)).await.ok(200);
        let fields = shown["fields"].as_array().unwrap().clone();
        fields.into_iter().find(|field| field["name"] == "payload").unwrap()["value"].take()
    };
    let first = payload().await;
    let undo = json!({"undo": true, "reason": "the wrong customer"});
    patch(&console, &newest().await, None, &undo).await.problem(409);
    for customer in [7, 8] {
        let edit = json!({"payload": {"customer": customer}});
        patch(&console, &newest().await, None, &edit).await.ok(200);
    }
    assert_ne!(payload().await, first);
    patch(&console, &newest().await, None, &undo).await.ok(200);
    assert_eq!(payload().await, first);
    let both = json!({"undo": true, "set": ["payload.customer=9"]});
    assert_eq!(patch(&console, &newest().await, None, &both).await.wrong(422), "/undo");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_letters_that_a_filter_matches_are_dropped() {
    let server = RedisServer::start();
    let console = with_letters(&server, 3).await;
    let path = "queues/default/bulk/drop";
    let some = json!({"filter": {"where": ["payload.customer=2"]}, "dry_run": true});
    assert_eq!(console.post(path, &some).await.ok(200)["planned"], 1);
    let some = json!({"filter": {"where": ["payload.customer=2"]}, "reason": "a typo"});
    assert_eq!(console.ended(&console.post(path, &some).await).await["done"], 1);
    let all = console.ended(&console.post(path, &json!({"all": true})).await).await;
    assert_eq!((&all["done"], &all["kind"]), (&json!(2), &json!("drop")));
    assert_eq!(console.get(PATH).await.ok(200)["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_drops_all_letters_of_a_queue() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    server.cmd(&["XADD", "sf:{mail}:dead", "*", "id", "d-1", "type", "test", "dead_reason", "fatal"]);
    let drop_as = async |token: &str, wanted: &Value| {
        send(console.ask_as(token, Method::POST, "queues/mail/bulk/drop").json(wanted)).await
    };
    let (all, some) = (json!({"all": true}), json!({"filter": {"type": "test"}, "dry_run": true}));
    drop_as("viewer", &some).await.problem(403);
    assert_eq!(drop_as("limited", &some).await.ok(200)["planned"], 1);
    drop_as("limited", &all).await.problem(403);
    assert_eq!(console.get("queues/mail/dead").await.ok(200)["total"], 1);
    assert_eq!(console.ended(&drop_as("admin", &all).await).await["done"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_whose_record_redis_refuses_does_not_keep_others_from_being_dropped() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for nth in 2..5 {
        let (entry, id) = (format!("170000000000{nth}-0"), format!("d-{nth}"));
        server.cmd(&["XADD", "sf:{mail}:dead", &entry, "id", &id, "type", "test", "dead_reason", "fatal"]);
    }
    // The script deletes the letter, and then stumbles over the last of these fields.
    let fields = ["state", "dead", "dead_id", "1700000000003-0", "holds", "x"];
    server.cmd(&[&["HSET", "sf:{mail}:job:d-3"], &fields[..]].concat());
    let begun = console.post("queues/mail/bulk/drop", &json!({"filter": {"type": "test"}})).await;
    let task = console.ended(&begun).await;
    assert_eq!((&task["done"], &task["left"]), (&json!(3), &json!(0)), "{task}");
}
