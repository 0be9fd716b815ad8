//! Pages stay small and read little, however much there is.

use redis::pipe;

use super::every::faults;
use crate::console::browser::Browser;
use crate::harness::redis_server::RedisServer;

const WAITING: usize = 20_000;
const DEAD: usize = 5_000;

fn server() -> RedisServer {
    let server = RedisServer::start();
    for _ in 0..WAITING / 1000 {
        let mut jobs = pipe();
        for _ in 0..1000 {
            jobs.cmd("XADD")
                .arg("sf:{mail}:jobs")
                .arg("*")
                .arg("type")
                .arg("mail.send")
                .arg("payload")
                .arg("{}");
        }
        server.try_pipe(&jobs).unwrap();
    }
    let error = "connection refused ".repeat(50);
    for part in 0..DEAD / 1000 {
        let mut letters = pipe();
        for at in 0..1000 {
            let id = format!("d-{part}-{at}");
            let fields = [
                "type",
                "mail.send",
                "id",
                id.as_str(),
                "dead_reason",
                "exhausted",
                "dead_error",
                error.as_str(),
            ];
            letters.cmd("XADD").arg("sf:{mail}:dead").arg("*").arg(&fields[..]);
        }
        server.try_pipe(&letters).unwrap();
    }
    server
}

#[test]
fn a_page_of_a_large_queue_is_small_and_leads_to_the_next() {
    let server = server();
    let mut browser = Browser::open(&server);
    for path in [
        "/queues/mail",
        "/queues/mail?tab=dead",
        "/queues/mail/dead?letters=all",
        "/jobs",
        "/jobs?id=nothing-",
    ] {
        let page = browser.get(path);
        assert_eq!((page.status, faults(&page)), (200, Vec::new()), "{path}");
        assert!(page.html().select(&scraper::Selector::parse("tbody tr").unwrap()).count() <= 200, "{path}");
        let next =
            page.attributes(".pages a", "href").pop().unwrap_or_else(|| panic!("no next page of {path}"));
        let second = browser.get(&next);
        assert_eq!((second.status, faults(&second)), (200, Vec::new()), "{next}");
        if !path.contains("nothing") {
            assert_ne!(second.text("tbody"), page.text("tbody"), "{next}");
        }
    }
}

#[test]
fn a_large_payload_is_cut() {
    let server = RedisServer::start();
    let payload = format!("\"{}\"", "x".repeat(8_000_000));
    server.cmd(&["XADD", "sf:{mail}:jobs", "*", "type", "mail.send", "id", "big-1", "payload", &payload]);
    let mut browser = Browser::open(&server);
    for form in ["json", "msgpack", "text", "hex"] {
        let page = browser.get(&format!("/queues/mail/jobs/big-1?form={form}"));
        assert_eq!((page.status, faults(&page)), (200, Vec::new()), "{form}");
    }
}
