//! Pages of a fleet that has much of everything stay small, and lead to what they leave out.

use redis::Pipeline;
use scraper::Selector;
use streamfleet::JobError;
use streamfleet::job::State;
use streamfleet_engine::admin::Action;

use super::every::faults;
use crate::console::browser::{Browser, Page};
use harness::fleet::{Acts, Running, queue, quick, submit, until_state};
use harness::redis_server::RedisServer;

const QUEUES: usize = 80;
const GATES: usize = 300;
const WORKERS: usize = 250;
const TYPES: usize = 60;
const LETTERS: usize = 120;
const ACTIONS: usize = 120;

/// A long error as programs write it.
fn long(bytes: usize) -> String {
    "{\"error\": \"connection refused\", 'at': <10.0.0.7>} ".repeat(bytes / 50)
}

fn name(queue: usize) -> String {
    format!("queue-{queue:03}")
}

/// An hour of samples, a waiting job and a letter for each queue.
fn add_queues(all: &mut Pipeline, now_ms: u64) {
    for nth in 0..QUEUES {
        let key = |end: &str| format!("sf:{{{}}}:{end}", name(nth));
        all.cmd("XADD").arg(key("jobs")).arg(&["*", "type", "mail.send", "payload", "{}"]).ignore();
        for minute in (0..60_u64).rev() {
            let at = format!("{}-0", now_ms / 60_000 * 60_000 - minute * 60_000);
            let figures = [(123_456 + minute * 777).to_string(), (98_765 + minute * 3).to_string()];
            let fields = [
                "span_ms",
                "60000",
                "waiting",
                &figures[0],
                "arrived",
                &figures[1],
                "done",
                &figures[0],
                "failed",
                "77",
            ];
            all.cmd("XADD").arg(key("samples")).arg(at).arg(&fields).ignore();
        }
    }
}

