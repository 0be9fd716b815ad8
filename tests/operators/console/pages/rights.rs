//! What those with more rights may do and see, and others may not.

use std::path::Path;

use super::scene::{letter, server};
use crate::console::client::{Answer, Console, tokens};
use crate::console::trouble::incidents;
use harness::desk::{json, sf};
use harness::redis_server::RedisServer;

fn console(server: &RedisServer, folder: &Path) -> Console {
    console_with(server, folder, "")
}

/// Starts a console with further keys of the section `[console]`.
fn console_with(server: &RedisServer, folder: &Path, keys: &str) -> Console {
    Console::start(server, &format!("{}{keys}", tokens(folder)))
}

/// Returns a list with all its pages: a page of a slow machine ends early and leads to the next.
fn get_all(console: &Console, role: &str, path: &str) -> String {
    let (mut all, mut path) = (String::new(), path.to_owned());
    loop {
        let body = console.get_as(role, &path).body;
        let next = body.split_once("\">Next page</a>").and_then(|(before, _)| before.rsplit_once("href=\""));
        let next = next.map(|(_, link)| link.replace("&#38;", "&"));
        all.push_str(&body);
        match next {
            Some(next) => path = next,
            None => return all,
        }
    }
}

fn post(console: &Console, role: &str, path: &str) -> Answer {
    console.post(path, &[("Authorization", &format!("Bearer {role}"))], "queue=mail&reason=a+test")
}

#[test]
fn only_an_admin_drops_all_letters_of_a_queue() {
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    let console = console(&server, folder.path());
    let total = || json(&server, &["dead", "list", "--queue", "mail"])["total"].clone();
    let (all, some) = ("/queues/mail/dead-drop", "/queues/mail/dead-drop?type=mail.send");
    let offers = |role: &str, query: &str| {
        let page = console.get_as(role, &format!("/queues/mail/dead{query}"));
        assert_eq!(page.status, 200, "{page:?}");
        page.body.contains("/dead-drop")
    };
    assert!(!offers("operator", "") && !offers("operator", "?letters=all"));
    assert!(offers("operator", "?type=mail.send") && offers("admin", ""));
    for (role, path, status) in [("operator", all, 403), ("operator", some, 200), ("admin", all, 200)] {
        assert_eq!(console.get_as(role, path).status, status, "{role}: {path}");
    }
    assert_eq!((post(&console, "operator", all).status, total()), (403, 1.into()));
    assert_eq!((post(&console, "operator", some).status, total()), (303, 0.into()));
    assert_eq!(post(&console, "admin", all).status, 303);
}

#[test]
fn the_gate_of_a_job_tells_no_header_to_those_who_see_no_payloads() {
    const ROOM: &str = "key:h.email=ann@example.com";
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    let stream = format!("sf:{{mail}}:room:{ROOM}");
    server.cmd(&["XADD", &stream, "1700000000000-0", "type", "mail.send", "id", "g-1"]);
    server.cmd(&["HSET", "sf:{mail}:rooms", ROOM, "1700000000000"]);
    server.cmd(&["HSET", "sf:{mail}:rooms:places", "g-1", &format!("1700000000000-0 {ROOM}")]);
    let console = console(&server, folder.path());
    for path in ["/queues/mail?tab=waiting", "/jobs", "/queues/mail/jobs/g-1"] {
        let shown = |role: &str| get_all(&console, role, path);
        let (viewer, operator) = (shown("viewer"), shown("operator"));
        assert!(
            viewer.contains("key:h.email=***") && !viewer.contains("ann@example.com"),
            "{path}: {viewer}"
        );
        assert!(operator.contains(ROOM), "{path}: {operator}");
    }
}

