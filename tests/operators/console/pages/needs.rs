//! The overview names what needs a person, and the page of a queue has the figures of its types.

use super::every::faults;
use super::scene::server;
use crate::console::browser::Browser;
use harness::desk::sf;

/// An open incident, as Redis holds it.
const INCIDENT: &str = r#"{"id":"0a0b0c0d","kind":"backlog","queue":"mail","state":"open",
    "detail":"the oldest job <b>waits</b>","since_ms":1700000000000,"seen_ms":1700000000000}"#;

#[test]
fn the_overview_names_closed_gates_and_open_breakers() {
    let server = server();
    let breaker = ["gates", "set", "type:pay", "--queue", "mail", "--breaker", "50%/20/1m/30s"];
    assert_eq!(sf(&server, &breaker).code, Some(0));
    let mut browser = Browser::open(&server);
    let needs = browser.get("/").text(".needs");
    assert!(
        needs.contains("mail: type:report was paused") && needs.contains("the printer is down"),
        "{needs}"
    );
    assert!(!needs.contains("type:pay"), "{needs}");
    server.cmd(&["HSET", "sf:{mail}:breaker:type:pay", "until_ms", "4102444800000"]);
    let page = browser.get("/");
    let needs = page.text(".needs");
    assert!(needs.contains("mail: type:pay is tripped by its breaker"), "{needs}");
    assert!(page.attributes(".needs a", "href").contains(&"/gates?queue=mail".to_owned()), "{needs}");
    assert_eq!(sf(&server, &["resume", "--queue", "mail", "--type", "report"]).code, Some(0));
    let needs = browser.get("/").text(".needs");
    assert!(!needs.contains("type:report"), "{needs}");
}

#[test]
fn the_overview_names_open_incidents_until_somebody_knows_of_them() {
    let server = server();
    server.cmd(&["HSET", "sf:alerts:{alerts}:open", "0a0b0c0d", INCIDENT]);
    let mut browser = Browser::open(&server);
    let page = browser.get("/");
    let needs = page.text(".needs");
    assert!(needs.contains("mail: incident for") && needs.contains("job <b>waits</b>"), "{needs}");
    assert!(page.attributes(".needs a", "href").contains(&"/incidents".to_owned()), "{needs}");
    assert_eq!(faults(&page), Vec::<String>::new());
    let known = sf(&server, &["alerts", "ack", "0a0b0c0d", "--for", "1h", "--reason", "a test"]);
    assert_eq!(known.code, Some(0), "{known:?}");
    let needs = browser.get("/").text(".needs");
    assert!(!needs.contains("incident"), "{needs}");
}

#[test]
fn the_page_of_a_queue_has_figures_of_its_types() {
    let server = server();
    let page = Browser::open(&server).get("/queues/mail");
    assert!(page.text("#figures h2").contains("Last hour by type"), "{}", page.text("#figures"));
    assert!(page.text("#figures").contains("No job of this queue was counted"), "{}", page.text("#figures"));
}
