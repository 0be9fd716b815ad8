//! Redis or a worker is paused.

use std::time::{Duration, Instant};

use streamfleet::job::{State, Verdict};
use streamfleet::{Producer, Submission};
use streamfleet_engine::admin::Action;

use super::{LATEST, LEASE, Scene, pass};
use harness::fleet::{queue, until_state};
use harness::proxy::{Direction, Mode, Proxy, Scope};
use harness::redis_server::RedisServer;
use harness::scripts::{sha, source};
use harness::wait::{until, until_async};

/// A pause of Redis that does no harm according to docs/operations.md: seven tenths of the lease.
const PAUSE: Duration = Duration::from_millis(4_200);

/// A pause of a worker that does no harm: three quarters of the lease.
const FREEZE: Duration = Duration::from_millis(4_500);

const SHORT: Duration = Duration::from_secs(2);

/// A pause of Redis for seven tenths of the lease causes no second run.
#[tokio::test(flavor = "multi_thread")]
async fn promise_2_a_redis_pause_of_seven_tenths_of_the_lease_repeats_no_job() {
    let scene = Scene::new(RedisServer::start(), LEASE, 2);
    // At different times, so that their leases are of different ages.
    for nth in 1..=6 {
        scene.send(&["sleep 17000"; 5]).await;
        scene.until_started(5 * nth);
        pass(Duration::from_millis(130));
    }
    for _ in 0..2 {
        scene.server.freeze();
        pass(PAUSE);
        scene.server.thaw();
        pass(LEASE / 4);
    }
    scene.until_done();
    scene.assert_all_ran_once(30);
}

/// Nor does any step become unknown.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_frozen_for_three_quarters_of_its_lease_repeats_no_job() {
    let scene = Scene::new(RedisServer::start(), LEASE, 2);
    let producer = Producer::new(queue(&scene.server).await);
    for nth in 1..=5 {
        scene.send(&["sleep 15000"; 3]).await;
        let gift = Submission::new("gift").unwrap();
        let gift = gift.payload(&b"charge sleep 15000"[..], streamfleet::job::Encoding::Raw).unwrap();
        producer.submit(gift).await.unwrap();
        until("the charge to begin", LATEST, || {
            scene.starts().keys().filter(|job| job.ends_with("/charge")).count() == nth
        });
    }
    for _ in 0..2 {
        scene.workers[0].freeze();
        pass(FREEZE);
        scene.workers[0].thaw();
        pass(LEASE / 4);
    }
    scene.until_done();
    // Three plain jobs and four steps, five times.
    scene.assert_all_ran_once(5 * (3 + 4));
}

/// Every connection that existed or is opened during the cut stays silent forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_cut_for_half_the_lease_repeats_no_job() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let mut scene = Scene::new(server, LEASE, 1);
    scene.program.url = scene.server.url_through(proxy.addr());
    scene.hire();
    for nth in 1..=5 {
        scene.send(&["sleep 15000"; 4]).await;
        scene.until_started(4 * nth);
    }
    for _ in 0..2 {
        proxy.set(Mode::blackhole(Scope::All));
        pass(LEASE / 2);
        proxy.set(Mode::Pass);
        pass(LEASE / 2);
    }
    scene.until_done();
    scene.assert_all_ran_once(20);
}

/// Another worker has done the jobs that the frozen worker held, of which it could start only one.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_held_by_a_frozen_worker_do_not_start_after_a_takeover() {
    let mut scene = Scene::new(RedisServer::start(), Duration::from_secs(2), 0);
    (scene.program.concurrency, scene.program.prefetch) = (1, 10);
    scene.hire();
    let busy = scene.send(&["sleep 5000"]).await;
    scene.until_started(1);
    let waiting = scene.send(&["ok"; 4]).await;
    until("the others to be delivered", LATEST, || pending(&scene) == 5);
    takeover(&mut scene, 1 + waiting.len());
    let starts = scene.starts();
    for job in &waiting {
        assert_eq!(starts[&job.to_string()], [scene.workers[1].pid()], "{starts:?}");
    }
    assert_eq!(starts[&busy[0].to_string()].len(), 2);
}

/// Redis delivers entries to a worker that is frozen while it reads: the reply is there when it thaws.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_delivered_to_a_frozen_worker_do_not_start_after_a_takeover() {
    let mut scene = Scene::new(RedisServer::start(), Duration::from_secs(2), 1);
    let mut sent = 0;
    let job = deliver_to_frozen(&scene, &mut sent).await;
    scene.workers[0].thaw();
    scene.until_done();
    assert_eq!(scene.starts()[&job].len(), 1, "without a takeover it runs once");
    let job = deliver_to_frozen(&scene, &mut sent).await;
    takeover(&mut scene, sent);
    assert_eq!(scene.starts()[&job], [scene.workers[1].pid()]);
}

/// Freezes a worker before the first jobs that it ever receives.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_jobs_of_a_frozen_worker_do_not_start_after_a_takeover() {
    let mut scene = Scene::new(RedisServer::start(), Duration::from_secs(2), 1);
    let mut sent = 0;
    let job = deliver_to_frozen(&scene, &mut sent).await;
    takeover(&mut scene, sent);
    assert_eq!(scene.starts()[&job], [scene.workers[1].pid()]);
}

