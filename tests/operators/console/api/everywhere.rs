//! What all queues have: lists, what needs a person, and what helps to find something.

use std::time::Instant;

use futures_util::future::join_all;
use hyper::Method;
use serde_json::{Value, json};

use super::client::{Console, SOON, send, values};
use super::events::Listener;
use crate::console::trouble::{GROUP, MEMORY, OTHER, incidents};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// Submits a job to each of two queues, and waits until the console knows of them.
async fn submit_to_both(console: &Console) {
    for queue in ["mail", "other"] {
        console.submit(queue, &json!({"type": "test", "id": "order-1"})).await;
    }
    until_async("both queues to be known", SOON, async || {
        values(&console.get("queues").await.ok(200), "queue") == ["mail", "other"]
    })
    .await;
}

/// Buries a job in a queue. Returns its dead letter.
fn bury(server: &RedisServer, queue: &str, id: &str, reason: &str) -> String {
    let key = format!("sf:{{{queue}}}:dead");
    let letter = ["XADD", &key, "*", "id", id, "type", "test", "dead_reason", reason, "dead_error", "no ann"];
    redis::from_redis_value(server.cmd(&letter)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_over_all_queues_have_those_that_somebody_may_see() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let nightly = json!({"schedule": "0 3 * * *", "timezone": "UTC", "type": "test"});
    submit_to_both(&console).await;
    for queue in ["mail", "other"] {
        console.put(&format!("queues/{queue}/cron/nightly"), &nightly).await.ok(200);
        console.put(&format!("queues/{queue}/gates/type:test"), &json!({"concurrency": 1})).await.ok(200);
        let change = json!({"filter": {"type": "test"}, "state": ["waiting"], "reason": "a test"});
        let begun = console.post(&format!("queues/{queue}/bulk/cancel"), &change).await;
        console.ended(&begun).await;
    }
    for path in ["tasks", "gates", "cron", "stats"] {
        let all = console.get(path).await.ok(200);
        let mut queues = values(&all, "queue");
        queues.sort();
        assert_eq!(
            (queues, &all["unread"]),
            (vec!["mail".to_owned(), "other".to_owned()], &json!([])),
            "{path}"
        );
        let limited = send(console.ask_as("limited", Method::GET, path)).await.ok(200);
        assert_eq!(values(&limited, "queue"), ["mail"], "{path}");
        let unknown = console.get(&format!("{path}?queue=nosuch")).await.problem(404);
        assert_eq!(unknown["detail"], "there is no queue nosuch", "{path}");
        let hidden = format!("{path}?queue=other");
        send(console.ask_as("limited", Method::GET, &hidden)).await.problem(403);
        let first = console.get(&format!("{path}?limit=1")).await.ok(200);
        let next = first["next"].as_str().unwrap_or_else(|| panic!("{path}: {first}"));
        let rest = console.get(&format!("{path}?limit=1&after={next}")).await.ok(200);
        assert_eq!((values(&rest, "queue").len(), &rest["next"]), (1, &Value::Null), "{path}");
        assert_ne!(first["items"], rest["items"], "{path}");
        for after in ["x", "10001"] {
            assert_eq!(console.get(&format!("{path}?after={after}")).await.wrong(422), "query.after");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_for_a_decision_are_listed_with_what_died() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    submit_to_both(&console).await;
    let waits = bury(&server, "mail", "order-7", "needs_decision");
    bury(&server, "mail", "order-8", "fatal");
    bury(&server, "other", "order-9", "needs_decision");
    let all = console.get("decisions").await.ok(200);
    assert_eq!(values(&all, "id"), ["order-7", "order-9"], "the oldest comes first");
    assert_eq!((&all["items"][0]["letter"], &all["items"][0]["queue"]), (&json!(waits), &json!("mail")));
    assert_eq!(all["items"][0]["error"], "no ann");
    let limited = send(console.ask_as("limited", Method::GET, "decisions")).await.ok(200);
    assert_eq!(values(&limited, "id"), ["order-7"]);
    let viewer = send(console.ask_as("viewer", Method::GET, "decisions")).await.ok(200);
    assert_eq!(viewer["items"][0]["error"], "***", "errors may contain payloads");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_has_a_code_and_its_values() {
    let server = RedisServer::start();
    incidents(&server);
    let console = Console::start(&server).await;
    submit_to_both(&console).await;
    let pause = json!({"type": "mail.send", "reason": "the relay is down"});
    console.post("queues/mail/pause", &pause).await.ok(200);
    console.post("queues/mail/pause", &json!({"key": "h.tenant=acme"})).await.ok(200);
    let listed = async |token: &str, query: &str| {
        send(console.ask_as(token, Method::GET, &format!("needs{query}"))).await.ok(200)
    };
    // What was read before the pause is used for a moment.
    let needs = until_async("the pauses to be known", SOON, async || {
        let needs = listed("admin", "").await;
        let codes = values(&needs, "code");
        (codes.iter().filter(|code| *code == "gate_paused").count() == 2).then_some(needs)
    })
    .await;
    let items = needs["items"].as_array().unwrap();
    let of = |code: &str| items.iter().filter(|need| need["code"] == code).collect::<Vec<_>>();
    let known: Vec<&Value> = of("incident").iter().map(|need| &need["params"]["incident"]).collect();
    assert_eq!(known, [GROUP, OTHER, MEMORY]);
    assert_eq!(of("no_leader").len(), 2, "nobody does the maintenance: {needs}");
    let paused = of("gate_paused");
    let paused = paused.iter().find(|need| need["params"]["gate"] == "type:mail.send").unwrap();
    assert_eq!(
        (&paused["queue"], &paused["params"]["by"], &paused["params"]["reason"]),
        (&json!("mail"), &json!("admin"), &json!("the relay is down"))
    );
    let other = listed("admin", "?queue=other").await;
    assert!(values(&other, "queue").iter().all(|queue| queue == "other"), "{other}");
    let limited = listed("limited", "").await;
    assert!(values(&limited, "queue").iter().all(|queue| queue == "mail"), "{limited}");
    send(console.ask_as("limited", Method::GET, "needs?queue=other")).await.problem(403);
    let viewer = listed("viewer", "").await.to_string();
    assert!(
        viewer.contains("gate_paused") && !viewer.contains("acme"),
        "values of jobs are hidden: {viewer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_come_again_and_again() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    submit_to_both(&console).await;
    let mut all = Listener::start(console.ask(Method::GET, "live")).await;
    let mut limited = Listener::start(console.ask_as("limited", Method::GET, "live")).await;
    let names = |figures: &Value| -> Vec<String> {
        let queues = figures["queues"].as_array().unwrap();
        queues.iter().map(|queue| queue["queue"].as_str().unwrap().to_owned()).collect()
    };
    let first = all.next().await.data;
    assert_eq!((names(&first), &first["unread"]), (vec!["mail".to_owned(), "other".to_owned()], &json!([])));
    assert_eq!(names(&limited.next().await.data), ["mail"]);
    console.submit("mail", &json!({"type": "test"})).await;
    until_async("the new job to be counted", SOON, async || {
        let figures = all.next().await.data;
        figures["queues"][0]["waiting"] == 2
    })
    .await;
    send(console.ask_as("limited", Method::GET, "live?queue=other")).await.problem(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_ask_at_the_same_time_cost_redis_one_look() {
    const CLIENTS: usize = 30;
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("mail", &json!({"type": "test"})).await;
    console.get("needs").await.ok(200);
    let calls = || server.calls("evalsha") + server.calls("evalsha_ro");
    let before = calls();
    let once = until_async("the figures to be read again", SOON, async || {
        console.get("needs").await.ok(200);
        let asked = calls() - before;
        (asked > 0).then_some(asked)
    })
    .await;
    let (before, begun) = (calls(), Instant::now());
    join_all((0..CLIENTS).map(|_| console.get("needs"))).await;
    let asked = calls() - before;
    let looks = begun.elapsed().as_secs() + 2;
    assert!(asked <= once * looks, "{asked} calls of scripts for {CLIENTS} clients, {once} for one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_and_the_names_of_a_filter_are_found() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    submit_to_both(&console).await;
    for queue in ["mail", "other"] {
        console.put(&format!("queues/{queue}/gates/type:{queue}"), &json!({"concurrency": 1})).await.ok(200);
    }
    console.put("queues/mail/gates/key%3Ah.tenant%3Dacme", &json!({"concurrency": 1})).await.ok(200);
    let found = console.get("jobs/order-1").await.ok(200);
    assert_eq!(values(&found, "queue"), ["mail", "other"]);
    assert_eq!(
        (&found["items"][0]["state"], &found["items"][0]["type"]),
        (&json!("waiting"), &json!("test"))
    );
    let limited = send(console.ask_as("limited", Method::GET, "jobs/order-1")).await.ok(200);
    assert_eq!(values(&limited, "queue"), ["mail"]);
    assert_eq!(console.get("jobs/nothing").await.ok(200)["items"], json!([]));
    let all = console.get("suggestions").await.ok(200);
    assert_eq!(all["queues"], json!(["mail", "other"]));
    assert_eq!(all["gates"], json!(["key:h.tenant=acme", "type:mail", "type:other"]));
    let viewer = send(console.ask_as("viewer", Method::GET, "suggestions?queue=mail")).await.ok(200);
    assert_eq!(viewer["gates"], json!(["type:mail"]), "values of jobs are hidden");
    let limited = send(console.ask_as("limited", Method::GET, "suggestions")).await.ok(200);
    assert_eq!(limited["queues"], json!(["mail"]));
    let servers = console.get("servers").await.ok(200);
    assert!(servers["items"][0]["used_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{servers}");
    send(console.ask_as("viewer", Method::GET, "servers")).await.ok(200);
    send(console.ask_as("limited", Method::GET, "servers")).await.problem(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_counts_as_an_incident_is_shown_without_addresses() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    std::fs::write(&file, "https://hooks.example.com/T0/secret").unwrap();
    let section = format!(
        "[alerts]\nevery = \"1h\"\nenvironment = \"staging\"\n[alerts.sinks.ops]\nkind = \"slack\"\nurl_file = {file:?}\n"
    );
    let console = Console::start_with(&server, &section).await;
    let answer = console.get("alerts").await;
    let shown = answer.ok(200);
    assert_eq!(shown["sinks"], json!([{"name": "ops", "kind": "slack"}]));
    assert_eq!((&shown["rules"]["every_ms"], &shown["wrong"]), (&json!(3_600_000), &Value::Null));
    assert!(!answer.text.contains("hooks.example.com"), "{answer:?}");
    for other in ["viewer", "limited"] {
        send(console.ask_as(other, Method::GET, "alerts")).await.problem(403);
    }
    assert_eq!(console.get("session").await.ok(200)["environment"], "staging");
}
