//! Figures of a fleet that runs: of its types, over time, and what the overview says of it.

use streamfleet::job::QueueName;
use streamfleet::worker::QueueConfig;
use streamfleet::{Broker, Producer, Submission};

use super::every::faults;
use super::live::{SOON, Speaks};
use crate::console::browser::Browser;
use harness::desk::{json, sf};
use harness::fleet::{Running, config, queue, quick, submit, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_queue_has_the_percentiles_of_its_types() {
    let server = RedisServer::start();
    let fleet = Running::start(&server.url(), quick(1), Speaks::new());
    let queue = queue(&server).await;
    for _ in 0..20 {
        submit(&queue, "\"well\"").await;
    }
    until_empty(&queue).await;
    // A process reports what it has counted at the latest when it stops.
    fleet.stop().await;
    let page = Browser::open(&server).get("/queues/default");
    assert_eq!(faults(&page), Vec::<String>::new());
    let row = page.text("#figures tbody tr:has(a[href='/jobs?queue=default&type=test']) td");
    let row: Vec<&str> = row.lines().collect();
    assert_eq!((row[0], row[1], row[3]), ("test", "20", "0 %"), "{row:?}");
    for times in &row[4..6] {
        let (half, most) = times.split_once(" / ").unwrap_or_else(|| panic!("{row:?}"));
        assert!(!half.is_empty() && most.ends_with('s'), "{row:?}");
    }
}

#[test]
fn the_samples_of_a_queue_become_a_chart_on_its_page_and_on_the_overview() {
    let server = RedisServer::start();
    harness::samples::add_samples(&server);
    let mut browser = Browser::open(&server);
    for path in ["/queues/mail", "/"] {
        let page = browser.get(path);
        let chart = page.attributes("svg.chart.flow", "aria-label");
        assert_eq!(chart, ["Over this time: 25 arrived, 37 done, 2 failed attempts"], "{path}");
        let paths = page.attributes("svg.chart.flow path", "d");
        assert!(paths.len() >= 3 && paths.iter().any(|path| path.len() > 20), "{path}: {paths:?}");
        assert_eq!(faults(&page), Vec::<String>::new(), "{path}");
    }
    assert_eq!(browser.get("/").attributes("svg.chart.spark", "aria-label"), ["Waiting: 0 now, 10 at most"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_that_has_been_running_for_longest_comes_first() {
    let server = RedisServer::start();
    let (handler, mut config) = (Speaks::new(), config(&server.url()));
    let (first, other): (QueueName, QueueName) = ("zebra".parse().unwrap(), "ant".parse().unwrap());
    for name in [&first, &other] {
        config.worker.queues.insert(name.clone(), QueueConfig::default());
    }
    let broker = Broker::connect(config.redis.clone()).await.unwrap();
    let fleet = Running::start_with(config, quick(1), handler.clone());
    let begin = async |queue: &QueueName, id: &str| {
        let job = Submission::new("test").unwrap().id(id.parse().unwrap());
        let job = job.payload("\"hold\"", streamfleet::job::Encoding::Json).unwrap();
        Producer::new(broker.queue(queue.clone())).submit(job).await.unwrap();
    };
    begin(&first, "z-1").await;
    // By the name of the queue, and by that of the job, the other one comes first.
    until("the first job to have been running for a second", SOON, || {
        let running = json(&server, &["jobs", "--running"]);
        running["items"][0]["age_ms"].as_u64().is_some_and(|age| age >= 1000)
    });
    begin(&other, "a-1").await;
    let mut browser = Browser::open(&server);
    let shown = until("both jobs to be shown", SOON, || {
        let page = browser.get("/running");
        let shown = page.text("main tbody td:first-child a");
        (shown.lines().count() == 2).then_some(shown)
    });
    assert_eq!(shown.lines().collect::<Vec<_>>(), ["z-1", "a-1"]);
    handler.let_go();
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_names_a_type_that_no_worker_knows() {
    let server = RedisServer::start();
    let fleet = Running::start(&server.url(), quick(1), Speaks::new());
    assert_eq!(sf(&server, &["enqueue", "mail.lost", "{}"]).code, Some(0));
    let mut browser = Browser::open(&server);
    let page = until("the type to be named", SOON, || {
        let page = browser.get("/");
        page.text(".needs").contains("mail.lost").then_some(page)
    });
    let needs = page.text(".needs");
    assert!(
        needs.contains("default: 1 of type mail.lost wait, and no worker has known this type for "),
        "{needs}"
    );
    let link = "/queues/default?tab=waiting&type=mail.lost".to_owned();
    assert!(page.attributes(".needs a", "href").contains(&link), "{needs}");
    assert!(browser.get(&link).text("#jobs").contains("mail.lost"));
    fleet.stop().await;
}
