//! What a producer may write into a job never becomes part of a page.

use streamfleet::JobError;
use streamfleet::job::State;

use super::every::faults;
use super::scene::{letter, server};
use crate::console::browser::{Browser, Page};
use crate::console::trouble::GROUP;
use harness::desk::{json, sf};
use harness::fleet::{Acts, Running, queue, quick, until_state};
use harness::redis_server::RedisServer;

/// Closes whatever it is in, and runs a script.
const HOSTILE: &str = "\"'></textarea></script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;";

#[test]
fn a_hostile_job_appears_as_it_is_and_changes_no_page() {
    let server = server();
    let id = "\"><svg/onload=alert(3)>";
    let waiting = ["type", HOSTILE, "payload", HOSTILE, "id", id, "h.x\"><b>", HOSTILE, "encoding", "raw"];
    server.cmd(&[&["XADD", "sf:{mail}:jobs", "*"], &waiting[..]].concat());
    let fields = [
        ("id", "\"><i>dead</i>"),
        ("type", HOSTILE),
        ("payload", HOSTILE),
        ("h.x", HOSTILE),
        ("encoding", "raw"),
    ];
    letter(&server, "1700000000001-0", &fields);
    let reason = ["pause", "--queue", "mail", "--type", "other", "--reason", HOSTILE, "--by", HOSTILE];
    assert_eq!(sf(&server, &reason).code, Some(0));
    let mut browser = Browser::open(&server);
    let job = format!("/queues/mail/jobs/{}", "%22%3E%3Csvg%2Fonload%3Dalert%283%29%3E");
    let letter = "/queues/mail/dead/1700000000001-0".to_owned();
    let mut paths = vec![job.clone(), letter.clone()];
    paths.extend(["tab=headers", "form=text", "form=hex", "form=json"].map(|query| format!("{job}?{query}")));
    paths.extend(["/edit", "/drop"].map(|end| format!("{letter}{end}")));
    paths.extend(
        [
            "/",
            "/queues/mail",
            "/queues/mail?tab=dead",
            "/queues/mail/dead?letters=all",
            "/jobs?state=dead",
            "/gates",
            "/audit",
        ]
        .map(str::to_owned),
    );
    paths.push(format!("/jobs?text={}", "%22%3E%3Cscript%3Ealert%284%29%3C%2Fscript%3E"));
    for path in paths {
        assert_harmless(&browser.get(&path));
    }
    let text = browser.get(&format!("{job}?form=text")).text("#body");
    assert_eq!(text, HOSTILE);
    let edit = browser.get(&format!("{letter}/edit")).text("textarea");
    assert_eq!(edit.trim_start_matches('\n'), HOSTILE);
}

/// What is hostile in other ways: a change of the writing direction, control characters, and what ends a line.
const WILD: &str = "\u{202e}gro.live\u{7}\u{1b}[31m\u{85}\u{2028}{{7*7}}%0d%0a";

/// Both.
fn text() -> String {
    format!("{HOSTILE}{WILD}")
}

