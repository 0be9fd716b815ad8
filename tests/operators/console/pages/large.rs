//! Pages stay small and read little, however much there is. `make console-large` does it with a million waiting jobs.

use std::time::{Duration, Instant};

use super::every::faults;
use crate::console::browser::Browser;
use crate::console::trouble::{GROUP, incidents};
use harness::desk::{json, sf};
use harness::redis_server::RedisServer;

/// How many jobs wait, and how many are dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    waiting: usize,
    dead: usize,
}

/// A queue whose pages are as quick as pages can be.
const SMALL: Size = Size { waiting: 100, dead: 100 };

/// With `STREAMFLEET_TEST_WAITING`=1000000 a million wait, and a tenth of it is dead.
fn large() -> Size {
    let waiting = std::env::var_os("STREAMFLEET_TEST_WAITING");
    let waiting = waiting.map_or(20_000, |waiting| waiting.to_str().unwrap().parse().unwrap());
    Size { waiting, dead: waiting.div_ceil(10) }
}

/// The most time that a page may take, the quickest of [`TRIES`] times: whatever else the machine does can only add to it …
const MOST: Duration = Duration::from_millis(100);

/// … unless the machine is so busy that the page of a small queue takes long, too: then this many times as long.
const MOST_TIMES: u32 = 4;

/// How often each page is opened.
const TRIES: usize = 9;

/// How many jobs one script adds.
const AT_ONCE: usize = 10_000;

fn server(size: Size) -> RedisServer {
    const ADD: &str = "for nth = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'type', 'mail.send', 'payload', '{}') end";
    const BURY: &str = "local at = redis.call('TIME') for nth = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'type', \
        'mail.send', 'id', 'd-' .. ARGV[3] .. '-' .. nth, 'dead_reason', 'exhausted', 'dead_error', ARGV[2], 'dead_fingerprint', \
        'f' .. nth % 20, 'dead_group', 'f' .. nth % 20, 'dead_at_ms', at[1] .. '000') end";
    const GROUPS: &str = "for nth = 0, 19 do redis.call('HSET', KEYS[1], 'f' .. nth, \
        ARGV[1] / 20 .. ' ' .. ARGV[1] / 20 .. ' 5 5 - mail.send exhausted ' .. ARGV[2]) end";
    let (server, error) = (RedisServer::start(), "connection refused ".repeat(50));
    let portions =
        |all: usize| (0..all.div_ceil(AT_ONCE)).map(move |nth| AT_ONCE.min(all - nth * AT_ONCE).to_string());
    for count in portions(size.waiting) {
        server.cmd(&["EVAL", ADD, "1", "sf:{mail}:jobs", &count]);
    }
    for (nth, count) in portions(size.dead).enumerate() {
        server.cmd(&["EVAL", BURY, "1", "sf:{mail}:dead", &count, &error, &nth.to_string()]);
    }
    server.cmd(&["EVAL", GROUPS, "1", "sf:{mail}:dead:groups", &size.dead.to_string(), &error]);
    server
}

/// A server with a queue of this size, a campaign and incidents, and somebody who looks at them.
struct Stage {
    browser: Browser,
    /// The pages that read the queue.
    pages: Vec<(&'static str, String)>,
    _server: RedisServer,
}

impl Stage {
    fn new(size: Size) -> Self {
        let server = server(size);
        let length = |key: &str| -> usize { redis::from_redis_value(server.cmd(&["XLEN", key])).unwrap() };
        assert_eq!(Size { waiting: length("sf:{mail}:jobs"), dead: length("sf:{mail}:dead") }, size);
        let replay = ["dead", "replay", "--queue", "mail", "--type", "mail.send", "--rate", "1/h", "--yes"];
        let begun = sf(&server, &[&replay[..], &["--detach"]].concat());
        assert_eq!(begun.code, Some(0), "{begun:?}");
        let campaigns = json(&server, &["campaigns", "list", "--queue", "mail"]);
        let campaign = campaigns["items"][0]["id"].as_str().unwrap().to_owned();
        incidents(&server);
        let first = |key: &str| {
            let found = server.cmd(&["XRANGE", key, "-", "+", "COUNT", "1"]);
            let found: Vec<(String, Vec<String>)> = redis::from_redis_value(found).unwrap();
            found[0].0.clone()
        };
        let pages = pages(&first("sf:{mail}:jobs"), &first("sf:{mail}:dead"), &campaign);
        Self { browser: Browser::open(&server), pages, _server: server }
    }

    /// Opens a page, and returns how long that took.
    fn open(&mut self, nth: usize) -> Duration {
        let (name, path) = &self.pages[nth];
        let asked = Instant::now();
        let page = self.browser.get(path);
        let took = asked.elapsed();
        assert_eq!((page.status, faults(&page)), (200, Vec::new()), "{name}: {path}");
        took
    }
}

/// The pages that read a queue with this waiting job, this dead letter and this campaign.
fn pages(job: &str, letter: &str, campaign: &str) -> Vec<(&'static str, String)> {
    vec![
        ("overview", "/".to_owned()),
        ("queue", "/queues/mail".to_owned()),
        ("its dead jobs", "/queues/mail?tab=dead".to_owned()),
        ("job", format!("/queues/mail/jobs/{job}")),
        ("groups", "/queues/mail/dead".to_owned()),
        ("group", "/queues/mail/dead?group=f7".to_owned()),
        ("dead letters", "/queues/mail/dead?letters=all".to_owned()),
        ("dead letter", format!("/queues/mail/dead/{letter}")),
        ("decisions", "/decisions".to_owned()),
        ("campaigns", "/campaigns".to_owned()),
        ("campaign", format!("/queues/mail/campaigns/{campaign}")),
        ("incidents", "/incidents".to_owned()),
        ("incident", format!("/incidents/{GROUP}")),
        ("jobs", "/jobs".to_owned()),
        ("running", "/running".to_owned()),
        ("gates", "/gates".to_owned()),
        ("recurring", "/recurring".to_owned()),
        ("workers", "/workers".to_owned()),
        ("submit", "/submit".to_owned()),
        ("submit again", format!("/submit?queue=mail&job={job}")),
        ("audit", "/audit".to_owned()),
    ]
}

#[test]
fn a_page_of_a_large_queue_is_small_and_leads_to_the_next() {
    let server = server(large());
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
        let Some(next) = page.attributes(".pages a", "href").pop() else {
            // A quick machine looks at all jobs on one page, and only then says that there are none.
            assert!(page.text("#found").contains("No jobs were found"), "no next page of {path}");
            continue;
        };
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

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[test]
    fn every_page_of_a_large_queue_is_quick() {
        let (mut large, mut small) = (Stage::new(large()), Stage::new(SMALL));
        eprintln!("{:?}\n{:<16} took   of a small queue", self::large(), "page");
        let mut slow = Vec::new();
        for nth in 0..large.pages.len() {
            // By turns, so that both meet the same machine.
            let quickest = |quickest: (Duration, Duration), _| {
                (large.open(nth).min(quickest.0), small.open(nth).min(quickest.1))
            };
            let (took, beside) = (0..TRIES).fold((Duration::MAX, Duration::MAX), quickest);
            let name = large.pages[nth].0;
            eprintln!("{name:<16} {:>3} ms  {:>3} ms", took.as_millis(), beside.as_millis());
            if took > MOST.max(beside * MOST_TIMES) {
                slow.push(format!("{name}: {took:?}, and {beside:?} of a small queue"));
            }
        }
        assert!(slow.is_empty(), "{slow:?}");
    }
}
