//! A fleet whose queue is shared between tenants.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet::job::{EntryId, FairShare, JobId};
use streamfleet::{FleetConfig, Handler, JobContext, JobError, RawPayload};
use streamfleet_engine::admin::Cancellation;

use harness::alone::alone;
use harness::fleet::{Running, quick};
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::slowness::Slowness;
use harness::wait::{until, until_async, waited_for};

/// How many jobs one script adds: more would block Redis for too long.
const PAGE: usize = 2000;
const SLOTS: usize = 4;

/// Returns how many jobs flood the queue: they last longer than the test. `STREAMFLEET_TEST_FLOOD` chooses, such as 100000.
fn flood() -> usize {
    std::env::var("STREAMFLEET_TEST_FLOOD").map_or(20_000, |text| text.parse().unwrap())
}

/// Notes whose jobs started, in order. The payload is the tenant.
#[derive(Clone)]
struct Tenants {
    takes: Duration,
    starts: Arc<Mutex<Vec<String>>>,
    done: Arc<AtomicUsize>,
}

impl Tenants {
    fn new(takes: Duration) -> Self {
        Self { takes, starts: Arc::default(), done: Arc::default() }
    }

    fn started(&self) -> usize {
        self.starts.lock().unwrap().len()
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    /// Returns how many jobs of a tenant started, of those from the n-th on.
    fn of(&self, tenant: &str, from: usize) -> usize {
        self.starts.lock().unwrap().iter().skip(from).filter(|of| *of == tenant).count()
    }
}

impl Handler for Tenants {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        let tenant = String::from_utf8_lossy(&payload.0).into_owned();
        self.starts.lock().unwrap().push(tenant);
        tokio::time::sleep(self.takes).await;
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Returns a configuration that runs few jobs at once, in a queue that is shared in this way.
fn config(scene: &Scene, fair: Option<FairShare>) -> FleetConfig {
    let mut config = harness::fleet::config(&scene.server.url());
    for queue in config.worker.queues.values_mut() {
        *queue = queue.clone().concurrency(SLOTS).fair(fair.clone());
    }
    config
}

fn by_tenant() -> FairShare {
    FairShare::new("h.tenant").unwrap()
}

fn add(server: &RedisServer, tenant: &str, jobs: usize) {
    let add = "for nth = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'h.tenant', ARGV[2], 'payload', ARGV[2]) end return 0";
    for begun in (0..jobs).step_by(PAGE) {
        server.cmd(&["EVAL", add, "1", STREAM, &PAGE.min(jobs - begun).to_string(), tenant]);
    }
}

async fn in_turn(scene: &Scene) -> u64 {
    scene.queue.snapshot().await.unwrap().in_fair_rooms
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_tenant_delays_another_by_two_seconds_at_most() {
    let _alone = alone();
    let scene = Scene::new().await;
    let handler = Tenants::new(Duration::from_millis(20));
    let fleet = Running::start_with(config(&scene, Some(by_tenant())), quick(3), handler.clone());
    until_async("the share to be noted", SOON, async || {
        scene.queue.gates().rules().await.unwrap().fair().is_some()
    })
    .await;
    let (flood, slowness) = (flood(), Slowness::begin());
    add(&scene.server, "a", flood);
    add(&scene.server, "b", 1);
    let ((), first) =
        waited_for("the other tenant's job to start", SOON, async || handler.of("b", 0) == 1).await;
    let snapshot = scene.queue.snapshot().await.unwrap();
    assert!(snapshot.in_fair_rooms > flood as u64 / 2, "the flood is over: {snapshot:?}");
    assert!(snapshot.oldest_in_fair_rooms.is_some(), "{snapshot:?}");
    // Again, while all others are sorted.
    add(&scene.server, "c", 1);
    let ((), second) =
        waited_for("the third tenant's job to start", SOON, async || handler.of("c", 0) == 1).await;
    let slowness = slowness.end();
    eprintln!(
        "a flood of {flood} jobs delayed other tenants by {first:?} while it was sorted, then by {second:?}, \
         on a machine that was {slowness:.1} times slower than at its best"
    );
    let most = Duration::from_secs(2).mul_f64(slowness);
    assert!(first <= most && second <= most, "{first:?}, {second:?} of {most:?}");
    fleet.stop().await;
    let waiting = scene.queue.snapshot().await.unwrap().waiting();
    assert_eq!(waiting + handler.done() as u64, flood as u64 + 2, "some jobs are lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_start_as_many_jobs_as_their_weights_say() {
    let _alone = alone();
    const JOBS: usize = 600;
    let scene = Scene::new().await;
    add(&scene.server, "a", 4000);
    add(&scene.server, "b", 4000);
    let (handler, share) = (Tenants::new(Duration::from_millis(10)), by_tenant().weight("a", 3).unwrap());
    let fleet = Running::start_with(config(&scene, Some(share)), quick(3), handler.clone());
    until_async("all to be sorted", SOON, async || {
        let snapshot = scene.queue.snapshot().await.unwrap();
        snapshot.in_fair_rooms > 4000 && snapshot.waiting() - snapshot.in_fair_rooms <= 16
    })
    .await;
    // What was in the lane before.
    let from = handler.started() + 32;
    until_async("many to start", 2 * SOON, async || handler.started() >= from + JOBS).await;
    let (a, b) = (handler.of("a", from), handler.of("b", from));
    let ratio = a as f64 / b as f64;
    assert!((2.4..=3.6).contains(&ratio), "{a} to {b}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_not_shared_any_more_empties_its_waiting_lists() {
    let _alone = alone();
    const JOBS: usize = 1000;
    let scene = Scene::new().await;
    let handler = Tenants::new(Duration::from_millis(10));
    let fleet = Running::start_with(config(&scene, Some(by_tenant())), quick(3), handler.clone());
    add(&scene.server, "a", JOBS);
    until_async("some to wait for their turn", SOON, async || in_turn(&scene).await > 100).await;
    fleet.stop().await;
    let fleet = Running::start_with(config(&scene, None), quick(3), handler.clone());
    until_async("the waiting lists to be empty", SOON, async || in_turn(&scene).await == 0).await;
    until_async("all to be done", 2 * SOON, async || handler.done() == JOBS).await;
    scene.until_at_rest().await;
    assert_eq!(handler.started(), JOBS, "some ran twice");
    fleet.stop().await;
    let left = ["sf:{default}:fair", "sf:{default}:fair:normal", "sf:{default}:rooms:places"];
    assert_eq!(left.map(|key| scene.int(&["EXISTS", key])), [0; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_list_with_very_many_jobs_does_not_hold_up_another() {
    let _alone = alone();
    const JOBS: usize = 60_000;
    let scene = Scene::new().await;
    let fill = "for nth = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'payload', ARGV[2], 'lane', 'high', 'room_gates', ARGV[3]) end redis.call('HSET', KEYS[2], ARGV[3], 1) return 0";
    for (tenant, jobs) in [("a", JOBS), ("b", 1)] {
        let gate = format!("key:h.tenant={tenant}");
        let waitlist = format!("sf:{{default}}:room:{gate}");
        let jobs = jobs.to_string();
        scene.server.cmd(&["EVAL", fill, "2", &waitlist, "sf:{default}:rooms", &jobs, tenant, &gate]);
    }
    let handler = Tenants::new(Duration::ZERO);
    let fleet = Running::start_with(config(&scene, None), quick(3), handler.clone());
    // Nothing closes either gate, so the leader lets all of them out.
    until_async("the other waiting list's job to start", SOON, async || handler.of("b", 0) == 1).await;
    let left = scene.int(&["XLEN", "sf:{default}:room:key:h.tenant=a"]);
    assert!((1..60_000).contains(&left), "{left}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_for_their_turn_are_found_and_cancelled() {
    let _alone = alone();
    let scene = Scene::new().await;
    let handler = Tenants::new(Duration::from_millis(50));
    let fleet = Running::start_with(config(&scene, Some(by_tenant())), quick(3), handler.clone());
    add(&scene.server, "a", 300);
    until_async("some to wait for their turn", SOON, async || in_turn(&scene).await > 100).await;
    let places = scene.server.cmd(&["HKEYS", "sf:{default}:rooms:places"]);
    let ids: Vec<String> = redis::from_redis_value(places).unwrap();
    // Its turn comes much later than that of the first ones.
    let last = ids.iter().map(|id| id.parse::<EntryId>().unwrap()).max().unwrap();
    let last: JobId = last.to_string().parse().unwrap();
    let status = scene.queue.status(&last).await.unwrap().unwrap();
    assert_eq!(status.waitlist.as_deref(), Some("fair:normal:=a"));
    assert_eq!(scene.queue.cancel(&last, "ann", LONG).await.unwrap(), Cancellation::Done);
    until_async("the others to be done", 2 * SOON, async || handler.done() == 299).await;
    scene.until_at_rest().await;
    assert_eq!(handler.started(), 299);
    fleet.stop().await;
}

const CONFIG: &str = r#"
[worker]
lease = "1s"
[queues.default]
tracking = "all"
concurrency = 4
fair_by = "h.tenant"
[types.test]
handler = { exec = { command = ["sleep", "0.02"] } }
max_losses = 20
backoff = { fixed = "10ms" }
[telemetry]
listen = "127.0.0.1:0"
"#;

#[test]
fn killed_workers_lose_no_job_of_a_shared_queue() {
    let _alone = alone();
    const JOBS: usize = 300;
    let server = RedisServer::start();
    let url = server.url();
    let start =
        || -> Worker { Launch::new(&["-c", "{config}", "--redis", &url, "worker"]).config(CONFIG).start() };
    let mut workers: Vec<Worker> = (0..2).map(|_| start()).collect();
    let add = |nth: usize| -> String {
        let tenant = if nth.is_multiple_of(10) { "b" } else { "a" };
        redis::from_redis_value(server.cmd(&["XADD", STREAM, "*", "type", "test", "h.tenant", tenant]))
            .unwrap()
    };
    let ids: Vec<String> = (0..JOBS).map(add).collect();
    let is_done = |id: &String| {
        let state = server.cmd(&["HGET", &format!("sf:{{default}}:job:{id}"), "state"]);
        redis::from_redis_value::<Option<String>>(state).unwrap().as_deref() == Some("done")
    };
    let (mut killed, mut last) = (0, Instant::now());
    until("all jobs to be done", Duration::from_secs(90), || {
        // The first at once: on a busy machine, the jobs may be done before a pause is over.
        if killed < 4 && (killed == 0 || last.elapsed() > Duration::from_millis(700)) {
            workers[killed % 2].kill9();
            workers[killed % 2] = start();
            (killed, last) = (killed + 1, Instant::now());
        }
        ids.iter().all(is_done)
    });
    assert!(killed > 0, "all jobs were done before the first kill");
    for key in ["sf:{default}:rooms", "sf:{default}:rooms:places", "sf:{default}:fair:normal"] {
        until("the waiting lists to be forgotten", Duration::from_secs(10), || {
            redis::from_redis_value::<i64>(server.cmd(&["EXISTS", key])).unwrap() == 0
        });
    }
    for worker in &workers {
        worker.term();
        worker.wait_exit(Duration::from_secs(20));
    }
}
