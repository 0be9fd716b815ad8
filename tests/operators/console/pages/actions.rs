//! Every action works through its form, asks first, and is in the audit.

use serde_json::Value;

use super::scene::{LETTER, server, state};
use crate::console::browser::{Browser, Page};
use harness::desk::{json, sf};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::wait::until;

/// Opens a form, sends it with these values and a reason, and returns the next page, which must have a good message.
fn done(browser: &mut Browser, path: &str, values: &[(&str, &str)]) -> Page {
    let form = browser.get(path);
    assert_eq!(form.status, 200, "{path}: {}", form.text("main"));
    let page = browser.send(&form, &[values, &[("reason", "because of a test")]].concat());
    assert_eq!(page.status, 200, "{path}: {}", page.text("main"));
    assert!(!page.text(".message.good").is_empty(), "{path}: {}", page.text("main"));
    page
}

/// Waits until the task is done to whose page an action has led, and returns it.
fn until_done(server: &RedisServer, page: &Page) -> Value {
    assert!(page.path.starts_with("/queues/mail/campaigns/"), "{}", page.path);
    let id = page.path.rsplit('/').next().unwrap();
    until("the task to be done", SOON, || {
        let task = json(server, &["tasks", "show", id, "--queue", "mail"]);
        (task["state"] == "done").then_some(task)
    })
}

