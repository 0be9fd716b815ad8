//! What those with more rights may do and see, and others may not.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::scene::server;
use crate::cli::desk::json;
use crate::console::client::{Answer, Console};
use crate::harness::redis_server::RedisServer;

/// Starts a console with a token for each of these roles, which is the role's name.
fn console(server: &RedisServer, folder: &Path) -> Console {
    console_with(server, folder, "")
}

/// Does the same, with further keys of the section `[console]`.
fn console_with(server: &RedisServer, folder: &Path, keys: &str) -> Console {
    let token = |role: &str| {
        let digest = Sha256::digest(role.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[tokens.{role}]\nsha256 = \"{digest}\"\nrole = \"{role}\"\n")
    };
    let file = folder.join("accounts.toml");
    std::fs::write(&file, ["viewer", "operator", "admin"].map(token).concat()).unwrap();
    Console::start(server, &format!("[console]\naccounts_file = {file:?}\n{keys}"))
}

fn get(console: &Console, role: &str, path: &str) -> Answer {
    console.get(path, &[("Authorization", &format!("Bearer {role}"))])
}

/// Returns a list with all its pages: a page of a slow machine ends early and leads to the next.
fn get_all(console: &Console, role: &str, path: &str) -> String {
    let (mut all, mut path) = (String::new(), path.to_owned());
    loop {
        let body = get(console, role, &path).body;
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
        let page = get(&console, role, &format!("/queues/mail/dead{query}"));
        assert_eq!(page.status, 200, "{page:?}");
        page.body.contains("/dead-drop")
    };
    assert!(!offers("operator", "") && !offers("operator", "?letters=all"));
    assert!(offers("operator", "?type=mail.send") && offers("admin", ""));
    for (role, path, status) in [("operator", all, 403), ("operator", some, 200), ("admin", all, 200)] {
        assert_eq!(get(&console, role, path).status, status, "{role}: {path}");
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
                let shown = get(&console, role, path).body;
                let secret = if sees { ROOM } else { "key:h.email=***" };
                assert!(shown.contains(secret), "{role} {mask} {path}: {shown}");
                assert!(sees || !shown.contains("ann@example.com"), "{role} {mask} {path}: {shown}");
            }
        }
    }
}