#[test]
fn lists_have_nothing_of_queues_that_somebody_may_not_see() {
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    // What the scene has in the queue `mail`, a queue of others has, too.
    for args in [
        &["enqueue", "mail.send", "{}", "--id", "o-1"][..],
        &["enqueue", "mail.send", "{}", "--id", "o-2", "--delay", "1h"],
        &["pause", "--type", "report"],
        &["cron", "add", "report.nightly", "--schedule", "0 3 * * *", "--type", "report"],
    ] {
        let done = sf(&server, &[args, &["--queue", "other"]].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    letter(&server, "1700000000009-0", &[("id", "d-9"), ("type", "mail.send"), ("payload", "{}")]);
    for queue in ["mail", "other"] {
        let fields =
            ["dead_reason", "needs_decision", "dead_at_ms", "1700000000000", "type", "pay", "id", "p-1"];
        server.cmd(&[&["XADD", &*format!("sf:{{{queue}}}:dead"), "1700000000010-0"], &fields[..]].concat());
        let replay = ["dead", "replay", "--queue", queue, "--type", "pay", "--rate", "1/h", "--yes"];
        assert_eq!(sf(&server, &[&replay[..], &["--detach"]].concat()).code, Some(0));
        let lane = format!("sf:{{{queue}}}:jobs");
        server.cmd(&["XGROUP", "CREATE", &lane, "fleet", "0"]);
        server.cmd(&["XREADGROUP", "GROUP", "fleet", "gone-1", "COUNT", "1", "STREAMS", &lane, ">"]);
    }
    incidents(&server);
    let console = console(&server, folder.path());
    for path in [
        "/",
        "/jobs",
        "/jobs?state=dead",
        "/jobs?state=scheduled",
        "/running",
        "/decisions",
        "/campaigns",
        "/incidents",
        "/gates",
        "/recurring",
        "/workers",
        "/audit",
    ] {
        let (all, own) = (get_all(&console, "admin", path), get_all(&console, "limited", path));
        let queue = |name: &str| format!(">{name}<");
        let names =
            |body: &str, name: &str| body.contains(&format!("/queues/{name}")) || body.contains(&queue(name));
        assert!(names(&all, "other") && names(&all, "mail"), "{path}: {all}");
        assert!(names(&own, "mail"), "{path}: {own}");
        assert!(!names(&own, "other") && !own.contains("queue=other"), "{path}: {own}");
    }
    for path in ["/queues/other", "/queues/other/dead", "/queues/other/jobs/o-1", "/queues/other/campaigns"] {
        assert_eq!(console.get_as("limited", path).status, 403, "{path}");
    }
    let incident = crate::console::trouble::OTHER;
    assert_ne!(console.get_as("limited", &format!("/incidents/{incident}")).status, 200);
}

#[test]
fn a_value_that_waits_for_a_gate_is_shown_to_those_who_see_payloads_only() {
    const ROOM: &str = "key:h.email=ann@example.com";
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    server.cmd(&["HSET", "sf:{mail}:gates", "r:key:h.email", r#"{"concurrency":1}"#]);
    server.cmd(&["XADD", &format!("sf:{{mail}}:room:{ROOM}"), "*", "type", "mail.send", "id", "g-1"]);
    server.cmd(&["HSET", "sf:{mail}:rooms", ROOM, "1700000000000"]);
    let masked = "mask = [\"email\"]\n";
    for (mask, operator_sees) in [("", true), (masked, false)] {
        let console = console_with(&server, folder.path(), mask);
        for path in ["/gates?queue=mail", "/queues/mail", "/api/v1/queues/mail/gates"] {
            for (role, sees) in [("viewer", false), ("operator", operator_sees)] {
                let shown = console.get_as(role, path).body;
                let secret = if sees { ROOM } else { "key:h.email=***" };
                assert!(shown.contains(secret), "{role} {mask} {path}: {shown}");
                assert!(sees || !shown.contains("ann@example.com"), "{role} {mask} {path}: {shown}");
            }
        }
    }
}

#[test]
fn no_page_has_a_masked_value_in_a_link_or_a_reason() {
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    server.cmd(&["HSET", "sf:{mail}:gates", "r:key:h.email=bob@example.com", r#"{"concurrency":1}"#]);
    let (key, reason) = ("h.email=ann@example.com", "told by email=ann@example.com");
    let paused = sf(&server, &["pause", "--queue", "mail", "--key", key, "--reason", reason]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    for (mask, is_shown) in [("", true), ("mask = [\"email\"]\n", false)] {
        let console = console_with(&server, folder.path(), mask);
        for path in ["/", "/gates", "/queues/mail", "/audit"] {
            let page = get_all(&console, "operator", path);
            assert!(page.contains("told by email="), "{path}: {page}");
            // In an address, the sign is escaped.
            let has_value = ["ann@example.com", "ann%40example.com", "bob@example.com", "bob%40example.com"]
                .iter()
                .any(|value| page.contains(value));
            assert_eq!(has_value, is_shown, "{path}: {page}");
        }
    }
}
