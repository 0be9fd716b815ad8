//! Taking over the entries of silent workers, and leaving those of live ones alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use streamfleet::Producer;
use streamfleet::job::{JobId, Lane, QueueName, State};
use streamfleet::worker::QueueConfig;

use harness::fleet::{Acts, submit, until_state};
use harness::ledger::{Ledger, Record};
use harness::program::Program;
use harness::proxy::{Commands, Direction, Mode, Proxy, Scope};
use harness::scene::{Gate, SOON, STREAM, Scene, job};
use harness::scripts::{sha, source};
use harness::tally::{Tally, start};
use harness::wait::{pause_for, until_async};

/// Delivers the waiting entries to a consumer without a worker.
fn deliver_to_nobody(scene: &Scene, consumer: &str) {
    scene.server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0", "MKSTREAM"]);
    let read = ["XREADGROUP", "GROUP", "fleet", consumer, "COUNT", "1000", "STREAMS", STREAM, ">"];
    scene.server.cmd(&read);
}

/// Returns the queue `default` with room for one job.
fn one_slot() -> BTreeMap<QueueName, QueueConfig> {
    [("default".parse().unwrap(), QueueConfig::default().concurrency(1))].into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_entry_behind_a_busy_head_is_found() {
    let scene = Scene::new().await;
    // 31 entries that are older than the stale one, pending for "live" and renewed by the test.
    for _ in 0..31 {
        submit(&scene.queue, "live").await;
    }
    deliver_to_nobody(&scene, "live");
    let stale = submit(&scene.queue, "stale").await;
    let reads = ["XREADGROUP", "GROUP", "fleet", "gone", "COUNT", "1", "STREAMS", STREAM, ">"];
    scene.server.cmd(&reads);
    let handler = Acts::well();
    let fleet = scene.fleet(Duration::from_secs(3), handler.clone());
    let pending = scene.server.cmd(&["XPENDING", STREAM, "fleet", "-", "+", "100", "live"]);
    let pending: Vec<(String, String, u64, u64)> = redis::from_redis_value(pending).unwrap();
    let mut keep: Vec<&str> = vec!["XCLAIM", STREAM, "fleet", "live", "0"];
    keep.extend(pending.iter().map(|(entry, ..)| entry.as_str()));
    keep.push("JUSTID");
    until_async("the stale entry to run", SOON, async || {
        scene.server.cmd(&keep);
        handler.runs(&stale) == 1
    })
    .await;
    assert_eq!(handler.all_runs(), 1, "a live entry was taken over");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_worker_keeps_its_long_jobs() {
    let scene = Scene::new().await;
    let (handler, lease) = (Gate::closed(), Duration::from_secs(3));
    let fleets = [scene.fleet(lease, handler.clone()), scene.sound_fleet(lease, handler.clone())];
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(submit(&scene.queue, "wait").await);
    }
    for job in &jobs {
        handler.until_started(job).await;
    }
    // Each entry is renewed several times: more than twice the lease passes after its delivery.
    let started = std::time::Instant::now();
    until_async("the leases to have passed", SOON, async || started.elapsed() > 2 * lease + lease / 2).await;
    handler.open();
    scene.until_at_rest().await;
    for job in &jobs {
        assert_eq!((handler.of(job).starts, handler.of(job).ends), (1, 1), "{:?}", handler.of(job));
    }
    for fleet in fleets {
        fleet.stop().await;
    }
}

/// The worker's network is back a little later than Redis, so that its jobs look dead when Redis answers again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stall_of_redis_within_a_takeover_costs_live_workers_nothing() {
    let scene = Scene::new().await;
    let (lease, handler, tally) = (Duration::from_secs(3), Gate::closed(), Tally::default());
    let mut config = scene.config(lease);
    (config.worker.prefetch, config.worker.queues) = (0, one_slot());
    let leader = start(config, handler.clone(), &tally);
    until_async("a leader", SOON, async || scene.int(&["EXISTS", "sf:{default}:leader"]) == 1).await;
    // From here on, it has no room for other jobs.
    let mut jobs = vec![submit(&scene.queue, "wait").await];
    handler.until_started(&jobs[0]).await;
    let own = Proxy::start(scene.server.addr());
    let mut config = scene.config(lease);
    config.redis.url = scene.server.url_through(own.addr()).into();
    let worker = start(config, handler.clone(), &tally);
    // Redis stalls before it settles the first of three pages.
    let needle = sha(&scene.server, source("defer")).into_bytes();
    scene.proxy.set(Mode::Hold { needle, nth: 1, way: Direction::Requests });
    scene.leave_stale(250);
    until_async("a page to be claimed", SOON, async || scene.proxy.hits() > 0).await;
    // They come after the entries that the takeover is about.
    for _ in 0..8 {
        jobs.push(submit(&scene.queue, "wait").await);
    }
    for job in &jobs {
        handler.until_started(job).await;
    }
    scene.server.freeze();
    own.set(Mode::blackhole(Scope::All));
    scene.proxy.set(Mode::Pass);
    pause_for(lease + lease / 5);
    scene.server.thaw();
    pause_for(lease / 8);
    own.set(Mode::Pass);
    handler.open();
    scene.until_at_rest().await;
    for job in &jobs {
        let (endings, ends) = (tally.of(job), handler.of(job).ends);
        assert!(!endings.contains(&"retried"), "a job of a live worker was taken over: {endings:?}");
        assert_eq!(ends, 1, "{endings:?}");
    }
    leader.stop().await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_stale_entries_than_one_page_are_all_taken_over_once() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    producer.submit_all((0..350).map(|_| job("{}"))).await.unwrap();
    deliver_to_nobody(&scene, "gone");
    let handler = Acts::well();
    let fleet = scene.fleet(Duration::from_secs(1), handler.clone());
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs(), 350);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_a_dead_worker_are_settled_by_few_scripts() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let jobs = producer.submit_all((0..200).map(|_| job("{}"))).await.unwrap();
    deliver_to_nobody(&scene, "gone");
    let (handler, tally) = (Acts::well(), Tally::default());
    let fleet = start(scene.config(Duration::from_secs(1)), handler.clone(), &tally);
    until_async("all to be reported", SOON, async || tally.all() >= 400).await;
    scene.until_at_rest().await;
    // Each script that defers jobs adds all of them to the delayed set at once, and nothing else here adds any.
    let scripts = scene.server.calls("zadd");
    assert!((2..=20).contains(&scripts), "{scripts} scripts for 200 jobs");
    assert!(jobs.iter().all(|job| tally.of(job) == ["retried", "succeeded"]));
    assert_eq!((handler.all_runs(), tally.fenced()), (200, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimer_that_dies_between_two_groups_loses_nothing() {
    let scene = Scene::new().await;
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    let jobs: Vec<JobId> = (0..200).map(|nth| format!("b{nth}").parse().unwrap()).collect();
    for job in &jobs {
        scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", &job.to_string()]);
    }
    deliver_to_nobody(&scene, "gone");
    // Redis gets the first group, but not the second.
    let needle = sha(&scene.server, source("defer")).into_bytes();
    scene.proxy.set(Mode::Hold { needle, nth: 2, way: Direction::Requests });
    let mut program = Program::new(&scene.server.url_through(scene.proxy.addr()), &ledger);
    program.backoff_ms = 5_000;
    let claimer = program.launch().start();
    until_async("the claimer to be between two groups", SOON, async || {
        scene.proxy.hits() > 0 && scene.int(&["ZCARD", "sf:{default}:delayed"]) == 100
    })
    .await;
    assert_eq!(scene.int(&["XLEN", STREAM]), 100);
    claimer.kill9();
    scene.proxy.set(Mode::Rst);
    let handler = Acts::well();
    let fleet = scene.sound_fleet(Duration::from_secs(1), handler.clone());
    scene.until_at_rest().await;
    // The claimer may have run some of the first group.
    let started = Ledger::new(&ledger).read().into_iter().filter_map(|record| match record {
        Record::Start { run, .. } => Some(run.job),
        Record::Submit { .. } | Record::Unknown { .. } | Record::End { .. } => None,
    });
    let started: BTreeSet<String> = started.collect();
    let left: Vec<&JobId> =
        jobs.iter().filter(|job| handler.runs(job) == 0 && !started.contains(&job.to_string())).collect();
    assert!(left.is_empty(), "never ran: {left:?}");
    assert!(handler.all_runs() <= 200, "{} runs", handler.all_runs());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_loses_every_worker_is_buried_as_lost() {
    let scene = Scene::new().await;
    let fields = ["XADD", STREAM, "*", "type", "test", "id", "poison", "lost", "2", "payload", "p"];
    scene.server.cmd(&fields);
    deliver_to_nobody(&scene, "gone");
    let handler = Acts::well();
    let fleet = scene.fleet(Duration::from_secs(1), handler.clone());
    let status = until_state(&scene.queue, &"poison".parse().unwrap(), State::Dead).await;
    let letter = scene.queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!((letter.text("dead_reason"), letter.text("payload")), ("lost".into(), "p".into()));
    assert_eq!(letter.text("lost"), "", "a replay starts with no losses");
    assert_eq!(handler.all_runs(), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsettled_takeover_is_not_mistaken_for_a_delivery() {
    let scene = Scene::new().await;
    let redelivered = Acts::new(|context, _| Ok(context.is_redelivered().into()));
    let lease = Duration::from_secs(4);
    let fleet = scene.fleet(lease, redelivered.clone());
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    // One script appends and delivers the entry, so that the fleet cannot get it first.
    let add = "redis.call('XADD', KEYS[1], '*', 'type', 'test', 'id', 'j', 'tracking', 'all') \
        redis.call('XREADGROUP', 'GROUP', 'fleet', 'gone', 'STREAMS', KEYS[1], '>') return 1";
    scene.server.cmd(&["EVAL", add, "1", STREAM]);
    let owner_and_idle = || {
        let pending = scene.server.cmd(&["XPENDING", STREAM, "fleet", "-", "+", "1"]);
        let pending: Vec<(String, String, u64, u64)> = redis::from_redis_value(pending).unwrap();
        pending.into_iter().next().map_or((String::new(), 0), |(_, owner, idle, _)| (owner, idle))
    };
    until_async("the entry to be nearly stale", SOON, async || owner_and_idle().1 > 3_700).await;
    // After the takeover, the entry is read on its own, then settled.
    let error = "BUSY Redis is busy running a script.".to_owned();
    let to = Commands::Only(["XRANGE".to_owned()].into());
    scene.proxy.set(Mode::Inject { error, to });
    until_async("the entry to be taken over", SOON, async || owner_and_idle().0 != "gone").await;
    scene.proxy.set(Mode::Rst);
    scene.proxy.set(Mode::Pass);
    let status = until_state(&scene.queue, &"j".parse().unwrap(), State::Done).await;
    assert_eq!(status.result.as_deref(), Some("true"), "{status:?}");
    assert_eq!(redelivered.runs(&status.id), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_consumers_are_removed_and_live_ones_stay() {
    let scene = Scene::new().await;
    for lane in Lane::ALL {
        submit(&scene.queue, "{}").await;
        assert_eq!(scene.queue.snapshot().await.unwrap().lanes[lane as usize].running, 0);
    }
    deliver_to_nobody(&scene, "gone");
    let handler = Acts::well();
    let fleet = scene.fleet(Duration::from_secs(1), handler.clone());
    scene.until_at_rest().await;
    let names = async || -> Vec<String> {
        let consumers = scene.queue.consumers(Lane::Normal).await.unwrap();
        consumers.into_iter().map(|consumer| consumer.name).collect()
    };
    until_async("the consumer that is gone to be removed", 2 * SOON, async || {
        names().await.iter().all(|name| name != "gone" && !name.ends_with(".claims"))
    })
    .await;
    assert_eq!(names().await.len(), 1);
    let last = submit(&scene.queue, "{}").await;
    until_async("a later job to run", SOON, async || handler.runs(&last) == 1).await;
    fleet.stop().await;
}
