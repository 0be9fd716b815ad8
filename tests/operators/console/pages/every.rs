//! Every page, in both languages: it answers, is well formed, and has nothing inline.

use super::scene::{LETTER, server};
use crate::console::browser::{Browser, Page};

/// The largest page in bytes.
const MAX_BYTES: usize = 150 * 1024;

fn pages() -> Vec<String> {
    let mut pages: Vec<String> = [
        "/",
        "/jobs",
        "/jobs?state=dead",
        "/jobs?type=mail.*&where=payload.customer%3D9",
        "/running",
        "/decisions",
        "/campaigns",
        "/incidents",
        "/incidents?tab=over",
        "/alerts",
        "/gates",
        "/recurring",
        "/workers",
        "/submit",
        "/submit?queue=mail&job=m-1",
        "/audit",
        "/queues/mail/jobs/m-1",
        "/queues/mail/jobs/m-1?tab=headers",
        "/queues/mail/jobs/m-1?tab=payload&form=hex",
        "/queues/mail/jobs/m-1?tab=result",
        "/queues/mail/jobs/r-1",
        "/queues/mail/jobs/r-1/cancel",
        "/queues/mail/jobs/r-1/run-now",
        "/queues/mail/jobs/r-1/reschedule",
        "/queues/mail/jobs/r-1/edit",
        "/dead",
        "/queues/mail/dead",
        "/queues/mail/dead?letters=all",
        "/queues/mail/dead?group=0123456789abcdef",
        "/queues/mail/dead-drop?type=mail.send",
        "/queues/mail/campaigns",
        "/queues/mail/campaigns/plan",
        "/queues/mail/gates/pause?gate=queue",
        "/queues/mail/gates/resume?gate=type:report",
        "/queues/mail/gates/limit?gate=queue",
        "/queues/mail/bulk/cancel?state=waiting",
        "/queues/mail/bulk/move?state=waiting",
        "/queues/mail/bulk/run-now?state=scheduled",
        "/queues/mail/recurring/report.nightly",
    ]
    .map(str::to_owned)
    .into();
    pages.extend(
        ["waiting", "running", "delayed", "retrying", "done", "dead"]
            .map(|tab| format!("/queues/mail?tab={tab}")),
    );
    pages.extend(["", "/replay", "/edit", "/drop"].map(|end| format!("/queues/mail/dead/{LETTER}{end}")));
    pages
}

/// Returns what is wrong with a page.
pub(super) fn faults(page: &Page) -> Vec<String> {
    let html = page.html();
    let mut faults: Vec<String> = html.errors.iter().map(ToString::to_string).collect();
    if page.body.len() > MAX_BYTES {
        faults.push(format!("{} bytes", page.body.len()));
    }
    let inline = [
        ("script:not([src])", "an inline script"),
        ("style", "an inline style sheet"),
        ("[style]", "an inline style"),
        ("[onclick], [onload], [onerror], [onsubmit], [onfocus]", "an inline handler"),
        ("[href^='javascript:']", "an address that is a script"),
        ("[src^='http'], link[href^='http'], form[action^='http']", "another host"),
        ("img:not([alt])", "a picture without words"),
        ("html:not([lang])", "no language"),
    ];
    for (selector, fault) in inline {
        if !page.attributes(selector, "class").is_empty() || !page.text(selector).is_empty() {
            faults.push(fault.to_owned());
        }
    }
    if page.text("h1").trim().is_empty() || page.text("title").trim().is_empty() {
        faults.push("no title".to_owned());
    }
    let ids = page.attributes("[id]", "id");
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    if ids.len() != distinct.len() {
        faults.push(format!("an id twice: {ids:?}"));
    }
    let labelled = page.attributes("label[for]", "for");
    let fields = "input:not([type=hidden]):not([aria-label]), select, textarea";
    let unnamed = page.attributes(fields, "id").into_iter().filter(|id| !labelled.contains(id));
    faults.extend(unnamed.map(|id| format!("the field {id} has no label")));
    for (at, form) in page.html().select(&scraper::Selector::parse("form[method=post]").unwrap()).enumerate()
    {
        let token = scraper::Selector::parse("input[type=hidden][name=csrf]").unwrap();
        if form.select(&token).next().is_none() {
            faults.push(format!("form {at} has no token"));
        }
    }
    faults
}

