//! Letters that somebody edited are where the others of their group are, although they were written again.

use super::scene::{LETTER, server};
use crate::console::browser::Browser;
use harness::desk::sf;
use harness::redis_server::RedisServer;

/// A letter that waits for a decision.
const UNDECIDED: &str = "1700000000001-0";

fn counted(server: &RedisServer) {
    let counted = sf(server, &["dead", "groups", "--queue", "mail", "--recount"]);
    assert_eq!(counted.code, Some(0), "{counted:?}");
}

/// The address of the only group whose letters can be listed.
fn group(browser: &mut Browser) -> String {
    let links = browser.get("/queues/mail/dead").attributes("table a", "href");
    links.into_iter().find(|link| link.contains("group=")).unwrap()
}

fn edit(browser: &mut Browser, entry: &str) {
    let form = browser.get(&format!("/queues/mail/dead/{entry}/edit"));
    let page = browser.send(&form, &[("payload", r#"{"customer":1}"#), ("reason", "a test")]);
    assert!(!page.text(".message.good").is_empty(), "{}", page.text("main"));
}

#[test]
fn an_edited_letter_stays_on_the_page_of_its_group() {
    let server = server();
    counted(&server);
    let mut browser = Browser::open(&server);
    let group = group(&mut browser);
    assert!(browser.get(&group).text("tbody").contains("d-1"));
    edit(&mut browser, LETTER);
    let page = browser.get(&group);
    assert!(page.text("tbody").contains("d-1"), "{group}: {}", page.text("main"));
}

#[test]
fn an_edited_letter_still_waits_for_a_decision() {
    let server = server();
    let fields =
        ["id", "d-9", "type", "gift", "payload", "{}", "dead_reason", "needs_decision", "dead_error", "lost"];
    let more = ["dead_at_ms", "1700000000001", "dead_attempts", "1", "dead_fingerprint", "fedcba9876543210"];
    server.cmd(&[&["XADD", "sf:{mail}:dead", UNDECIDED], &fields[..], &more].concat());
    counted(&server);
    let mut browser = Browser::open(&server);
    assert!(browser.get("/decisions").text("tbody").contains("d-9"));
    edit(&mut browser, UNDECIDED);
    let page = browser.get("/decisions");
    assert!(page.text("tbody").contains("d-9"), "{}", page.text("main"));
}

#[test]
fn letters_below_many_newer_ones_are_on_the_page_of_their_group() {
    const BURY: &str = "for nth = 1, 5500 do redis.call('XADD', KEYS[1], '*', 'type', 'other', 'id', 'n-' .. nth, \
        'dead_reason', 'exhausted', 'dead_at_ms', '1800000000000', 'dead_fingerprint', 'f1') end";
    let server = server();
    counted(&server);
    let mut browser = Browser::open(&server);
    let group = group(&mut browser);
    server.cmd(&["EVAL", BURY, "1", "sf:{mail}:dead"]);
    let page = browser.get(&group);
    assert!(page.text("tbody").contains("d-1"), "{}", page.text("main"));
    assert!(page.text("main").contains("Not all newer dead letters were looked at"), "{}", page.text("main"));
}
