//! Finding, showing and changing jobs.

use hyper::Method;
use serde_json::{Value, json};

use super::client::{Answer, Console, SOON, send, values};
use harness::fleet::{Running, quick};
use harness::redis_server::RedisServer;
use harness::scene::Gate;
use harness::wait::until_async;

const PATH: &str = "queues/default/jobs";

#[tokio::test(flavor = "multi_thread")]
async fn pages_lead_to_every_job_once() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let mut want: Vec<String> = (0..5).map(|n| format!("job-{n}")).collect();
    for id in &want {
        console.submit("default", &json!({"type": "test", "id": id, "delay": "1h"})).await;
    }
    console.submit("mail", &json!({"type": "mail.send", "id": "letter"})).await;
    for (path, queue) in [(PATH, Some("default")), ("jobs", None)] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = console.get(&format!("{path}?limit=2{after}")).await.ok(200);
            assert!(page["items"].as_array().unwrap().len() <= 2);
            found.extend(values(&page, "id"));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={}", next.replace('/', "%2F"));
        }
        found.sort();
        if queue.is_none() {
            want.push("letter".to_owned());
        }
        assert_eq!(found, want, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_what_they_have() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for (id, customer) in [("a", 8), ("b", 9)] {
        let job =
            json!({"type": "test", "id": id, "payload": {"customer": customer}, "headers": {"tenant": id}});
        console.submit("default", &job).await;
    }
    for (query, want) in [
        ("where=payload.customer%3D9", &["b"][..]),
        ("header=tenant%3Da", &["a"]),
        ("type=te.*", &[]),
        ("type=test&id_prefix=a", &["a"]),
        ("state=waiting,dead", &["a", "b"]),
        ("state=dead", &[]),
    ] {
        let page = console.get(&format!("{PATH}?{query}")).await.ok(200);
        let mut found = values(&page, "id");
        found.sort();
        assert_eq!(found, want, "{query}");
    }
    for (query, at) in [
        ("limit=501", "query.limit"),
        ("limits=5", "query.limits"),
        ("state=bored", "query.state"),
        ("since=noon", "query.since"),
        ("where=payload.", "query"),
        ("after=x", "query.after"),
        ("after=other%2F", "query.after"),
        ("reason=bored", "query.reason"),
        ("state=waiting&reason=fatal", "query.state"),
    ] {
        assert_eq!(console.get(&format!("{PATH}?{query}")).await.wrong(422), at, "{query}");
    }
    console.get("queues/nowhere/jobs").await.problem(404);
    assert!(console.get("jobs?running=true").await.ok(200)["items"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_at_a_gate_and_of_a_worker_are_found() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.put("queues/default/gates/type:test", &json!({"concurrency": 1})).await.ok(200);
    let gate = Gate::closed();
    let fleet = Running::start(&server.url(), quick(1), gate.clone());
    for id in ["one", "two"] {
        let job = json!({"type": "test", "id": id, "payload": "wait", "encoding": "raw"});
        console.submit("default", &job).await;
    }
    let running = until_async("a job to run", SOON, async || {
        let page = console.get("jobs?running=true").await.ok(200);
        (values(&page, "id").len() == 1).then(|| page["items"][0].clone())
    })
    .await;
    let (id, worker) = (running["id"].as_str().unwrap(), running["worker"].as_str().unwrap());
    let held = until_async("the other job to wait at the gate", SOON, async || {
        let page = console.get("jobs?gate=type:test").await.ok(200);
        (values(&page, "id").len() == 1).then(|| page["items"][0].clone())
    })
    .await;
    assert_ne!(held["id"], running["id"]);
    assert_eq!(held["gate"], "type:test");
    let of = async |query: &str| values(&console.get(&format!("jobs?{query}")).await.ok(200), "id");
    assert_eq!(of(&format!("running=true&worker={worker}")).await, [id]);
    assert_eq!(of("running=true&worker=nobody").await, Vec::<String>::new());
    assert_eq!(of("gate=type:other").await, Vec::<String>::new());
    assert_eq!(console.get(&format!("jobs?worker={worker}")).await.wrong(422), "query.worker");
    assert_eq!(console.get("jobs?gate=door").await.wrong(422), "query.gate");
    assert_eq!(console.get("jobs?gate=type:test&state=dead").await.wrong(422), "query.gate");
    send(console.ask_as("viewer", Method::GET, "jobs?gate=key:h.tenant%3Dacme")).await.problem(403);
    until_async("the start to be reported", SOON, async || {
        let prospects = console.get(&format!("{PATH}/{id}/prospects")).await.ok(200);
        let started = prospects["started_ms"].as_u64();
        started.is_some_and(|started| prospects["now_ms"].as_u64() >= Some(started))
    })
    .await;
    gate.open();
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_come_in_between_is_told() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let job = json!({"type": "test", "id": "one", "timeout": "5m", "expires_in": "1h", "max_attempts": 3});
    console.submit("default", &job).await;
    let shown = console.get(&format!("{PATH}/one")).await.ok(200);
    assert_eq!(
        (&shown["terms"]["timeout_ms"], &shown["terms"]["max_attempts"], &shown["then"]),
        (&json!("300000"), &json!("3"), &Value::Null)
    );
    let prospects = async || console.get(&format!("{PATH}/one/prospects")).await.ok(200);
    let before = prospects().await;
    assert_eq!((&before["timeout_ms"], &before["paused"]), (&json!(300_000), &Value::Null));
    assert!(before["expires_at_ms"].as_u64() > before["now_ms"].as_u64(), "{before}");
    console.post("queues/default/pause", &json!({"type": "test", "reason": "a test"})).await.ok(200);
    let paused = prospects().await["paused"].clone();
    assert_eq!(
        (&paused["gate"], &paused["by"], &paused["reason"]),
        (&json!("type:test"), &json!("admin"), &json!("a test"))
    );
    console.get(&format!("{PATH}/nothing/prospects")).await.problem(404);
}

/// Asks for jobs line by line. Returns the lines.
async fn lines(console: &Console, path: &str) -> Vec<Value> {
    let answer = send(console.ask(Method::GET, path).header("accept", "application/x-ndjson")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")), "{path}");
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_how_far_it_has_looked() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for nth in 0..5 {
        console.submit("default", &json!({"type": "test", "payload": {"customer": nth}})).await;
    }
    let page = console.get(&format!("{PATH}?limit=2")).await.ok(200);
    assert_eq!((&page["looked_at"], &page["of"], &page["complete"]), (&json!(2), &json!(5), &json!(false)));
    let next = page["next"].as_str().unwrap().replace('/', "%2F");
    let rest = console.get(&format!("{PATH}?after={next}")).await.ok(200);
    assert_eq!((&rest["looked_at"], &rest["of"], &rest["complete"]), (&json!(3), &json!(5), &json!(true)));
    let none = console.get("jobs?where=payload.customer%3D7").await.ok(200);
    assert_eq!((&none["looked_at"], &none["of"], &none["complete"]), (&json!(5), &json!(5), &json!(true)));
    let ended = console.get("jobs?state=done,waiting&limit=1").await.ok(200);
    assert_eq!((&ended["of"], &ended["complete"]), (&Value::Null, &json!(false)), "nobody counts ended jobs");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_the_progress_arrive_line_by_line() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for nth in 0..6 {
        let job = json!({"type": "test", "id": format!("j-{nth}"), "payload": {"customer": nth % 2}});
        console.submit("default", &job).await;
    }
    let found = |lines: &[Value]| -> Vec<String> {
        lines.iter().filter_map(|line| Some(line["job"]["id"].as_str()?.to_owned())).collect()
    };
    let all = lines(&console, &format!("{PATH}?where=payload.customer%3D1")).await;
    assert_eq!(found(&all), ["j-1", "j-3", "j-5"]);
    let last = &all.last().unwrap()["progress"];
    let told = (&last["looked_at"], &last["of"], &last["found"], &last["complete"], &last["next"]);
    assert_eq!(told, (&json!(6), &json!(6), &json!(3), &json!(true), &Value::Null));
    let some = lines(&console, "jobs?where=payload.customer%3D1&limit=2").await;
    assert_eq!(found(&some), ["j-1", "j-3"]);
    let last = &some.last().unwrap()["progress"];
    assert_eq!((&last["found"], &last["complete"]), (&json!(2), &json!(false)));
    let next = last["next"].as_str().unwrap().replace('/', "%2F");
    let rest = lines(&console, &format!("jobs?where=payload.customer%3D1&after={next}")).await;
    assert_eq!(found(&rest), ["j-5"]);
    let refused = async |query: &str| {
        send(console.ask(Method::GET, &format!("{PATH}?{query}")).header("accept", "application/x-ndjson"))
            .await
    };
    assert_eq!(refused("running=true").await.wrong(422), "query.running");
    assert_eq!(refused("limit=501").await.wrong(422), "query.limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_shown_with_its_payload_as_it_is() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let text = r#"{"type":"test","id":"one","payload":{"z":1,"a":123456789012345678901234567890}}"#;
    let request = console.ask(Method::POST, PATH).header("content-type", "application/json").body(text);
    send(request).await.ok(201);
    let payload = console.get(&format!("{PATH}/one/payload")).await;
    assert_eq!(payload.text, r#"{"z":1,"a":123456789012345678901234567890}"#);
    assert_eq!(payload.header("content-type"), Some("application/json"));
    assert_eq!(payload.header("x-content-type-options"), Some("nosniff"));
    console.get(&format!("{PATH}/two")).await.problem(404);
    console.get(&format!("{PATH}/two/payload")).await.problem(404);
    assert_eq!(console.get(&format!("{PATH}/two%20words")).await.wrong(422), "path.id");
    console.get(&format!("{PATH}/one/result")).await.problem(409);
    console.get(&format!("{PATH}/one/steps")).await.problem(404);
}

async fn patch(console: &Console, id: &str, revision: Option<&str>, body: &Value) -> Answer {
    let request = console.ask(Method::PATCH, &format!("{PATH}/{id}")).json(body);
    send(match revision {
        Some(revision) => request.header("If-Match", revision),
        None => request,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_based_on_an_old_revision_is_refused() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("default", &json!({"type": "test", "id": "later", "delay": "1h", "payload": 1})).await;
    let path = format!("{PATH}/later");
    let first = console.get(&path).await.header("etag").unwrap().to_owned();
    let changed = patch(&console, "later", Some(&first), &json!({"delay": "2h", "payload": 2})).await.ok(200);
    assert_eq!(changed["id"], "later");
    let second = console.get(&path).await;
    assert_eq!(second.json()["payload"], 2);
    let second = second.header("etag").unwrap().to_owned();
    assert_ne!(first, second);
    for body in [json!({"payload": 3}), json!({"delay": "3h"})] {
        patch(&console, "later", Some(&first), &body).await.problem(412);
    }
    assert_eq!(console.get(&path).await.header("etag"), Some(&*second), "nothing was changed");
    patch(&console, "later", None, &json!({"at": "2100-01-01T00:00:00Z"})).await.ok(200);
    patch(&console, "later", Some("*"), &json!({"payload": "x", "encoding": "raw"})).await.ok(200);
    let job = console.get(&path).await.json();
    assert_eq!((&job["payload"], &job["encoding"]), (&json!("x"), &json!("raw")));
    for (body, at) in [
        (json!({}), "body"),
        (json!({"delay": "soon"}), "/delay"),
        (json!({"at": "noon"}), "/at"),
        (json!({"delay": "1h", "at": "2100-01-01T00:00:00Z"}), "/at"),
        (json!({"payload": {}, "encoding": "xml"}), "/encoding"),
    ] {
        assert_eq!(patch(&console, "later", None, &body).await.wrong(422), at, "{body}");
    }
    patch(&console, "never", None, &json!({"delay": "1h"})).await.problem(404);
    console.submit("default", &json!({"type": "test", "id": "now"})).await;
    patch(&console, "now", None, &json!({"delay": "1h"})).await.problem(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_made_due_and_cancelled() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("default", &json!({"type": "test", "id": "later", "delay": "1h"})).await;
    let path = format!("{PATH}/later");
    let before = console.get(&path).await.json()["due_ms"].as_u64().unwrap();
    let due = console.post(&format!("{path}/run-now"), &json!({"reason": "it is urgent"})).await.ok(200);
    assert!(due["due_ms"].as_u64().unwrap() < before, "{due}");
    let cancelled = console.post(&format!("{path}/cancel"), &json!({"reason": "withdrawn"})).await.ok(200);
    assert_eq!((&cancelled["state"], &cancelled["cancelling"]), (&json!("cancelled"), &json!(false)));
    let job = console.get(&path).await.json();
    assert_eq!((&job["state"], &job["cancelled_by"]), (&json!("cancelled"), &json!("admin")));
    // The same again changes nothing.
    console.post(&format!("{path}/cancel"), &json!({})).await.ok(200);
    console.post(&format!("{path}/run-now"), &json!({})).await.problem(409);
    console.post(&format!("{PATH}/never/cancel"), &json!({})).await.problem(404);
    assert_eq!(console.post(&format!("{path}/cancel"), &json!({"why": 1})).await.status, 422);
    let audit = console.get("queues/default/audit?limit=500").await.ok(200);
    assert_eq!(values(&audit, "what"), ["cancel", "run-now"], "only what was done is noted");
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_jobs_are_listed_page_by_page() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for (id, delay) in [("late", "2h"), ("soon", "1h")] {
        console.submit("default", &json!({"type": "test", "id": id, "delay": delay})).await;
    }
    let page = console.get("queues/default/delayed?limit=1").await.ok(200);
    assert_eq!((values(&page, "id"), &page["total"]), (vec!["soon".to_owned()], &json!(2)));
    let page = console.get(&format!("queues/default/delayed?after={}", page["next"])).await.ok(200);
    assert_eq!((values(&page, "id"), &page["next"]), (vec!["late".to_owned()], &Value::Null));
    console.get("queues/nowhere/delayed").await.problem(404);
    assert_eq!(console.get("queues/default/delayed?after=x").await.wrong(422), "query.after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_searches_for_a_job_in_a_place_as_a_request_does() {
    const ADD: &str =
        "for nth = 1, 10000 do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'id', nth .. ARGV[1]) end";
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for part in 0..4 {
        let id = format!("-{part}-{}", "x".repeat(100));
        server.cmd(&["EVAL", ADD, "1", "sf:{default}:jobs", &id]);
    }
    // Nobody reads what these find, which is more than a connection holds.
    let mut searches = Vec::new();
    for _ in 0..4 {
        let request = console.ask(Method::GET, PATH).header("accept", "application/x-ndjson");
        searches.push(request.send().await);
    }
    for path in ["queues/default/jobs/nothing", "/queues/default/jobs/nothing"] {
        assert_eq!(console.get(path).await.status, 429, "{path}");
        let other = send(console.ask_as("blind", Method::GET, path)).await;
        assert_eq!(other.status, 404, "{path}");
    }
    drop(searches);
}
