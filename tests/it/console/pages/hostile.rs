//! What a producer may write into a job never becomes part of a page.

use super::every::faults;
use super::scene::{letter, server};
use crate::console::browser::Browser;

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
    assert_eq!(crate::cli::desk::sf(&server, &reason).code, Some(0));
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
        let page = browser.get(&path);
        assert_eq!(page.status, 200, "{path}: {}", page.text("main"));
        assert_eq!(faults(&page), Vec::<String>::new(), "{path}");
        let alien =
            page.attributes("main script, main img, main b, main i, main svg[onload], [onerror]", "class");
        assert!(alien.is_empty() && !page.body.contains("<script>"), "{path}: {alien:?}");
    }
    let text = browser.get(&format!("{job}?form=text")).text("#body");
    assert_eq!(text, HOSTILE);
    let edit = browser.get(&format!("{letter}/edit")).text("textarea");
    assert_eq!(edit.trim_start_matches('\n'), HOSTILE);
}

#[test]
fn an_error_keeps_its_line_breaks() {
    let server = server();
    let mut browser = Browser::open(&server);
    let page = browser.get(&format!("/queues/mail/dead/{}", super::scene::LETTER));
    assert_eq!(page.text("main pre").lines().next(), Some("connection refused"));
    assert!(page.text("main pre").contains("connection refused\nby 10.0.0.7"));
}
