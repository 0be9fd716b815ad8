//! What answers tell of what producers, handlers and operators wrote: as it is to those who may see it, and nothing to others.

use hyper::Method;
use serde_json::json;
use streamfleet::JobError;
use streamfleet::job::State;

use super::client::{Answer, Console, SOON, send};
use crate::console::trouble::{GROUP, incidents};
use harness::cli::sf;
use harness::fleet::{Acts, Running, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// What a producer and a handler write, wherever they can.
const SECRET: &str = "ann-4711";

/// The waiting list of jobs that wait at a gate for a value of one of their headers.
const LIST: &str = "key:h.email=ann@example.com";

/// Ends whatever it is put into, runs a script, and changes the direction of what follows.
const HOSTILE: &str =
    "\"'></textarea></script><script>alert(1)</script>&amp;\u{202e}\u{7}\u{1b}[31m\u{2028}{{7*7}}%0d%0a";

fn enqueue(server: &RedisServer, id: &str, payload: &str, more: &[&str]) {
    let order = ["enqueue", "test", payload, "--id", id, "--track", "--header", "card=ann-4711"];
    let done = sf(server, &[&order[..], more].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
}

async fn get(console: &Console, token: &str, path: &str) -> Answer {
    let answer = send(console.ask_as(token, Method::GET, path)).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer
}

/// Lets a fleet run a job that succeeds and one that dies, and leaves one that is due later.
async fn run_jobs(server: &RedisServer) {
    let handler = Acts::new(|context, payload| {
        context.log(&format!("charging card: {SECRET}"));
        context.progress(40, &format!("charged card={SECRET}"));
        if payload.ends_with(b"\"dies\":true}") {
            return Err(JobError::retry(format!("no money on {{\"card\": \"{SECRET}\"}}")));
        }
        Ok(json!({"card": SECRET, "rows": 31}))
    });
    let fleet = Running::start(&server.url(), quick(2), handler);
    let payload = format!("{{\"card\":\"{SECRET}\"}}");
    enqueue(server, "well", &payload, &[]);
    enqueue(server, "ill", &format!("{{\"card\":\"{SECRET}\",\"dies\":true}}"), &[]);
    let queue = queue(server).await;
    until_state(&queue, &"well".parse().unwrap(), State::Done).await;
    until_state(&queue, &"ill".parse().unwrap(), State::Dead).await;
    fleet.stop().await;
    enqueue(server, "later", &payload, &["--delay", "1h"]);
}

/// An open incident with an example of a dead job.
fn incident() -> String {
    let incident = json!({
        "id": GROUP, "kind": "dead_group", "queue": "default", "key": "0123456789abcdef", "type": "test", "state": "open",
        "detail": "1 job died", "count": 1, "since_ms": 1_700_000_000_000_u64, "seen_ms": 1_700_000_000_000_u64,
        "example": {"job": "ill", "error": format!("no money on {SECRET}")},
    });
    incident.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_see_no_payloads_are_told_nothing_of_them_by_any_list() {
    let server = RedisServer::start();
    run_jobs(&server).await;
    incidents(&server);
    server.cmd(&["HSET", "sf:alerts:{alerts}:open", GROUP, &incident()]);
    let paused = sf(&server, &["pause", "--queue", "default", "--key", &format!("h.card={SECRET}")]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let console = Console::start(&server).await;
    let letters = console.get("queues/default/dead").await.ok(200);
    let letter = format!("queues/default/dead/{}", letters["items"][0]["letter"].as_str().unwrap());
    for path in [
        "queues/default/jobs/well",
        "queues/default/jobs/ill",
        "queues/default/jobs/later",
        &*letter,
        "queues/default/dead",
        "queues/default/dead/groups",
        "dead/groups",
        "jobs?state=dead",
        "gates",
        "audit",
        "needs",
        "incidents",
        &*format!("incidents/{GROUP}"),
    ] {
        // A search on a busy machine may end before it has found the job.
        until_async(&format!("{path} to be whole"), SOON, async || {
            get(&console, "admin", path).await.text.contains(SECRET)
        })
        .await;
        for token in ["viewer", "blind"] {
            let hidden = get(&console, token, path).await.text;
            assert!(!hidden.contains(SECRET), "{path} by {token}: {hidden}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_for_which_jobs_wait_is_told_to_those_who_see_payloads_only() {
    let server = RedisServer::start();
    enqueue(&server, "m-1", "{}", &["--queue", "mail"]);
    server.cmd(&["HSET", "sf:{mail}:gates", "r:key:h.email", r#"{"concurrency":1}"#]);
    let stream = format!("sf:{{mail}}:room:{LIST}");
    server.cmd(&["XADD", &stream, "1700000000000-0", "type", "mail.send", "id", "g-1"]);
    server.cmd(&["HSET", "sf:{mail}:rooms", LIST, "1700000000000"]);
    server.cmd(&["HSET", "sf:{mail}:rooms:places", "g-1", &format!("1700000000000-0 {LIST}")]);
    for (mask, admin_sees) in [("", true), ("mask = [\"email\"]\n", false)] {
        let console = Console::start_with(&server, mask).await;
        for path in ["queues/mail/gates", "gates", "queues/mail/jobs", "jobs"] {
            for (token, sees) in [("viewer", false), ("admin", admin_sees)] {
                let told = if sees { LIST } else { "key:h.email=***" };
                let shown = until_async(&format!("{told} in {path}"), SOON, async || {
                    let shown = get(&console, token, path).await.text;
                    shown.contains(told).then_some(shown)
                })
                .await;
                assert!(sees || !shown.contains("ann@example.com"), "{token} {mask} {path}: {shown}");
            }
        }
        let job = get(&console, "viewer", "queues/mail/jobs/g-1").await.text;
        assert!(!job.contains("ann@example.com"), "{job}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_masked_value_is_told_by_no_reason_target_or_trace() {
    let server = RedisServer::start();
    let (key, reason) = (format!("h.card={SECRET}"), format!("told by card={SECRET}"));
    let paused = sf(&server, &["pause", "--queue", "default", "--key", &key, "--reason", &reason]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let twice = format!("{{\"card\":{{\"n\":\"{SECRET}\"}},\"card\":\"***\"}}");
    let (note, trace) = (format!("card={SECRET} x"), format!("card: {SECRET}"));
    let fields = ["type", "test", "payload", &*twice, "h.note", &*note, "traceparent", &*trace];
    server.cmd(&[&["XADD", "sf:{default}:jobs", "*", "id", "waits"][..], &fields].concat());
    for (mask, is_told) in [("", true), ("mask = [\"card\"]\n", false)] {
        let console = Console::start_with(&server, mask).await;
        for path in ["gates", "audit", "queues/default/audit", "needs", "queues/default/jobs/waits"] {
            let shown = get(&console, "admin", path).await.text;
            assert_eq!(shown.contains(SECRET), is_told, "{mask} {path}: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_producer_wrote_is_told_as_it_is_and_never_as_a_document() {
    let server = RedisServer::start();
    let id = "\"><svg/onload=alert(3)>";
    let fields = ["type", "test", "payload", HOSTILE, "id", id, "h.note", HOSTILE, "encoding", "raw"];
    server.cmd(&[&["XADD", "sf:{mail}:jobs", "*"], &fields[..]].concat());
    let console = Console::start(&server).await;
    let path = "queues/mail/jobs/%22%3E%3Csvg%2Fonload%3Dalert%283%29%3E";
    let shown = get(&console, "admin", path).await;
    let job = shown.json();
    assert_eq!((&job["id"], &job["headers"]["note"]), (&json!(id), &json!(HOSTILE)));
    let payload = get(&console, "admin", &format!("{path}/payload")).await;
    assert_eq!(payload.text, HOSTILE);
    assert!(payload.header("content-disposition").unwrap().starts_with("attachment"), "{payload:?}");
    for (answer, kind) in [(shown, "application/json"), (payload, "application/octet-stream")] {
        assert_eq!(answer.header("content-type"), Some(kind));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_job_waiting_tells_nothing_of_other_queues_to_those_who_may_not_see_them() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "[queues.default]\n").await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    console.submit("mail", &json!({"type": "test", "id": "lost"})).await;
    let path = "queues/mail/jobs/lost";
    until_async("the other queue to have a worker", SOON, async || {
        get(&console, "admin", path).await.json()["unserved"] == "no live worker serves the queue mail"
    })
    .await;
    assert_eq!(get(&console, "limited", path).await.json()["unserved"], json!(null));
    fleet.stop().await;
}
