//! Keys of the wrong type: each hides only its own figures.

use serde_json::{Value, json};
use streamfleet::job::Lane;
use streamfleet_engine::admin::Part;

use super::{SOON, launch, ready};
use harness::process::run;
use harness::redis_server::RedisServer;
use harness::scene::Scene;
use harness::scrape::get;
use harness::wait::until;

const KEYS: [(&str, Part); 8] = [
    ("sf:{default}:delayed", Part::Delayed),
    ("sf:{default}:dead", Part::Dead),
    ("sf:{default}:leader", Part::Leader),
    ("sf:{default}:jobs:high", Part::Lane(Lane::High)),
    ("sf:{default}:jobs", Part::Lane(Lane::Normal)),
    ("sf:{default}:jobs:low", Part::Lane(Lane::Low)),
    ("sf:{default}:rooms:places", Part::Waitlists),
    ("sf:{default}:gates", Part::Gates),
];

/// Returns a queue with one job in each lane, one delayed, one dead, and a leader.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.queue.join(SOON).await.unwrap();
    for lane in ["jobs", "jobs:high", "jobs:low", "dead"] {
        scene.server.cmd(&["XADD", &format!("sf:{{default}}:{lane}"), "*", "type", "a"]);
    }
    scene.server.cmd(&["ZADD", KEYS[0].0, "1", "a"]);
    scene.server.cmd(&["SET", KEYS[2].0, "somebody"]);
    scene
}

/// Replaces a key with a list.
fn spoil(scene: &Scene, key: &str) {
    scene.server.cmd(&["DEL", key]);
    scene.server.cmd(&["RPUSH", key, "not what it should be"]);
}

#[tokio::test]
async fn a_key_of_the_wrong_type_hides_only_its_own_figures() {
    for (key, part) in KEYS {
        let scene = scene().await;
        spoil(&scene, key);
        let snapshot = scene.queue.snapshot().await.unwrap();
        let unread: Vec<_> =
            snapshot.unread.iter().map(|unread| (unread.key.as_str(), unread.part)).collect();
        assert_eq!(unread, [(key, part)]);
        assert!(snapshot.unread[0].error.starts_with("WRONGTYPE"), "{:?}", snapshot.unread);
        let there = |other: Part| u64::from(other != part);
        assert_eq!((snapshot.delayed, snapshot.dead), (there(Part::Delayed), there(Part::Dead)));
        let lanes = snapshot.lanes.map(|lane| lane.waiting);
        assert_eq!(lanes, Lane::ALL.map(|lane| there(Part::Lane(lane))));
        assert_eq!(snapshot.leader.is_some(), part != Part::Leader);
        let lost = u64::from(!matches!(part, Part::Dead | Part::Leader | Part::Gates));
        // No job waits in a waiting list.
        let missing = if part == Part::Waitlists { 0 } else { lost };
        assert_eq!(snapshot.jobs(), 4 - missing, "{key}");
        assert_eq!(snapshot.uncounted().count() as u64, lost);
    }
}

#[tokio::test]
async fn unreadable_recurring_jobs_hide_only_their_ticks_in_the_backlog() {
    for key in ["sf:{default}:cron", "sf:{default}:cron:ticks"] {
        let scene = scene().await;
        scene.server.cmd(&["HSET", "sf:{default}:cron", "nightly", "x"]);
        spoil(&scene, key);
        let snapshot = scene.queue.snapshot().await.unwrap();
        let unread: Vec<_> = snapshot.uncounted().map(|unread| unread.key.as_str()).collect();
        assert_eq!((snapshot.jobs(), unread), (4, vec![key]));
    }
}

#[tokio::test]
async fn queues_are_listed_with_a_gap_for_an_unreadable_key() {
    let scene = scene().await;
    spoil(&scene, "sf:{default}:dead");
    spoil(&scene, "sf:{default}:jobs:low");
    let listed = run(&["--redis", &scene.server.url(), "queues", "--json"], b"");
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let report: Value = serde_json::from_str(&listed.stdout).unwrap();
    let report = &report["items"][0];
    assert_eq!(
        (&report["dead"], &report["waiting"], &report["delayed"]),
        (&json!(null), &json!(null), &json!(1))
    );
    let waiting: Vec<_> = (0..3).map(|at| report["lanes"][at]["waiting"].clone()).collect();
    assert_eq!(waiting, [json!(1), json!(1), json!(null)]);
    assert_eq!(report["unread"][0]["key"], json!("sf:{default}:dead"));
    let table = run(&["--redis", &scene.server.url(), "queues", "-o", "wide"], b"");
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    assert!(table.stdout.contains("1/1/?"), "{}", table.stdout);
    assert!(table.stdout.contains("sf:{default}:dead cannot be read: WRONGTYPE"), "{}", table.stdout);
}

#[test]
fn the_leader_reports_what_it_can_read() {
    let server = RedisServer::start();
    server.cmd(&["SET", "sf:{default}:dead", "not a stream"]);
    server.cmd(&["ZADD", "sf:{default}:delayed", "9000000000000", "a"]);
    let (_worker, address) = ready(&launch(&server.url()));
    let shows = |line: &str| {
        let page = get(&address, "/metrics").unwrap().1;
        page.lines().any(|found| found == line)
    };
    until("the delayed job to be counted", SOON, || {
        shows(r#"streamfleet_queue_jobs{queue="default",state="delayed"} 1"#)
    });
}