/// Redis records that a step starts, and the worker is frozen before it learns so. The step becomes unknown, and a person lets it
/// run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_does_not_start_in_a_frozen_worker_after_a_decision() {
    // A step starts on its own, or together with the end of the one before.
    for (script, nth, audit) in [("step_begin", 2, "audit fail 1"), ("step_end", 1, "audit ok")] {
        let add = ["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", "j", "payload", audit];
        let (mut scene, _proxy) = frozen_before_start((script, nth), &add, SHORT);
        scene.hire();
        let (queue, job) = (queue(&scene.server).await, "j".parse().unwrap());
        until_state(&queue, &job, State::Dead).await;
        let (charge, ann) = ("charge".parse().unwrap(), Action::new("steps decide", "ann"));
        queue.steps().decide(&job, (&charge, Verdict::Run), None, &ann, LATEST).await.unwrap();
        until_state(&queue, &job, State::Done).await;
        thaw_and_run(&scene).await;
        assert_eq!(scene.starts()["j/charge"], [scene.workers[1].pid()], "{script}");
    }
}

/// The end of a step arrives long after the step might have run, but before anybody may take the job over.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_frozen_between_two_steps_goes_on() {
    let lease = Duration::from_secs(20);
    let add = [
        "XADD",
        "sf:{default}:jobs",
        "*",
        "type",
        "gift",
        "id",
        "j",
        "payload",
        "audit ok",
        "timeout_ms",
        "500",
    ];
    let (scene, _proxy) = frozen_before_start(("step_end", 1), &add, lease);
    pass(lease * 7 / 10);
    scene.workers[0].thaw();
    let (queue, job) = (queue(&scene.server).await, "j".parse().unwrap());
    let status = until_state(&queue, &job, State::Done).await;
    assert_eq!(status.attempts.len(), 1, "{status:?}");
    assert_eq!(scene.starts()["j/charge"], [scene.workers[0].pid()]);
}

/// Freezes a worker after Redis has allowed a job without steps to start.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_may_start_does_not_start_in_a_frozen_worker_after_a_takeover() {
    let expiry = ["expires_at_ms", "9999999999999"];
    let add = ["XADD", "sf:{default}:jobs", "*", "type", "test", "id", "j", "payload", "ok"];
    let (mut scene, _proxy) = frozen_before_start(("begin", 1), &[&add[..], &expiry].concat(), SHORT);
    scene.hire();
    scene.until_done();
    thaw_and_run(&scene).await;
    assert_eq!(scene.starts()["j"], [scene.workers[1].pid()]);
}

/// Adds a job to a worker with one slot, and freezes the worker before it gets the reply to the `nth` call of this script.
fn frozen_before_start((script, nth): (&str, usize), add: &[&str], lease: Duration) -> (Scene, Proxy) {
    let mut scene = Scene::new(RedisServer::start(), lease, 0);
    let proxy = Proxy::start(scene.server.addr());
    let needle = sha(&scene.server, source(script)).into_bytes();
    let direct = scene.program.url.clone();
    (scene.program.concurrency, scene.program.url) = (1, scene.server.url_through(proxy.addr()));
    scene.hire();
    scene.program.url = direct;
    proxy.set(Mode::Hold { needle, nth, way: Direction::Replies });
    scene.server.cmd(add);
    until("the start to be recorded", LATEST, || proxy.met() == nth);
    scene.workers[0].freeze();
    proxy.set(Mode::Pass);
    (scene, proxy)
}

/// Thaws the first worker, and waits until its slot has run another job.
async fn thaw_and_run(scene: &Scene) {
    let pid = scene.workers[0].pid();
    scene.workers[0].thaw();
    until_async("the thawed worker to run a job", LATEST, async || {
        let others = scene.send(&["sleep 100"; 2]).await;
        scene.until_done();
        let starts = scene.starts();
        others.iter().any(|job| starts[&job.to_string()].contains(&pid))
    })
    .await;
}

/// Freezes the worker while it waits for jobs, and sends one that Redis delivers to it. A worker that is frozen between two
/// reads gets nothing: it continues, and is frozen again.
async fn deliver_to_frozen(scene: &Scene, sent: &mut usize) -> String {
    let given = Duration::from_millis(500);
    let begun = Instant::now();
    while begun.elapsed() < LATEST {
        until("the worker to wait for jobs", LATEST, || waits(scene));
        scene.workers[0].freeze();
        let jobs = scene.send(&["ok"; 1]).await;
        *sent += 1;
        let since = Instant::now();
        while since.elapsed() < given {
            if pending(scene) == 1 {
                return jobs[0].to_string();
            }
            pass(Duration::from_millis(10));
        }
        scene.workers[0].thaw();
        scene.until_done();
    }
    panic!("no worker was frozen while it waited");
}

/// Returns true if a client of the server waits for entries of a stream.
fn waits(scene: &Scene) -> bool {
    let clients = redis::from_redis_value::<String>(scene.server.cmd(&["CLIENT", "LIST"])).unwrap();
    clients.lines().any(|client| client.contains(" cmd=xreadgroup ") && client.contains(" flags=b "))
}

/// Lets another worker take over what the frozen first one held, and then thaws the first one.
fn takeover(scene: &mut Scene, jobs: usize) {
    scene.workers[0].freeze();
    scene.hire();
    let begun = Instant::now();
    scene.until_done();
    assert!(begun.elapsed() > Duration::from_secs(1));
    assert_eq!(scene.starts().len(), jobs);
    scene.workers[0].thaw();
    pass(Duration::from_secs(1));
}

fn pending(scene: &Scene) -> usize {
    let summary = scene.server.cmd(&["XPENDING", "sf:{default}:jobs", "fleet"]);
    let redis::Value::Array(summary) = summary else { return 0 };
    redis::from_redis_value(summary[0].clone()).unwrap()
}