fn audited(server: &RedisServer) -> Vec<String> {
    let audit = json(server, &["audit", "--queue", "mail"]);
    let items = audit["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["who"].as_str().is_some_and(|who| !who.is_empty())), "{items:?}");
    items.iter().map(|item| item["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_job_is_cancelled_through_its_form() {
    let server = server();
    let mut browser = Browser::open(&server);
    browser.get("/queues/mail/jobs/m-1/cancel");
    assert_eq!(state(&server, "m-1"), "waiting", "the form alone changes nothing");
    let page = done(&mut browser, "/queues/mail/jobs/m-1/cancel", &[]);
    assert_eq!(
        (state(&server, "m-1"), page.path.as_str()),
        ("cancelled".to_owned(), "/queues/mail/jobs/m-1")
    );
    assert!(browser.get(&page.path).text(".message").is_empty(), "a message is shown once");
    assert!(audited(&server).contains(&"cancel".to_owned()));
    let form = browser.get("/queues/mail/jobs/m-1/cancel");
    let again = browser.send(&form, &[("reason", "again")]);
    assert!(again.text(".message.good").contains("already"), "{}", again.text("main"));
    assert_eq!(audited(&server).iter().filter(|what| *what == "cancel").count(), 1);
}

#[test]
fn a_job_whose_id_is_dots_has_a_page_and_a_form() {
    let server = server();
    for id in [".", ".."] {
        let enqueued = sf(&server, &["enqueue", "mail.send", "--queue", "mail", "--id", id, "--track"]);
        assert_eq!(enqueued.code, Some(0), "{enqueued:?}");
    }
    let mut browser = Browser::open(&server);
    let links = browser.get("/queues/mail?tab=waiting").attributes("a", "href");
    for (id, page) in [(".", "/queues/mail/jobs/.%20"), ("..", "/queues/mail/jobs/..%20")] {
        assert!(links.iter().any(|link| link == page), "{links:?}");
        assert!(browser.get(page).attributes("a", "href").contains(&format!("{page}/cancel")));
        let after = done(&mut browser, &format!("{page}/cancel"), &[]);
        assert_eq!((state(&server, id), after.path.as_str()), ("cancelled".to_owned(), page));
    }
}

#[test]
fn a_delayed_job_is_edited_rescheduled_and_run() {
    let server = server();
    let mut browser = Browser::open(&server);
    let status = || json(&server, &["status", "r-1", "--queue", "mail"]);
    done(&mut browser, "/queues/mail/jobs/r-1/edit", &[("payload", r#"{"customer":10}"#)]);
    assert_eq!(status()["payload"]["customer"], 10);
    let before = status()["due_ms"].as_u64().unwrap();
    done(&mut browser, "/queues/mail/jobs/r-1/reschedule", &[("due", "5h")]);
    assert!(status()["due_ms"].as_u64().unwrap() > before + 3 * 3_600_000);
    done(&mut browser, "/queues/mail/jobs/r-1/run-now", &[]);
    assert!(status()["due_ms"].as_u64().is_none_or(|due| due < before));
    let what = audited(&server);
    assert_eq!(what[..3], ["run-now", "delayed edit", "delayed edit"], "{what:?}");
    let form = browser.get("/queues/mail/jobs/m-1/cancel");
    assert_eq!(form.status, 200);
}

#[test]
fn an_edit_does_not_replace_that_of_somebody_else() {
    let server = server();
    let mut browser = Browser::open(&server);
    let form = browser.get("/queues/mail/jobs/r-1/edit");
    let late = browser.get("/queues/mail/jobs/r-1/edit");
    let values = |payload| [("payload", payload), ("reason", "because of a test")];
    let first = browser.send(&form, &values(r#"{"customer":10}"#));
    assert!(!first.text(".message.good").is_empty(), "{}", first.text("main"));
    let second = browser.send(&late, &values(r#"{"customer":11}"#));
    assert!(second.text(".message.bad").contains("Somebody else changed"), "{}", second.text("main"));
    assert_eq!(json(&server, &["status", "r-1", "--queue", "mail"])["payload"]["customer"], 10);
    let edits = audited(&server).into_iter().filter(|what| what == "delayed edit");
    assert_eq!(edits.count(), 1, "only what was done is noted");
}

#[test]
fn what_comes_too_late_is_not_noted() {
    let server = server();
    let mut browser = Browser::open(&server);
    let cancel = browser.get("/queues/mail/jobs/r-1/cancel");
    let late = ["run-now", "reschedule", "edit"];
    let late = late.map(|action| browser.get(&format!("/queues/mail/jobs/r-1/{action}")));
    let reason = ("reason", "because of a test");
    browser.send(&cancel, &[reason]);
    browser.send(&cancel, &[reason]);
    for form in &late {
        let more: &[_] = if form.path.ends_with("reschedule") { &[("due", "5h")] } else { &[] };
        let page = browser.send(form, &[more, &[reason]].concat());
        assert!(!page.text(".message.bad").is_empty(), "{}: {}", form.path, page.text("main"));
    }
    let what = audited(&server);
    assert_eq!(what.iter().filter(|what| *what == "cancel").count(), 1, "{what:?}");
    assert!(!what.iter().any(|what| what.starts_with("delayed") || what == "run-now"), "{what:?}");
}

#[test]
fn a_payload_that_is_not_json_is_refused_with_its_place() {
    let server = server();
    let mut browser = Browser::open(&server);
    let form = browser.get("/queues/mail/jobs/r-1/edit");
    let page = browser.send(&form, &[("payload", "{oops"), ("reason", "x")]);
    assert!(page.status == 422 && page.text("main").contains("body.payload"), "{}", page.text("main"));
}

#[test]
fn a_dead_letter_is_edited_and_replayed() {
    let server = server();
    let mut browser = Browser::open(&server);
    let edited =
        done(&mut browser, &format!("/queues/mail/dead/{LETTER}/edit"), &[("payload", r#"{"customer":1}"#)]);
    assert_ne!(edited.path, format!("/queues/mail/dead/{LETTER}"));
    assert!(browser.get(&format!("/queues/mail/dead/{LETTER}")).text("main").contains("after an edit"));
    done(&mut browser, &format!("{}/replay", edited.path), &[]);
    assert_eq!(state(&server, "d-1"), "waiting");
    let what = audited(&server);
    assert!(what.contains(&"dead edit".to_owned()) && what.contains(&"dead replay".to_owned()), "{what:?}");
}

#[test]
fn letters_are_dropped_one_by_one_or_by_a_filter_with_the_name_of_the_queue() {
    let server = server();
    super::scene::letter(&server, "1700000000001-0", &[("id", "d-2"), ("type", "other")]);
    let mut browser = Browser::open(&server);
    done(&mut browser, &format!("/queues/mail/dead/{LETTER}/drop"), &[]);
    assert_eq!(json(&server, &["dead", "list", "--queue", "mail"])["total"], 1);
    let form = browser.get("/queues/mail/dead-drop?type=other");
    assert!(form.text("main").contains("1 of 1 dead letters match now"), "{}", form.text("main"));
    let refused = browser.send(&form, &[("queue", "male"), ("reason", "x")]);
    assert_eq!(refused.status, 422);
    let page = done(&mut browser, "/queues/mail/dead-drop?type=other", &[("queue", "mail")]);
    until_done(&server, &page);
    assert_eq!(json(&server, &["dead", "list", "--queue", "mail"])["total"], 0);
    assert_eq!(audited(&server).iter().filter(|what| *what == "dead drop").count(), 2, "each is noted once");
}

#[test]
fn a_letter_whose_record_redis_refuses_does_not_keep_others_from_being_dropped() {
    let server = server();
    for nth in 2..5 {
        let (entry, id) = (format!("170000000000{nth}-0"), format!("d-{nth}"));
        super::scene::letter(&server, &entry, &[("id", &id), ("type", "other")]);
    }
    // The script deletes the letter, and then stumbles over the last of these fields.
    let fields = ["state", "dead", "dead_id", "1700000000003-0", "holds", "x"];
    server.cmd(&[&["HSET", "sf:{mail}:job:d-3"], &fields[..]].concat());
    let mut browser = Browser::open(&server);
    let form = browser.get("/queues/mail/dead-drop?type=other");
    let page = browser.send(&form, &[("queue", "mail"), ("reason", "x")]);
    let task = until_done(&server, &page);
    assert_eq!((&task["done"], &task["left"]), (&3.into(), &0.into()), "{task}");
}

#[test]
fn a_campaign_is_planned_begun_paused_and_stopped() {
    let server = server();
    let mut browser = Browser::open(&server);
    let page =
        done(&mut browser, "/queues/mail/campaigns/plan?type=mail.send", &[("rate", "1"), ("canary", "0")]);
    assert!(page.path.starts_with("/queues/mail/campaigns/"), "{}", page.path);
    let id = page.path.rsplit('/').next().unwrap().to_owned();
    let state = || {
        json(&server, &["campaigns", "show", &id, "--queue", "mail"])["state"].as_str().unwrap().to_owned()
    };
    done(&mut browser, &format!("{}/pause", page.path), &[]);
    assert_eq!(state(), "paused");
    done(&mut browser, &format!("{}/resume", page.path), &[]);
    assert_eq!(state(), "running");
    done(&mut browser, &format!("{}/stop", page.path), &[]);
    assert_eq!(state(), "stopped");
    assert!(browser.get("/campaigns").text("main").contains(&id));
}

#[test]
fn a_gate_is_closed_limited_and_opened() {
    let server = server();
    let mut browser = Browser::open(&server);
    let gates = || json(&server, &["gates", "list", "--queue", "mail"])["items"].to_string();
    done(&mut browser, "/queues/mail/gates/pause?gate=queue", &[("for", "1h")]);
    assert!(gates().contains("\"paused\""), "{}", gates());
    assert!(browser.get("/").text("main").contains("paused"));
    done(&mut browser, "/queues/mail/gates/resume?gate=queue", &[]);
    done(
        &mut browser,
        "/queues/mail/gates/limit?gate=type:mail.send",
        &[("concurrency", "3"), ("rate", "10/s")],
    );
    assert!(gates().contains("\"concurrency\":3") && gates().contains("10/s"), "{}", gates());
    done(&mut browser, "/queues/mail/gates/limit?gate=type:mail.send", &[("concurrency", ""), ("rate", "")]);
    assert!(!gates().contains("\"concurrency\":3"), "{}", gates());
    let form = browser.get("/queues/mail/gates/limit?gate=queue");
    let refused = browser.send(&form, &[("concurrency", "0"), ("reason", "x")]);
    assert!(refused.status == 422 && refused.text("main").contains("body.concurrency"));
}

#[test]
fn jobs_that_a_filter_matches_are_moved_and_cancelled_after_a_plan() {
    let server = server();
    let mut browser = Browser::open(&server);
    let plan = browser.get("/queues/mail/bulk/move?state=waiting&id=m-2");
    assert!(plan.text("main").contains("1 job matches now"), "{}", plan.text("main"));
    let page = done(&mut browser, "/queues/mail/bulk/move?state=waiting&id=m-2", &[("to", "post")]);
    until_done(&server, &page);
    let moved = json(&server, &["status", "m-2", "--queue", "post"]);
    assert_eq!(moved["state"], "waiting");
    until_done(&server, &done(&mut browser, "/queues/mail/bulk/run-now?state=scheduled", &[]));
    until_done(&server, &done(&mut browser, "/queues/mail/bulk/cancel?state=waiting&id=m-1", &[]));
    assert_eq!(state(&server, "m-1"), "cancelled");
    let refused = browser.get("/queues/mail/bulk/cancel?state=dead");
    assert_eq!(refused.status, 422);
}

#[test]
fn a_recurring_job_is_paused_run_and_removed() {
    let server = server();
    let mut browser = Browser::open(&server);
    let path = "/queues/mail/recurring/report.nightly";
    assert!(browser.get("/recurring").text("main").contains("Asia/Shanghai"));
    done(&mut browser, path, &[("action", "pause")]);
    assert_eq!(json(&server, &["cron", "list", "--queue", "mail"])["items"][0]["paused"], true);
    done(&mut browser, path, &[("action", "resume")]);
    done(&mut browser, path, &[("action", "run")]);
    done(&mut browser, path, &[("action", "remove")]);
    assert_eq!(json(&server, &["cron", "list", "--queue", "mail"])["items"].as_array().unwrap().len(), 0);
    assert_eq!(browser.get(path).status, 404);
}

#[test]
fn a_job_is_submitted_by_a_form_or_shown_as_commands() {
    let server = server();
    let mut browser = Browser::open(&server);
    let values = [
        ("queue", "mail"),
        ("type", "mail.send"),
        ("payload", r#"{"customer":5}"#),
        ("id", "new-1"),
        ("headers", "tenant=7"),
        ("track", "yes"),
    ];
    let form = browser.get("/submit");
    let shown = browser.send(&form, &[&values[..], &[("show", "yes")]].concat());
    for command in ["redis-cli XADD", "$redis->xAdd", "client.xadd", "curl ", "streamfleet enqueue"] {
        assert!(shown.text("pre").contains(command), "{command}: {}", shown.text("pre"));
    }
    let page = done(&mut browser, "/submit", &values);
    assert_eq!(page.path, "/queues/mail/jobs/new-1");
    let status = json(&server, &["status", "new-1", "--queue", "mail"]);
    assert!(status["payload"]["customer"] == 5 && status["headers"]["tenant"] == "7", "{status}");
    let form = browser.get("/submit?queue=mail&job=new-1");
    assert!(form.text("textarea").contains(r#"{"customer":5}"#));
    let form = browser.get("/submit");
    let again = browser.send(&form, &[&values[..], &[("reason", "x")]].concat());
    assert!(again.text(".message.bad").contains("new-1"), "{}", again.text("main"));
}

#[test]
fn an_action_without_the_token_of_the_page_changes_nothing() {
    let server = server();
    let mut browser = Browser::open(&server);
    let fields = [("reason".to_owned(), "x".to_owned()), ("csrf".to_owned(), "AAAA".to_owned())];
    let page = browser.post("/queues/mail/jobs/m-1/cancel", &fields);
    assert_eq!((page.status, state(&server, "m-1")), (403, "waiting".to_owned()));
}

#[test]
fn the_search_box_finds_jobs_by_id_type_and_payload() {
    let server = server();
    let mut browser = Browser::open(&server);
    assert_eq!(browser.get("/jobs?q=m-1").path, "/queues/mail/jobs/m-1");
    for (typed, found) in [("mail.send", "m-2"), ("payload.customer%3D8", "m-2"), ("refused", "d-1")] {
        let mut page = browser.get(&format!("/jobs?q={typed}"));
        // A page looks for a short time only.
        while !page.text("#found").contains(found) {
            let next = page.attributes(".pages a", "href").pop();
            page = browser.get(&next.unwrap_or_else(|| panic!("{typed}: {}", page.text("#found"))));
        }
    }
}
