//! A number that leads somewhere leads to what it counts.

use std::time::Duration;

use scraper::{ElementRef, Selector};

use super::scene::server;
use crate::console::browser::{Browser, Page};
use harness::desk::{json, sf};
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(60);

/// One type waits long for its second attempt, one dies of its first, and one is slow.
const TYPES: &str = r#"
[telemetry]
listen = "off"
[queues.mail]
concurrency = 4
[types.report]
handler = "noop"
[types.again]
handler = { exec = { command = ["false"] } }
backoff = { fixed = "1h" }
[types.doom]
handler = { exec = { command = ["false"] } }
max_attempts = 1
[types.slow]
handler = { exec = { command = ["sleep", "600"] } }
"#;

fn worker(server: &RedisServer) -> Worker {
    Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(TYPES).start()
}

fn submit(server: &RedisServer, args: &[&str]) {
    let submitted = sf(server, &[&["enqueue", "--queue", "mail"], args].concat());
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
}

/// The number and the address of a link.
fn counted(link: ElementRef<'_>) -> (usize, String) {
    let text: String = link.text().collect();
    (text.replace(',', "").parse().unwrap(), link.attr("href").unwrap().to_owned())
}

/// The figures of a page that begins with those of a queue, by their names.
fn figure(page: &Page, name: &str) -> (usize, String) {
    let html = page.html();
    let (each, link) = (Selector::parse(".figures > div").unwrap(), Selector::parse("a").unwrap());
    let found = html.select(&each).find(|figure| figure.text().any(|text| text == name)).unwrap();
    counted(found.select(&link).next().unwrap())
}

/// What a fact of a page counts, and where it leads.
fn fact(page: &Page, name: &str) -> (usize, String) {
    let html = page.html();
    let names = page.text(".facts dt");
    let at = names.lines().position(|known| known == name).unwrap_or_else(|| panic!("{name}: {names}"));
    let values = Selector::parse(".facts dd").unwrap();
    let value = html.select(&values).nth(at).unwrap();
    counted(value.select(&Selector::parse("a").unwrap()).next().unwrap())
}

fn rows(page: &Page) -> usize {
    page.html().select(&Selector::parse("#jobs tbody tr, #found tbody tr, #dead tbody tr").unwrap()).count()
}

#[test]
fn a_number_leads_to_what_it_counts() {
    let server = server();
    // The scene has a job of the type `report` that is due later, and has closed the gate of this type.
    for _ in 0..3 {
        submit(&server, &["report"]);
    }
    for _ in 0..2 {
        submit(&server, &["again"]);
        submit(&server, &["doom"]);
    }
    let _worker = worker(&server);
    let count = |state: &str| {
        json(&server, &["jobs", "--queue", "mail", "--state", state])["items"].as_array().unwrap().len()
    };
    let gate = || {
        let gates = json(&server, &["gates", "list", "--queue", "mail"]);
        gates["items"].as_array().unwrap().iter().find(|gate| gate["gate"] == "type:report").unwrap()["waiting"].clone()
    };
    until("all to have been tried", SOON, || count("retrying") == 2 && count("dead") == 3 && gate() == 3);
    let mut browser = Browser::open(&server);
    let page = browser.get("/queues/mail");
    for (name, expected) in [("waiting", 5), ("delayed", 3)] {
        let (number, link) = figure(&page, name);
        assert_eq!((number, rows(&browser.get(&link))), (expected, expected), "{name}: {link}");
    }
    let gates = browser.get("/gates");
    let html = gates.html();
    let waiting = Selector::parse("td.number a").unwrap();
    let (number, link) = counted(html.select(&waiting).next().unwrap());
    let at_gate = browser.get(&link);
    assert_eq!((number, rows(&at_gate)), (3, 3), "{link}: {}", at_gate.text("main"));
    assert!(!at_gate.text("main").contains("Cancel all"), "no action can mean these jobs");
    let refused = browser.get("/queues/mail/bulk/cancel?state=waiting&gate=type:report");
    assert_eq!(refused.status, 422, "{}", refused.text("main"));
    // A campaign replays two of the letters, and both die again.
    let plan = browser.get("/queues/mail/campaigns/plan?type=doom");
    let begun = browser.send(&plan, &[("rate", "100"), ("canary", "0"), ("stop_at", "")]);
    let campaign = until("both to have died again", SOON, || {
        let page = browser.get(&begun.path);
        (fact(&page, "Died of the same error").0 == 2).then_some(page)
    });
    let (number, link) = fact(&campaign, "Died of the same error");
    assert_eq!((number, rows(&browser.get(&link))), (2, 2), "{link}");
    let refused = browser.get(&link.replace("/dead?", "/dead-drop?"));
    assert_eq!(refused.status, 422, "{}", refused.text("main"));
}