fn add_gates(all: &mut Pipeline) {
    for nth in 0..GATES {
        let field = format!("r:key:h.tenant=customer-with-a-long-name-{nth:04}");
        let key = format!("sf:{{{}}}:gates", name(nth % 3));
        all.cmd("HSET").arg(key).arg(&[field.as_str(), r#"{"concurrency":5}"#]).ignore();
    }
}

fn add_workers(all: &mut Pipeline) {
    let types: Vec<String> = (0..TYPES).map(|nth| format!("type.of.jobs-{nth}")).collect();
    let queues: Vec<String> = (0..QUEUES).map(name).collect();
    for nth in 0..WORKERS {
        let facts = [
            ("queues", queues.join(",")),
            ("types", types[..TYPES - nth % 2].join(",")),
            ("version", format!("0.{}.0", nth % 2)),
            ("config", format!("{:08x}", nth % 2)),
            ("slots", "64".to_owned()),
            ("beat_ms", "1700000000000".to_owned()),
            ("up_ms", "86400000".to_owned()),
        ];
        all.cmd("HSET").arg(format!("sf:worker:worker-{nth:04}")).arg(&facts).ignore();
    }
}

fn add_letters(all: &mut Pipeline) {
    for nth in 0..LETTERS {
        let (id, group) = (format!("d-{nth}"), format!("f{nth:015x}"));
        let fields = [
            ("type", "mail.send"),
            ("id", &id),
            ("dead_reason", "exhausted"),
            ("dead_error", &long(4000)),
            ("dead_fingerprint", &group),
            ("dead_group", &group),
            ("dead_at_ms", "1700000000000"),
        ];
        all.cmd("XADD").arg("sf:{default}:dead").arg(format!("1700000000000-{nth}")).arg(&fields).ignore();
        let figures = format!("1 1 5 5 1700000000000-{nth} mail.send exhausted {}", long(200));
        all.cmd("HSET").arg("sf:{default}:dead:groups").arg(&[&group, &figures]).ignore();
    }
}

async fn fleet() -> (RedisServer, String) {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut all = redis::pipe();
    // Letters come first: the next one is newer.
    add_letters(&mut all);
    all.exec(&mut server.client()).unwrap();
    // A job whose attempts fail with long errors and write long lines.
    let handler = Acts::new(|context, _| {
        (0..100).for_each(|_| context.log(&long(1000)));
        Err(JobError::retry(long(4000)))
    });
    let running = Running::start(&server.url(), quick(12), handler);
    let payload = serde_json::to_string(&vec!["\"quoted\" <b>"; 1500]).unwrap();
    let job = submit(&queue, &payload).await;
    until_state(&queue, &job, State::Dead).await;
    running.stop().await;
    for nth in 0..ACTIONS {
        let action =
            Action::new("dead drop", "ann").why(long(500)).target(format!("--text '{nth} {}'", long(4000)));
        queue.audit().note(&action).await.unwrap();
    }
    let mut all = redis::pipe();
    let now = queue.clock().await.unwrap().as_ms();
    add_queues(&mut all, now);
    add_gates(&mut all);
    add_workers(&mut all);
    all.exec(&mut server.client()).unwrap();
    (server, job.to_string())
}

/// The page after this one.
fn next(page: &Page) -> Option<String> {
    page.attributes(".pages a", "href").pop()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_page_leaves_out_is_on_the_next_one() {
    let (server, _) = fleet().await;
    let mut browser = Browser::open(&server);
    for (path, column, count) in [
        ("/gates", "tbody td:first-child .mono", GATES),
        ("/workers", "#workers section:first-of-type td:first-child .mono", WORKERS),
        ("/audit", "tbody tr td:first-child", ACTIONS),
    ] {
        let (mut seen, mut path) = (Vec::new(), Some(path.to_owned()));
        while let Some(here) = path {
            let page = browser.get(&here);
            let rows = page.text(column);
            assert!(!rows.is_empty(), "{here}");
            seen.extend(rows.lines().map(str::to_owned));
            path = next(&page);
        }
        assert_eq!(seen.len(), count, "{column}");
    }
    let first = browser.get("/");
    assert!(first.text("main").contains("Further queues"), "{}", first.text("main"));
    let queues = |page: &Page| page.attributes("main a[href^='/queues/']", "href");
    let after = next(&first).unwrap();
    let all = [queues(&first), queues(&browser.get(&after))].concat();
    for nth in 0..QUEUES {
        assert!(all.contains(&format!("/queues/{}", name(nth))), "{} is on no page", name(nth));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_narrowed_by_their_address() {
    let (server, _) = fleet().await;
    let mut browser = Browser::open(&server);
    let listed =
        Selector::parse("#list tbody tr, #gates tbody tr, #workers section:first-of-type tbody tr").unwrap();
    let rows = |page: &Page| page.html().select(&listed).count();
    for (path, count) in [
        ("/workers?worker=0042", 1),
        ("/workers?version=0.1.0", 100),
        ("/workers?type=nothing", 0),
        ("/gates?gate=name-0007", 1),
        ("/gates?queue=queue-001&gate=name-00", 33),
        ("/audit?who=bob", 0),
        ("/audit?who=ANN&what=drop", 50),
        ("/audit?queue=queue-001", 0),
        ("/dead?type=mail&reason=exhausted", 50),
        ("/dead?queue=queue-001", 0),
        ("/recurring?queue=queue-001", 0),
        ("/running?worker=nobody&queue=", 0),
        ("/campaigns?state=done", 0),
        ("/incidents?kind=backlog", 0),
    ] {
        let page = browser.get(path);
        assert_eq!((page.status, faults(&page)), (200, Vec::new()), "{path}");
        assert_eq!(rows(&page), count, "{path}: {}", page.text("main"));
        let filled = page.attributes("form.filter input[value]:not([value=''])", "name");
        let asked: Vec<&str> = path
            .split(['?', '&'])
            .skip(1)
            .filter_map(|pair| pair.split_once('='))
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, _)| name)
            .collect();
        assert!(asked.iter().all(|name| filled.iter().any(|known| known == name)), "{path}: {filled:?}");
    }
    let differ = browser.get("/workers?queue=queue-001").text("main");
    for text in ["2 different versions", "2 different configurations", "2 different sets of types"] {
        assert!(differ.contains(text), "{text}: {differ}");
    }
    assert!(differ.contains("+50") && differ.contains("00000001"), "{differ}");
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_page_of_a_rich_fleet_is_small() {
        let (server, job) = fleet().await;
        let mut browser = Browser::open(&server);
        let jobs = format!("/queues/default/jobs/{job}");
        let mut paths: Vec<String> = [
            "/",
            "/jobs",
            "/jobs?state=dead",
            "/running",
            "/dead",
            "/decisions",
            "/campaigns",
            "/gates",
            "/recurring",
            "/workers",
            "/incidents",
            "/audit",
            "/submit",
            "/queues/queue-000",
            "/queues/default?tab=dead",
            "/queues/default/dead",
            "/queues/default/dead?letters=all",
            "/queues/default/dead/1700000000000-3",
        ]
        .map(str::to_owned)
        .into();
        paths.extend(["", "?tab=headers", "?form=text"].map(|query| format!("{jobs}{query}")));
        let mut findings = Vec::new();
        for path in paths {
            let mut path = Some(path);
            // The first pages, and the last one.
            for _ in 0..4 {
                let Some(here) = path.take() else { break };
                let page = browser.get(&here);
                eprintln!("{:>7} bytes: {here}", page.body.len());
                findings.extend(faults(&page).into_iter().map(|fault| format!("{here}: {fault}")));
                assert_eq!(page.status, 200, "{here}");
                path = next(&page).filter(|_| !here.starts_with("/queues"));
            }
        }
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
