//! Entries that were delivered and are neither pending nor deleted: they run again, and nothing else does because of that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use streamfleet::event::{Event, Events, QueueEvent, RedisEvent};
use streamfleet::job::{JobId, Lane};
use streamfleet::{Broker, Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, RawPayload};

use harness::fleet::{Acts, Running, config, quick, submit};
use harness::program::Program;
use harness::proxy::{Direction, Mode};
use harness::scene::{SOON, STREAM as JOBS, Scene, job};
use harness::scripts::Scripts;
use harness::scripts::keys::STREAM;
use harness::scripts::source;
use harness::wait::until_async;

const SECOND: Duration = Duration::from_secs(1);

/// The streams of all lanes.
const LANES: [&str; 3] = ["sf:{default}:jobs:high", JOBS, "sf:{default}:jobs:low"];

/// What a process reports about orphans.
#[derive(Clone, Default)]
struct Reports {
    reclaimed: Arc<AtomicU64>,
    /// How often the leader has looked at a part of a lane.
    looks: Arc<AtomicU64>,
}

impl Reports {
    fn events(&self) -> Events {
        let Self { reclaimed, looks } = self.clone();
        Events::new(vec![Arc::new(move |event: &Event<'_>| match *event {
            Event::Queue { event: QueueEvent::OrphansReclaimed { count, .. }, .. } => {
                reclaimed.fetch_add(count, Ordering::SeqCst);
            }
            Event::Redis(RedisEvent::RoundTrip { command: "orphans", .. }) => {
                looks.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        })])
    }

    fn reclaimed(&self) -> u64 {
        self.reclaimed.load(Ordering::SeqCst)
    }

    fn looks(&self) -> u64 {
        self.looks.load(Ordering::SeqCst)
    }
}

/// Starts a process whose reports are counted.
fn start(config: FleetConfig, handler: impl Handler, reports: &Reports) -> Running {
    let builder = Fleet::builder(config).events(reports.events());
    Running::of(builder.handler_with("test", quick(3), handler).unwrap().build())
}

/// A handler whose jobs take a while.
struct Slow(Acts);

impl Handler for Slow {
    type Payload = RawPayload;
    type Output = serde_json::Value;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<serde_json::Value, JobError> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.0.run(payload, context).await
    }
}

/// Adds a job with this id. Returns its entry.
fn add(scene: &Scene, stream: &str, id: &str) -> String {
    redis::from_redis_value(scene.server.cmd(&["XADD", stream, "*", "type", "test", "id", id])).unwrap()
}

