//! How long one script blocks Redis next to a large backlog, according to the server's slow log.
//!
//! The slow log measures wall time, and other tests run at the same time. So a script with a known amount of work runs all the
//! while, and the ratio of its longest to its shortest time is allowed to the other scripts too. A script that is really slow is
//! slow every time; one that the machine delayed is not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;
use streamfleet::{JobError, Producer};

use super::cost::fill;
use harness::fleet::{Acts, Running, config, quick};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, Scene, job};
use harness::wait::until_async;

const OTHERS: &str = "sf:{default}:jobs:low";
const DEAD: &str = "sf:{default}:dead";

/// How long a script may take on an idle machine, in microseconds.
const LONGEST: i64 = 5_000;

/// Work that takes about a millisecond.
const KNOWN: &str = "local n = 0 for i = 1, 200000 do n = n + i end";

/// An entry of the slow log: how many microseconds a command took, and its beginning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    us: i64,
    command: String,
    is_yardstick: bool,
}

fn slowest(server: &RedisServer) -> Vec<Slow> {
    let Value::Array(entries) = server.cmd(&["SLOWLOG", "GET", "-1"]) else { panic!("no slow log") };
    let entry = |entry: Value| {
        let Value::Array(parts) = entry else { panic!("{entry:?}") };
        let us: i64 = redis::from_redis_value(parts[2].clone()).unwrap();
        let Value::Array(args) = &parts[3] else { panic!("{parts:?}") };
        let text = |arg: &Value| match arg {
            Value::BulkString(bytes) => {
                String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).replace('\n', " ")
            }
            other => format!("{other:?}"),
        };
        let whole = |arg: &Value| matches!(arg, Value::BulkString(bytes) if bytes.ends_with(MARK.as_bytes()));
        let is_yardstick = args.iter().any(whole);
        Slow { us, command: args.iter().take(12).map(text).collect::<Vec<_>>().join(" "), is_yardstick }
    };
    let mut all: Vec<_> = entries.into_iter().map(entry).collect();
    all.sort();
    all.reverse();
    all
}