#[test]
fn every_page_answers_in_both_languages_and_is_well_formed() {
    let server = server();
    let mut browser = Browser::open(&server);
    let mut findings = Vec::new();
    for (language, tag) in [("en", "en"), ("zh-CN", "zh-CN")] {
        browser.prefer(language);
        for path in pages() {
            let page = browser.get(&path);
            let mut faults = faults(&page);
            if page.status != 200 {
                faults.push(format!("status {}: {}", page.status, page.text("main")));
            }
            if page.attributes("html", "lang") != [tag] {
                faults.push("another language".to_owned());
            }
            // A text that is missing is shown as a question mark alone.
            if page.text("h1, h2, th, label").lines().any(|line| line.trim() == "?") {
                faults.push("a text is missing".to_owned());
            }
            findings.extend(faults.into_iter().map(|fault| format!("{language} {path}: {fault}")));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let server = server();
    let mut browser = Browser::open(&server);
    for path in ["/", "/queues/mail", "/queues/mail/jobs/m-1", "/queues/mail/dead", "/gates", "/recurring"] {
        for link in browser.get(path).attributes("main a[href]", "href") {
            let page = browser.get(&link);
            assert_eq!(page.status, 200, "{link} on {path}: {}", page.text("main"));
        }
    }
}

#[test]
fn a_refresh_gets_the_parts_alone() {
    let server = server();
    let mut browser = Browser::open(&server);
    let part = browser.get_with("/queues/mail", ("x-part", "live"));
    assert_eq!(part.status, 200);
    assert!(!part.body.contains("<html") && part.body.contains("data-live"), "{}", part.body);
    let whole = browser.get("/queues/mail");
    assert_eq!(part.attributes("[data-live]", "id"), whole.attributes("[data-live]", "id"));
}

#[test]
fn what_is_wrong_with_an_address_is_shown_as_a_page() {
    let server = server();
    let mut browser = Browser::open(&server);
    for (path, status, says) in [
        ("/nowhere", 404, "no page has this address"),
        ("/queues/none", 404, "no queue is called none"),
        ("/queues/A%20B", 422, "path.queue"),
        ("/queues/mail/jobs/unknown-1", 404, "unknown-1"),
        ("/queues/mail/dead/1-1", 404, "no dead letter"),
        ("/jobs?since=yesterday", 422, "query.since"),
        ("/jobs?after=x", 422, "query.after"),
    ] {
        let page = browser.get(path);
        let text = page.text("main");
        assert!(page.status == status && text.contains(says), "{path}: {} {text}", page.status);
        assert!(faults(&page).is_empty(), "{path}: {:?}", faults(&page));
    }
}

#[test]
fn theme_and_language_are_kept() {
    let server = server();
    let mut browser = Browser::open(&server);
    let page = browser.get("/gates");
    let token = page.attributes("input[name=csrf]", "value").remove(0);
    let fields = [("theme", "dark"), ("language", "zh-CN"), ("back", "/gates"), ("csrf", &*token)];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let page = browser.post("/preferences", &fields);
    assert_eq!((page.status, page.path.as_str()), (200, "/gates"));
    assert_eq!(page.attributes("html", "data-theme"), ["dark"]);
    assert_eq!(page.attributes("html", "lang"), ["zh-CN"]);
    let elsewhere = fields.map(|(name, value)| {
        let value = if name == "back" { "//evil.example/".to_owned() } else { value };
        (name, value)
    });
    assert_eq!(browser.post("/preferences", &elsewhere).path, "/");
}

#[test]
fn assets_are_kept_for_good_under_the_hash_of_their_content() {
    let server = server();
    let mut browser = Browser::open(&server);
    let page = browser.get("/");
    let assets =
        [page.attributes("link[rel=stylesheet]", "href"), page.attributes("script[src]", "src")].concat();
    assert_eq!(assets.len(), 2);
    for asset in assets {
        let file = browser.get(&asset);
        assert!(
            file.status == 200 && file.header("cache-control").unwrap().contains("immutable"),
            "{file:?}"
        );
        let (stem, rest) = asset.split_once('.').unwrap();
        let other = browser.get(&format!("{stem}.0000000000000000.{}", rest.split_once('.').unwrap().1));
        assert!(
            other.status == 200 && !other.header("cache-control").unwrap().contains("immutable"),
            "{other:?}"
        );
    }
    assert_eq!(browser.get("/assets/other.css").status, 404);
}
