//! Limits of concurrency and rate, and breakers, over several processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet::job::{Breaker, Encoding, GateName, Lane, Limits, Rate};
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, Producer, RawPayload, Submission};

use harness::fleet::{Acts, Running, config, quick, submit};
use harness::scene::{LONG, SOON, Scene};
use harness::wait::until_async;

const GATES: &str = "sf:{default}:gates";

pub(super) fn test_type() -> GateName {
    "type:test".parse().unwrap()
}

/// Counts how many of its jobs run at once, and notes when each started.
#[derive(Clone, Default)]
pub(super) struct Crowd {
    takes: Duration,
    running: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    starts: Arc<Mutex<Vec<Instant>>>,
}

impl Crowd {
    pub(super) fn taking(takes: Duration) -> Self {
        Self { takes, ..Self::default() }
    }

    /// Returns how many ran at once, at most.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }
}

impl Handler for Crowd {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.starts.lock().unwrap().push(Instant::now());
        tokio::time::sleep(self.takes).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_run_at_once_than_the_limit_allows() {
    let scene = Scene::new().await;
    scene.queue.gates().set(&test_type(), &Limits::default().concurrency(3)).await.unwrap();
    let crowd = Crowd::taking(Duration::from_millis(10));
    let fleets = [0, 1].map(|_| scene.sound_fleet(LONG, crowd.clone()));
    for _ in 0..100 {
        submit(&scene.queue, "quick").await;
    }
    until_async("all to be done", SOON, async || crowd.done() == 100).await;
    scene.until_at_rest().await;
    assert_eq!(crowd.most(), 3);
    for fleet in fleets {
        fleet.stop().await;
    }
    assert_eq!(scene.int(&["EXISTS", "sf:{default}:held:type:test"]), 0, "all places are given back");
}

/// Returns a configuration that lets one job of the type run at a time.
fn one_at_a_time(scene: &Scene) -> FleetConfig {
    let mut config = scene.config(LONG);
    let one = Limits::default().concurrency(1);
    config.worker.type_limits.insert("test".parse().unwrap(), one);
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_limits_come_back_after_all_keys_were_lost() {
    let scene = Scene::new().await;
    let crowd = Crowd::taking(Duration::from_millis(20));
    let fleet = Running::start_with(one_at_a_time(&scene), quick(3), crowd.clone());
    let is_noted = || scene.int(&["HEXISTS", GATES, "c:type:test"]) == 1;
    until_async("the limit to be noted", SOON, async || is_noted()).await;
    scene.server.cmd(&["FLUSHALL"]);
    until_async("the limit to be noted again", SOON, async || is_noted()).await;
    until_async("the group to be there again", SOON, async || {
        scene.queue.consumers(Lane::Normal).await.is_ok_and(|consumers| !consumers.is_empty())
    })
    .await;
    for _ in 0..10 {
        submit(&scene.queue, "quick").await;
    }
    until_async("all to be done", SOON, async || crowd.done() == 10).await;
    assert_eq!(crowd.most(), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_a_limit_wait_while_nobody_can_read_the_rules() {
    let scene = Scene::new().await;
    scene.server.cmd(&["SET", GATES, "x"]);
    let crowd = Crowd::default();
    let fleet = Running::start_with(one_at_a_time(&scene), quick(3), crowd.clone());
    submit(&scene.queue, "quick").await;
    until_async("the job to be read", SOON, async || {
        scene.queue.snapshot().await.is_ok_and(|snapshot| snapshot.running() == 1)
    })
    .await;
    assert_eq!(crowd.done(), 0);
    scene.server.cmd(&["DEL", GATES]);
    until_async("the job to be done", SOON, async || crowd.done() == 1).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_start_at_the_rate_that_is_allowed() {
    const JOBS: usize = 400;
    let scene = Scene::new().await;
    let rate: Rate = "100/s".parse().unwrap();
    scene.queue.gates().set(&GateName::queue(), &Limits::default().rate(rate)).await.unwrap();
    let crowd = Crowd::default();
    let fleets = [0, 1].map(|_| scene.sound_fleet(LONG, crowd.clone()));
    for _ in 0..JOBS {
        submit(&scene.queue, "quick").await;
    }
    until_async("all to be done", 2 * SOON, async || crowd.done() == JOBS).await;
    for fleet in fleets {
        fleet.stop().await;
    }
    let mut starts = crowd.starts.lock().unwrap().clone();
    starts.sort_unstable();
    // Without the burst at the beginning.
    let (from, to) = (JOBS / 4, JOBS - 1);
    let per_second = (to - from) as f64 / (starts[to] - starts[from]).as_secs_f64();
    // At most a quarter of a second is made up for if the leader comes late, as it often does on a very busy machine.
    assert!((10.0..=112.0).contains(&per_second), "{per_second} a second");
    let allowed = |elapsed: Duration| 100.0 * (elapsed.as_secs_f64() + 0.25) + rate.burst() as f64 + 1.0;
    for (nth, start) in starts.iter().enumerate() {
        assert!(nth as f64 <= allowed(*start - starts[0]), "the {nth}th started too early");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lacks_the_type_uses_up_no_start() {
    let scene = Scene::new().await;
    let (gates, handler) = (scene.queue.gates(), Acts::well());
    gates.close(&test_type(), "ann", "", None).await.unwrap();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    submit(&scene.queue, "quick").await;
    let snapshot = async || scene.queue.snapshot().await.unwrap();
    until_async("the job to wait in the waiting list", SOON, async || snapshot().await.in_rooms == 1).await;
    fleet.stop().await;
    let rate = Rate::new(1, Duration::from_secs(3600)).unwrap();
    gates.set(&test_type(), &Limits::default().rate(rate)).await.unwrap();
    // This lets the job out, with the only start of this hour.
    gates.open(&test_type()).await.unwrap();
    let stranger = Fleet::builder(scene.config(LONG)).handler_with("another", quick(3), Acts::well());
    let stranger = Running::of(stranger.unwrap().build());
    until_async("the job to wait for its type", SOON, async || snapshot().await.in_unknown_rooms == 1).await;
    stranger.stop().await;
    let fleet = scene.sound_fleet(LONG, handler.clone());
    until_async("the job to run", SOON, async || handler.jobs() == 1).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_names_the_values_with_the_most_jobs_and_counts_the_others() {
    const VALUES: usize = 205;
    let scene = Scene::new().await;
    let each: GateName = "key:h.tenant".parse().unwrap();
    scene.queue.gates().set(&each, &Limits::default().concurrency(1)).await.unwrap();
    for nth in 0..VALUES {
        let waitlist = format!("key:h.tenant={nth}");
        scene.server.cmd(&["HSET", "sf:{default}:rooms", &waitlist, "1"]);
        // The last ones have two jobs each.
        for _ in 0..=usize::from(nth >= 5) {
            scene.server.cmd(&["XADD", &format!("sf:{{default}}:room:{waitlist}"), "*", "type", "test"]);
        }
    }
    let listed = scene.queue.gates().list().await.unwrap();
    let rule = &listed[0];
    assert_eq!((rule.rule.gate.clone(), rule.inherited, rule.waiting), (each, false, 5));
    assert_eq!(listed.len(), 201);
    assert!(listed[1..].iter().all(|gate| gate.inherited && gate.waiting == 2), "{listed:?}");
}

pub(super) async fn is_tripped(scene: &Scene) -> bool {
    let listed = scene.queue.gates().list().await.unwrap();
    listed.iter().any(|gate| gate.tripped_until.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_opens_after_failures_and_closes_after_a_success() {
    let scene = Scene::new().await;
    // Long, because a busy machine notices late that it has opened.
    let times = (Duration::from_secs(60), Duration::from_secs(4));
    let breaker = Breaker::new(0.5, 4, times.0, times.1).unwrap();
    scene.queue.gates().set(&test_type(), &Limits::default().breaker(breaker)).await.unwrap();
    let handler = Acts::new(|_, payload| match payload {
        b"fail" => Err(JobError::fatal("the bank is down")),
        _ => Ok(serde_json::Value::Null),
    });
    let fleet = scene.sound_fleet(LONG, handler.clone());
    for _ in 0..4 {
        submit(&scene.queue, "fail").await;
    }
    until_async("the breaker to open", SOON, async || is_tripped(&scene).await).await;
    let opened = Instant::now();
    for _ in 0..20 {
        submit(&scene.queue, "well").await;
    }
    until_async("all to run", 2 * SOON, async || handler.jobs() == 24).await;
    assert!(opened.elapsed() >= Duration::from_millis(700), "{:?}", opened.elapsed());
    until_async("the breaker to close", SOON, async || !is_tripped(&scene).await).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_breaker_of_a_dependency_holds_back_all_types_that_depend_on_it() {
    let scene = Scene::new().await;
    // It stays open until the end of the test.
    let breaker = Breaker::new(0.1, 4, Duration::from_secs(600), Duration::from_secs(600)).unwrap();
    let each: GateName = "key:h.dependency".parse().unwrap();
    scene.queue.gates().set(&each, &Limits::default().breaker(breaker)).await.unwrap();
    let handler = Acts::new(|_, payload| match payload {
        b"fail" => Err(JobError::fatal("the bank is down")),
        _ => Ok(serde_json::Value::Null),
    });
    let mut config = config(&scene.server.url());
    config.worker.lease = LONG;
    let mut builder = Fleet::builder(config);
    for job_type in ["pay", "refund"] {
        builder = builder.handler_with(job_type, quick(1), handler.clone()).unwrap();
    }
    let fleet = Running::of(builder.build());
    let producer = Producer::new(scene.queue.clone());
    let send = async |job_type: &str, payload: &str, dependency: &str| {
        let submission =
            Submission::new(job_type).unwrap().payload(payload.to_owned(), Encoding::Raw).unwrap();
        producer.submit(submission.header("dependency", dependency).unwrap()).await.unwrap()
    };
    for _ in 0..4 {
        send("pay", "fail", "bank").await;
    }
    until_async("all to be dead", SOON, async || scene.queue.snapshot().await.unwrap().dead == 4).await;
    // Its worker tells the gate a moment after a job's end.
    let waits = until_async("a job of the other type to wait", SOON, async || {
        let id = send("refund", "well", "bank").await;
        until_async("it to run or wait", SOON, async || {
            handler.runs(&id) == 1 || scene.queue.snapshot().await.unwrap().in_rooms == 1
        })
        .await;
        (handler.runs(&id) == 0).then_some(id)
    })
    .await;
    let other = send("pay", "well", "relay").await;
    until_async("the job of another dependency to run", SOON, async || handler.runs(&other) == 1).await;
    let status = scene.queue.status(&waits).await.unwrap().unwrap();
    assert_eq!(status.waitlist.as_deref(), Some("key:h.dependency=bank"));
    fleet.stop().await;
}