/// A known amount of work, repeated until this is dropped.
pub(super) struct Yardstick {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Marks the yardstick's script in the slow log.
const MARK: &str = "return 'yardstick'";

impl Yardstick {
    /// Starts the work.
    pub(super) fn lay(server: &RedisServer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut client) = (Arc::clone(&stop), server.client());
        let command = redis::cmd("EVAL").arg(format!("{KNOWN} {MARK}")).arg(1).arg("sf:yard").to_owned();
        let thread = std::thread::spawn(move || {
            loop {
                command.exec(&mut client).unwrap();
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                // The less of Redis's time this takes, the fewer of the machine's delays it meets.
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Returns the shortest and the longest time that the work took, and all other scripts in the slow log.
    fn read(mut self, server: &RedisServer) -> (i64, i64, Vec<Slow>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        let all = slowest(server);
        let scripts = all.into_iter().filter(|slow| slow.command.starts_with("EVAL"));
        let (ours, others): (Vec<_>, Vec<_>) = scripts.partition(|slow| slow.is_yardstick);
        (ours.last().unwrap().us, ours[0].us, others)
    }

    /// Fails if a script took longer than the machine's load explains.
    pub(super) fn judge(self, server: &RedisServer) -> Verdict {
        self.judge_by(server, LONGEST)
    }

    /// The same if a script may take this many microseconds on an idle machine.
    pub(super) fn judge_by(self, server: &RedisServer, longest: i64) -> Verdict {
        let (least, most, others) = self.read(server);
        let allowed = longest * most / least;
        println!("known work took {least} to {most} us");
        tell(&others);
        match others.first() {
            Some(slow) if slow.us >= allowed => Err(format!("more than {allowed} us: {slow:?}")),
            Some(_) | None => Ok(()),
        }
    }
}

/// Prints the shortest and the longest time of each script.
fn tell(slow: &[Slow]) {
    let mut kinds: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for slow in slow {
        let words = slow.command.split(' ');
        let keys = words.filter(|word| word.starts_with("sf:")).take(4).collect::<Vec<_>>();
        kinds.entry(keys.join(" ")).or_default().push(slow.us);
    }
    for (kind, times) in kinds {
        println!("{} to {} us, {} times: {kind}", times[times.len() - 1], times[0], times.len());
    }
}

/// Empties the slow log, and lets it note every command that takes this many microseconds.
pub(super) fn log_from(server: &RedisServer, us: &str) {
    for setting in [["slowlog-log-slower-than", us], ["slowlog-max-len", "1000000"]] {
        server.cmd(&["CONFIG", "SET", setting[0], setting[1]]);
    }
    server.cmd(&["SLOWLOG", "RESET"]);
}

fn fails_twice() -> Acts {
    Acts::new(|context, _| match context.attempt() {
        1 => Err(JobError::retry("once more")),
        _ => Err(JobError::fatal("no")),
    })
}

fn fleet(scene: &Scene, handler: Acts) -> Running {
    let mut config = config(&scene.server.url());
    config.worker.lease = LONG;
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 500;
    }
    Running::start_with(config, quick(3), handler)
}

fn backlog() -> u32 {
    std::env::var("STREAMFLEET_TEST_WAITING").map_or(200_000, |text| text.parse().unwrap())
}

/// Lets the other jobs stay in their lane while the fleet works: its group begins behind them.
fn never_deliver(server: &RedisServer) {
    server.cmd(&["XGROUP", "CREATE", OTHERS, "fleet", "$"]);
}

async fn until_dead(scene: &Scene, jobs: i64) {
    until_async("all to be dead", 15 * SOON, async || scene.int(&["XLEN", DEAD]) == jobs).await;
}

/// No script blocks Redis for long, however many jobs there are.
#[tokio::test(flavor = "multi_thread")]
async fn promise_9_no_script_blocks_redis_for_long() {
    in_one_of_three(async || many_jobs().await).await;
}

/// Large jobs do not block Redis either: the other half of the promise.
#[tokio::test(flavor = "multi_thread")]
async fn promise_9_scripts_carry_no_large_fields() {
    in_one_of_three(async || large_jobs().await).await;
}

/// An error names the scripts of one run that took longer than allowed.
pub(super) type Verdict = Result<(), String>;

/// Fails if scripts took longer than allowed in three runs in a row.
pub(super) async fn in_one_of_three(run: impl AsyncFn() -> Verdict) {
    let mut slow = Vec::new();
    while let Err(found) = run().await {
        slow.push(found);
        assert!(slow.len() < 3, "three times in a row:\n{}", slow.join("\n"));
    }
}

async fn many_jobs() -> Verdict {
    let scene = Scene::new().await;
    fill(&scene.server, OTHERS, backlog(), 100);
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let producer = Producer::new(scene.queue.clone());
    let due = scene.queue.snapshot().await.unwrap().now.after(Duration::from_secs(2));
    let plain = (0..1_000).map(|_| job("{}"));
    let own = (0..1_000).map(|nth| job("{}").id(format!("own-{nth}").parse().unwrap()));
    let later = (0..4_000).map(|_| job("{}").at(due));
    producer.submit_all(plain.chain(own).chain(later)).await.unwrap();
    never_deliver(&scene.server);
    let fleet = fleet(&scene, fails_twice());
    until_dead(&scene, 6_000).await;
    let unknown = "nobody".parse().unwrap();
    scene.queue.cancel(&unknown, "a test", LONG).await.unwrap();
    scene.queue.delayed().page(0, 1_000).await.unwrap();
    fleet.stop().await;
    yardstick.judge(&scene.server)
}

async fn large_jobs() -> Verdict {
    const LARGE: usize = 8 * 1024 * 1024 - 200;
    const JOBS: i64 = 40;
    let scene = Scene::new().await;
    let large = vec![b'x'; LARGE];
    fill(&scene.server, OTHERS, backlog(), 100);
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let producer = Producer::new(scene.queue.clone());
    let due = scene.queue.snapshot().await.unwrap().now.after(Duration::from_secs(4));
    for _ in 0..JOBS - 10 {
        producer.submit(job(large.clone()).at(due)).await.unwrap();
    }
    for nth in 0..5 {
        producer.submit(job(large.clone())).await.unwrap();
        producer.submit(job(large.clone()).id(format!("own-{nth}").parse().unwrap())).await.unwrap();
    }
    never_deliver(&scene.server);
    let running = fleet(&scene, fails_twice());
    until_dead(&scene, JOBS).await;
    running.stop().await;
    let page = scene.queue.dead_letters().recent(None, 100).await.unwrap();
    assert!(page.iter().all(|letter| letter.fields.get(b"payload") == Some(&large[..])));
    for letter in page.iter().take(3) {
        scene.queue.dead_letters().replay(letter.entry, &letter.job()).await.unwrap();
    }
    yardstick.judge(&scene.server)
}
