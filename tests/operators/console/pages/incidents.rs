//! The pages of incidents and of alerts: what is wrong, and who knows of it.

use super::every::faults;
use super::scene::server;
use crate::console::browser::{Browser, Page};
use crate::console::trouble::{GROUP, MEMORY, OTHER, OVER, incidents};
use harness::desk::json;
use harness::redis_server::RedisServer;

fn links(page: &Page) -> Vec<String> {
    page.attributes("main a[href]", "href")
}

fn until_ms(server: &RedisServer) -> Option<u64> {
    let list = json(server, &["alerts", "list"]);
    let items = list["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["id"] == GROUP).unwrap_or_else(|| panic!("{list}"));
    item["acknowledged"]["until_ms"].as_u64()
}

#[test]
fn incidents_are_shown_with_where_they_lead() {
    let server = server();
    incidents(&server);
    let mut browser = Browser::open(&server);
    let page = browser.get("/incidents");
    let text = page.text("#list");
    for part in [GROUP, OTHER, MEMORY, "mail.send", "order-7: no <b>route</b> for ann", "3 jobs <i>died</i>"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("ops: has not taken message 2") && !text.contains(OVER), "{text}");
    for link in ["/queues/mail/dead?group=0123456789abcdef", "/gates?queue=other", "/incidents?tab=over"] {
        assert!(links(&page).contains(&link.to_owned()), "{link}: {:?}", links(&page));
    }
    let over = browser.get("/incidents?tab=over");
    let text = over.text("#list");
    assert!(text.contains(OVER) && !text.contains(GROUP), "{text}");
    for id in [GROUP, MEMORY, OVER] {
        let one = browser.get(&format!("/incidents/{id}"));
        assert_eq!((one.status, faults(&one)), (200, Vec::new()), "{}", one.text("main"));
        let may = links(&one).contains(&format!("/incidents/{id}/ack"));
        assert_eq!(may, id != OVER, "{id}");
    }
    assert_eq!(browser.get("/incidents/00000000").status, 404);
    assert_eq!(browser.get("/incidents/nonsense").status, 422);
    assert_eq!(faults(&page), Vec::<String>::new());
}

#[test]
fn an_incident_is_acknowledged_through_its_form() {
    let server = server();
    incidents(&server);
    let mut browser = Browser::open(&server);
    let path = format!("/incidents/{GROUP}/ack");
    let form = browser.get(&path);
    assert_eq!((form.status, faults(&form)), (200, Vec::new()), "{}", form.text("main"));
    assert_eq!(until_ms(&server), None, "the form alone changes nothing");
    let wrong = browser.send(&form, &[("for", "soon"), ("reason", "known")]);
    assert_eq!((wrong.status, until_ms(&server)), (422, None));
    let page = browser.send(&form, &[("for", "3h"), ("reason", "known <b>fault</b>")]);
    assert_eq!(page.path, format!("/incidents/{GROUP}"));
    assert!(page.text(".message.good").contains("No reminders until "), "{}", page.text("main"));
    assert!(page.text("#facts").contains("known <b>fault</b>"), "{}", page.text("#facts"));
    assert!(until_ms(&server).is_some());
    let audit = json(&server, &["audit", "--alerts"]);
    assert_eq!(
        (audit["items"][0]["what"].as_str(), audit["items"][0]["why"].as_str()),
        (Some("alerts ack"), Some("known <b>fault</b>"))
    );
    let noted = browser.get("/audit").text("#list");
    assert!(noted.contains(&format!("incident {GROUP}")), "{noted}");
    let again = browser.get(&path);
    let page = browser.send(&again, &[("for", "0s"), ("reason", "remind us")]);
    assert!(page.text(".message.good").contains("sent again"), "{}", page.text("main"));
    assert_eq!(until_ms(&server), None);
    assert_eq!(browser.get(&format!("/incidents/{OVER}/ack")).status, 404);
}

#[test]
fn without_the_section_the_page_says_how_to_add_it() {
    let server = server();
    let mut browser = Browser::open(&server);
    let page = browser.get("/alerts");
    assert!(page.text("pre").contains("[alerts.sinks.ops]"), "{}", page.text("main"));
    assert!(page.attributes("main form", "action").is_empty());
}