/// Delivers this many entries to a consumer without a worker.
fn deliver_to_nobody(scene: &Scene, stream: &str, count: &str) {
    let read = ["XREADGROUP", "GROUP", "fleet", "ghost", "COUNT", count, "STREAMS", stream, ">"];
    scene.server.cmd(&read);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_somebody_acknowledged_by_hand_run_again() {
    let scene = Scene::new().await;
    scene.queue.join(SECOND).await.unwrap();
    let mut jobs: Vec<JobId> = Vec::new();
    for (lane, stream) in LANES.into_iter().enumerate() {
        let ids = [0, 1, 2, 3].map(|nth| format!("job-{lane}-{nth}"));
        let entries = ids.each_ref().map(|id| add(&scene, stream, id));
        // The last one waits, and the second one stays pending.
        deliver_to_nobody(&scene, stream, "3");
        assert_eq!(scene.int(&["XACK", stream, "fleet", &entries[0], &entries[2]]), 2);
        jobs.extend(ids.iter().map(|id| id.parse::<JobId>().unwrap()));
    }
    let (handler, reports) = (Acts::well(), Reports::default());
    let fleet = start(scene.config(SECOND), handler.clone(), &reports);
    scene.until_at_rest().await;
    until_async("the orphans to be reported", SOON, async || reports.reclaimed() == 6).await;
    assert!(jobs.iter().all(|job| handler.runs(job) == 1), "{} runs", handler.all_runs());
    assert!(LANES.iter().all(|stream| scene.int(&["XLEN", stream]) == 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_a_consumer_that_somebody_deleted_run_again() {
    let scene = Scene::new().await;
    scene.queue.join(SECOND).await.unwrap();
    let jobs = ["a", "b", "c"].map(|id| (add(&scene, JOBS, id), id.parse::<JobId>().unwrap()));
    deliver_to_nobody(&scene, JOBS, "3");
    assert_eq!(scene.int(&["XGROUP", "DELCONSUMER", JOBS, "fleet", "ghost"]), 3);
    let (handler, reports) = (Acts::well(), Reports::default());
    let fleet = start(scene.config(SECOND), handler.clone(), &reports);
    scene.until_at_rest().await;
    until_async("the orphans to be reported", SOON, async || reports.reclaimed() == 3).await;
    assert!(jobs.iter().all(|(_, job)| handler.runs(job) == 1), "{} runs", handler.all_runs());
    assert_eq!(scene.int(&["XLEN", JOBS]), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_queue_has_no_orphans_and_runs_each_job_once() {
    let scene = Scene::new().await;
    let (handler, reports) = (Acts::well(), Reports::default());
    let mut config = scene.config(2 * SECOND);
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 4;
    }
    let fleet = start(config, Slow(handler.clone()), &reports);
    let producer = Producer::new(scene.queue.clone());
    // While jobs wait, every part of a lane is looked at.
    let mut submitted = producer.submit_all((0..200).map(|_| job("{}"))).await.unwrap().len();
    // A fourth look belongs to the second pass, which comes more than a lease after the first.
    until_async("the leader to look twice", 3 * SOON, async || {
        // Some jobs always wait, but no more than the handler can soon run.
        if submitted < handler.jobs() + 150 {
            submitted += producer.submit_all((0..50).map(|_| job("{}"))).await.unwrap().len();
        }
        reports.looks() > 3
    })
    .await;
    scene.until_at_rest().await;
    assert_eq!((handler.all_runs() as usize, handler.jobs()), (submitted, submitted));
    assert_eq!(reports.reclaimed(), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_after_its_deletion_was_refused_leaves_nothing() {
    let scene = Scene::new().await;
    let mut clerk = vec!["ACL", "SETUSER", "clerk", "on", ">clerk", "~*", "&*", "+@all", "-xdel"];
    // Where it exists, it could delete them too.
    if scene.server.knows("XACKDEL") {
        clerk.push("-xackdel");
    }
    scene.server.cmd(&clerk);
    let ledger = tempfile::tempdir().unwrap();
    // Redis acknowledges the entry, but is not asked to make it pending again.
    scene.proxy.set(Mode::Hold { needle: b"\r\nFORCE\r\n".to_vec(), nth: 1, way: Direction::Requests });
    let url = format!("redis://clerk:clerk@{}/0", scene.proxy.addr());
    let worker = Program::new(&url, ledger.path()).launch().start();
    let job = submit(&scene.queue, "ok").await;
    until_async("the entry to be left behind", SOON, async || {
        scene.proxy.hits() > 0
            && scene.queue.snapshot().await.is_ok_and(|queue| (queue.waiting(), queue.running()) == (1, 0))
    })
    .await;
    worker.kill9();
    scene.proxy.set(Mode::Rst);
    let handler = Acts::well();
    let fleet = scene.sound_fleet(SECOND, handler.clone());
    scene.until_at_rest().await;
    assert_eq!((handler.runs(&job), scene.int(&["XLEN", JOBS])), (1, 0));
    fleet.stop().await;
}

/// Adds this many entries and delivers all but the last one to `gone`. Returns the ids.
fn deliver(scripts: &Scripts, count: usize) -> Vec<String> {
    deliver_large(scripts, count, 1)
}

/// Adds and delivers entries of this size.
fn deliver_large(scripts: &Scripts, count: usize, bytes: usize) -> Vec<String> {
    let payload = "x".repeat(bytes);
    let add = |_| scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "payload", &payload]);
    let entries: Vec<String> = (0..count).map(|nth| redis::from_redis_value(add(nth)).unwrap()).collect();
    let delivered = (count - 1).to_string();
    let read = ["XREADGROUP", "GROUP", "fleet", "gone", "COUNT", delivered.as_str(), "STREAMS", STREAM, ">"];
    scripts.server.cmd(&read);
    entries
}

fn acknowledge(scripts: &Scripts, entry: &str) {
    assert_eq!(scripts.int(&["XACK", STREAM, "fleet", entry]), 1);
}

/// The queue of these scripts.
async fn queue_of(scripts: &Scripts) -> Queue {
    let broker = Broker::connect(config(&scripts.server.url()).redis).await.unwrap();
    broker.queue("q".parse().unwrap())
}

/// Looks for orphans after this entry. Returns where to continue, and what it found.
async fn find(queue: &Queue, after: &str) -> (String, Vec<String>) {
    let page = queue.orphans(Lane::Normal, after.parse().unwrap()).await.unwrap();
    let next = page.next.map_or_else(String::new, |next| next.to_string());
    (next, page.found.iter().map(ToString::to_string).collect())
}

/// All pending entries, with their consumers and their silence.
fn pending(scripts: &Scripts) -> Vec<(String, String, u64, u64)> {
    redis::from_redis_value(scripts.server.cmd(&["XPENDING", STREAM, "fleet", "-", "+", "100"])).unwrap()
}

#[tokio::test]
async fn orphans_that_are_reclaimed_twice_are_pending_once() {
    let scripts = Scripts::start();
    let queue = queue_of(&scripts).await;
    let entries = deliver(&scripts, 5);
    for entry in &entries[..3] {
        acknowledge(&scripts, entry);
    }
    scripts.server.cmd(&["XDEL", STREAM, &entries[2]]);
    assert_eq!(find(&queue, "0-0").await, (String::new(), entries[..2].to_vec()));
    assert_eq!(find(&queue, &entries[0]).await, (String::new(), vec![entries[1].clone()]));
    // Besides the two orphans: one that is deleted, one that is pending for another consumer, and one that waits.
    let args: Vec<&str> = ["me", "60000"].into_iter().chain(entries.iter().map(String::as_str)).collect();
    // Redis allows it even when it is full.
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    scripts.twice(source("reclaim"), &[STREAM], &args, [2, 2]);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    let held = pending(&scripts);
    let owners: Vec<_> = held.iter().map(|(id, owner, ..)| (id.clone(), owner.as_str())).collect();
    let want = [(entries[0].clone(), "me"), (entries[1].clone(), "me"), (entries[3].clone(), "gone")];
    assert_eq!(owners, want);
    assert!(held[..2].iter().all(|(_, _, silence, _)| *silence >= 60_000), "{held:?}");
    assert_eq!(find(&queue, "0-0").await, (String::new(), Vec::new()));
}

#[tokio::test]
async fn orphans_are_found_in_pages() {
    // Pages end after 200 pending entries, after 100 orphans, or after orphans of half a MiB.
    for (count, bytes) in [(1000, 1), (40, 200_000)] {
        let scripts = Scripts::start();
        let queue = queue_of(&scripts).await;
        let entries = deliver_large(&scripts, count + 1, bytes);
        let is_left = |nth: &usize| matches!(nth % 7, 0..=2) || *nth == count - 1;
        let left: BTreeSet<String> = (0..count).filter(is_left).map(|nth| entries[nth].clone()).collect();
        for entry in &left {
            acknowledge(&scripts, entry);
        }
        let (mut found, mut after, mut pages) = (BTreeSet::new(), "0-0".to_owned(), 0);
        while !after.is_empty() {
            let (next, ids) = find(&queue, &after).await;
            found.extend(ids);
            (after, pages) = (next, pages + 1);
            assert!(pages < 100, "it does not end");
        }
        assert!(pages > 2 && found == left, "{pages} pages: {found:?}");
    }
}

#[tokio::test]
async fn a_lane_without_orphans_or_without_a_group_has_none() {
    let scripts = Scripts::start();
    let queue = queue_of(&scripts).await;
    let nothing = (String::new(), Vec::new());
    assert_eq!(find(&queue, "0-0").await, nothing, "empty");
    deliver(&scripts, 10);
    assert_eq!(find(&queue, "0-0").await, nothing, "all are pending or wait");
    assert_eq!(find(&queue, "99999999999999-0").await, nothing, "behind all entries");
    scripts.server.cmd(&["XGROUP", "DESTROY", STREAM, "fleet"]);
    assert_eq!(find(&queue, "0-0").await, nothing, "no group");
    assert_eq!(scripts.call(source("reclaim"), &[STREAM], &["me", "1", "1-1"]).0, 0);
    scripts.server.cmd(&["DEL", STREAM]);
    assert_eq!(find(&queue, "0-0").await, nothing, "no stream");
    scripts.server.cmd(&["SET", STREAM, "text"]);
    assert_eq!(find(&queue, "0-0").await, nothing, "not a stream");
}