/// Asserts that a page is well formed, and that nothing on it is made of hostile text.
fn assert_harmless(page: &Page) {
    assert_eq!(page.status, 200, "{}: {}", page.path, page.text("main"));
    assert_eq!(faults(page), Vec::<String>::new(), "{}", page.path);
    let planted = "main script, main img, main b, main i, main svg[onload], [onerror], [onload]";
    let planted = page.attributes(planted, "class");
    assert!(planted.is_empty() && !page.body.contains("<script>"), "{}: {planted:?}", page.path);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_handlers_write_appears_as_it_is_and_changes_no_page() {
    let server = RedisServer::start();
    let handler = Acts::new(|context, payload| {
        context.log(&text());
        context.progress(40, &text());
        if payload == b"\"fail\"" { Err(JobError::retry(text())) } else { Ok(text().into()) }
    });
    let fleet = Running::start(&server.url(), quick(2), handler);
    let queue = queue(&server).await;
    for (id, payload, state) in [("well", "\"well\"", State::Done), ("ill", "\"fail\"", State::Dead)] {
        let done = sf(&server, &["enqueue", "test", payload, "--id", id, "--track"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        until_state(&queue, &id.parse().unwrap(), state).await;
    }
    fleet.stop().await;
    let letters = json(&server, &["dead", "list"]);
    let letter = format!("/queues/default/dead/{}", letters["items"][0]["letter"].as_str().unwrap());
    let mut browser = Browser::open(&server);
    for path in [
        "/queues/default/jobs/well",
        "/queues/default/jobs/well?tab=result",
        "/queues/default/jobs/well?tab=result&form=text",
        "/queues/default/jobs/well?tab=result&form=hex",
        "/queues/default/jobs/ill",
        "/queues/default/dead",
        "/queues/default/dead?letters=all",
        "/queues/default?tab=dead",
        "/jobs?state=dead",
        "/jobs?state=done",
        &*letter,
        &*format!("{letter}/edit"),
        &*format!("{letter}/replay"),
        &*format!("{letter}/drop"),
    ] {
        assert_harmless(&browser.get(path));
    }
    // Each is there, and the text is whole.
    let (well, ill) = (browser.get("/queues/default/jobs/well"), browser.get("/queues/default/jobs/ill"));
    let shown = [
        well.text("#log"),
        well.text("#now label"),
        ill.text("#now pre"),
        ill.text("#attempts"),
        browser.get(&letter).text("main pre"),
    ];
    for shown in shown {
        assert!(shown.contains(HOSTILE) && shown.contains("{{7*7}}%0d%0a"), "{shown:?}");
    }
}

#[test]
fn names_that_others_chose_appear_as_they_are_and_change_no_page() {
    let (server, text) = (server(), text());
    // A worker that is gone holds a job; another one is known by nothing but its name.
    let lane = "sf:{mail}:jobs";
    server.cmd(&["XGROUP", "CREATE", lane, "fleet", "0"]);
    server.cmd(&["XREADGROUP", "GROUP", "fleet", &text, "COUNT", "1", "STREAMS", lane, ">"]);
    // A value that is a gate, with a job in its room.
    let gate = format!("key:h.tenant={HOSTILE}");
    let room = format!("sf:{{mail}}:room:{gate}");
    server.cmd(&["XADD", &room, "1700000000000-0", "type", "mail.send", "id", "g-1", "h.tenant", HOSTILE]);
    server.cmd(&["HSET", "sf:{mail}:rooms", &gate, "1700000000000"]);
    server.cmd(&["HSET", "sf:{mail}:rooms:places", "g-1", &format!("1700000000000-0 {gate}")]);
    let paused =
        ["pause", "--queue", "mail", "--key", &gate["key:".len()..], "--reason", &text, "--by", &text];
    assert_eq!(sf(&server, &paused).code, Some(0));
    // A campaign whose filter and reason are hostile.
    let filter = ["--where", &format!("payload.customer={HOSTILE}")];
    let payload = serde_json::json!({ "customer": HOSTILE }).to_string();
    letter(&server, "1700000000001-0", &[("id", "c-1"), ("type", "mail.send"), ("payload", &payload)]);
    let replay =
        ["dead", "replay", "--queue", "mail", "--rate", "1/h", "--yes", "--reason", &text, "--by", &text];
    let begun = sf(&server, &[&replay[..], &["--detach"], &filter].concat());
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let campaigns = json(&server, &["campaigns", "list", "--queue", "mail"]);
    let campaign = format!("/queues/mail/campaigns/{}", campaigns["items"][0]["id"].as_str().unwrap());
    put_hostile_incident(&server, &text);
    let mut browser = Browser::open(&server);
    for path in [
        "/",
        "/queues/mail",
        "/queues/mail?tab=waiting",
        "/queues/mail/jobs/g-1",
        "/running",
        "/workers",
        "/gates",
        "/gates?queue=mail",
        "/campaigns",
        "/queues/mail/campaigns",
        &*campaign,
        &*format!("{campaign}/pause"),
        "/audit",
        "/incidents",
        &*format!("/incidents/{GROUP}"),
        &*format!("/incidents/{GROUP}/ack"),
    ] {
        assert_harmless(&browser.get(path));
    }
    for (path, part) in [
        ("/workers", "main"),
        ("/gates", "main"),
        ("/queues/mail/jobs/g-1", "#facts"),
        (&*campaign, "main"),
        ("/incidents", "#list"),
        ("/audit", "#list"),
    ] {
        assert!(browser.get(path).text(part).contains(HOSTILE), "{path}: {}", browser.get(path).text(part));
    }
    // Each link that has the name of a gate in it leads to the form for this gate.
    let links = browser.get("/gates?queue=mail").attributes("main a[href*='gate=']", "href");
    assert!(links.iter().any(|link| link.contains("h.tenant")), "{links:?}");
    for link in links {
        assert_harmless(&browser.get(&link));
    }
}

/// Writes an open incident whose texts are all hostile.
fn put_hostile_incident(server: &RedisServer, text: &str) {
    let incident = serde_json::json!({
        "id": GROUP, "kind": "dead_group", "queue": "mail", "key": text, "type": text, "detail": text, "state": "open", "count": 3,
        "since_ms": 1_700_000_000_000_u64, "seen_ms": 1_700_000_000_000_u64, "example": {"job": text, "error": text},
    });
    server.cmd(&["HSET", "sf:alerts:{alerts}:open", GROUP, &incident.to_string()]);
}

#[test]
fn an_error_keeps_its_line_breaks() {
    let server = server();
    let mut browser = Browser::open(&server);
    let page = browser.get(&format!("/queues/mail/dead/{}", super::scene::LETTER));
    assert_eq!(page.text("main pre").lines().next(), Some("connection refused"));
    assert!(page.text("main pre").contains("connection refused\nby 10.0.0.7"));
}