#[test]
fn the_page_of_a_job_says_what_may_come_in_between() {
    let server = server();
    submit(&server, &["slow", "--id", "s-1", "--timeout", "1h"]);
    submit(&server, &["report", "--id", "p-1", "--expires-in", "2h"]);
    submit(&server, &["again", "{}", "--id", "a-1", "--delay", "1h", "--max-attempts", "7", "--track"]);
    assert_eq!(sf(&server, &["pause", "--queue", "mail", "--type", "report", "--for", "3h"]).code, Some(0));
    let _worker = worker(&server);
    let mut browser = Browser::open(&server);
    let mut next = |id: &str, text: &str| {
        until(&format!("{id}: {text}"), SOON, || {
            let page = browser.get(&format!("/queues/mail/jobs/{id}"));
            page.text("#now p").contains(text).then_some(page)
        })
    };
    next("s-1", "The attempt is cut off in ");
    let paused = next("p-1", "type:report is paused and resumes in 2h").text("#now p");
    assert!(paused.contains("It expires in 1h"), "{paused}");
    let commands = next("a-1", "due in").text("pre");
    for kept in ["--max-attempts=7", "--track", "--id=a-1", "max_attempts 7", "run_at_ms", "\"track\":true"] {
        assert!(commands.contains(kept), "{kept}: {commands}");
    }
}

#[test]
fn a_search_says_what_it_has_looked_at() {
    let server = server();
    submit(&server, &["report", "--id", "x-1"]);
    server.cmd(&["XADD", "sf:{shop}:jobs", "*", "type", "report"]);
    let mut browser = Browser::open(&server);
    let all = browser.get("/jobs").text("main .pages");
    for text in
        ["mail, shop (2 of 2 queues)", "running, waiting, retrying, scheduled, dead", "That was everything."]
    {
        assert!(all.contains(text), "{text}: {all}");
    }
    let one = browser.get("/jobs?queue=shop&state=waiting").text("main .pages");
    assert!(one.contains("shop (1 of 1 queues), waiting. That was everything."), "{one}");
}

#[test]
fn a_server_without_persistence_is_named() {
    let server = server();
    let mut browser = Browser::open(&server);
    assert!(browser.get("/").text("main").contains("no persistence"), "{}", browser.get("/").text("main"));
    server.cmd(&["BGSAVE"]);
    until("the snapshot", SOON, || browser.get("/").text("main").contains("snapshots only"));
}

#[test]
fn a_recurring_job_shows_what_became_of_its_last_ticks() {
    let server = server();
    let _worker = worker(&server);
    let add = ["cron", "add", "often", "--queue", "mail", "--schedule", "* * * * * *", "--type", "doom"];
    assert_eq!(sf(&server, &add).code, Some(0));
    let mut browser = Browser::open(&server);
    let links = until("five ticks with a record", SOON, || {
        let page = browser.get("/recurring?name=often");
        let links = page.attributes("tbody .line a", "href");
        (links.len() == 5).then_some(links)
    });
    let page = browser.get(&links[1]);
    assert!(page.status == 200 && page.text("#head").contains("dead"), "{}: {}", links[1], page.text("main"));
}
