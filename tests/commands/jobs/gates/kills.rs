//! Limits hold over several processes that are killed, and no job is lost.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use streamfleet::job::Rate;

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until;

const STREAM: &str = "sf:{default}:jobs";
const HELD: &str = "sf:{default}:held:type:test";
const JOBS: usize = 60;
const PROCESSES: usize = 4;
const LIMIT: i64 = 3;

/// The program notes when it starts and ends, outside of Redis. It inherits the path of its file.
const CONFIG: &str = r#"
[worker]
lease = "1s"
[queues.default]
tracking = "all"
[types.test]
handler = { exec = { command = ["sh", "-c", "note() { echo $STREAMFLEET_JOB_ID/$$ $1$(date +%s%3N) >> $NOTES; }; note +; sleep 0.05; note -"], env = { NOTES = "{notes}" } } }
max_losses = 20
backoff = { fixed = "10ms" }
[types.test.limits]
concurrency = 3
[telemetry]
listen = "127.0.0.1:0"
"#;

fn number(server: &RedisServer, command: &[&str]) -> i64 {
    redis::from_redis_value(server.cmd(command)).unwrap()
}

/// What the programs of the first test did in one second.
#[derive(Default)]
struct Load {
    granted: usize,
    /// The most that ran at once.
    most: i64,
    killed: usize,
}

/// A kill of a worker, and with it of its programs: between these times.
type Kill = (u64, u64);

/// Returns when programs ran, as their notes say. One that has not noted its end was killed.
fn runs(file: &Path, kills: &[Kill]) -> Vec<(u64, u64)> {
    let mut runs: BTreeMap<String, (Option<u64>, Option<u64>)> = BTreeMap::new();
    for (program, note) in notes(file) {
        let run = runs.entry(program).or_default();
        match note.split_at(1) {
            ("+", ms) => run.0 = ms.parse().ok(),
            (_, ms) => run.1 = ms.parse().ok(),
        }
    }
    let killed = |start: u64| {
        let kill = kills.iter().find(|(_, done)| *done >= start);
        start.max(kill.expect("nobody was killed, and a program has not noted its end").0)
    };
    let runs = runs.into_values().filter_map(|(start, end)| Some((start?, end)));
    runs.map(|(start, end)| (start, end.unwrap_or_else(|| killed(start)))).collect()
}

/// Returns what happened in each second, with the most programs that ran at once.
fn loads(runs: &[(u64, u64)], kills: &[Kill]) -> BTreeMap<u64, Load> {
    let began = runs.iter().map(|(start, _)| *start).min().unwrap_or(0);
    let second = |ms: u64| ms.saturating_sub(began) / 1000;
    let mut loads = BTreeMap::<u64, Load>::new();
    // Of the same millisecond, ends come first: nobody knows their order.
    let mut changes: Vec<(u64, i64)> =
        runs.iter().flat_map(|(start, end)| [(*start, 1), (*end, -1)]).collect();
    changes.sort_unstable();
    let mut running = 0;
    for (ms, change) in changes {
        running += change;
        let load = loads.entry(second(ms)).or_default();
        load.granted += usize::from(change > 0);
        load.most = load.most.max(running);
    }
    for (_, done) in kills {
        loads.entry(second(*done)).or_default().killed += 1;
    }
    eprintln!("second  killed  granted  most at once  allowed at once");
    for (second, Load { granted, most, killed }) in &loads {
        eprintln!("{second:>6} {killed:>7} {granted:>8} {most:>13} {LIMIT:>16}");
    }
    loads
}

#[test]
fn killed_workers_neither_exceed_the_limit_nor_lose_a_job() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (url, file) = (server.url(), dir.path().join("notes"));
    let config = CONFIG.replace("{notes}", file.to_str().unwrap());
    let start =
        || -> Worker { Launch::new(&["-c", "{config}", "--redis", &url, "worker"]).config(&config).start() };
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| start()).collect();
    let ids: Vec<String> = (0..JOBS)
        .map(|_| redis::from_redis_value(server.cmd(&["XADD", STREAM, "*", "type", "test"])).unwrap())
        .collect();
    let is_done = |id: &String| {
        let state = server.cmd(&["HGET", &format!("sf:{{default}}:job:{id}"), "state"]);
        redis::from_redis_value::<Option<String>>(state).unwrap().as_deref() == Some("done")
    };
    let (mut kills, mut last) = (Vec::<Kill>::new(), Instant::now());
    until("all jobs to be done", Duration::from_secs(90), || {
        let held = number(&server, &["HLEN", HELD]);
        assert!(held <= LIMIT, "{held} jobs hold places");
        // The first at once: on a busy machine, the jobs may be done before a pause is over.
        if kills.len() < 6 && (kills.is_empty() || last.elapsed() > Duration::from_millis(700)) {
            // The leader, too, in its turn.
            let (next, before) = (kills.len() % PROCESSES, now_ms());
            workers[next].kill9();
            kills.push((before, now_ms()));
            workers[next] = start();
            last = Instant::now();
        }
        ids.iter().all(is_done)
    });
    assert!(!kills.is_empty(), "all jobs were done before the first kill");
    until("the waiting lists to be empty", Duration::from_secs(10), || {
        number(&server, &["EXISTS", "sf:{default}:rooms:places"]) == 0
    });
    for worker in &workers {
        worker.term();
        worker.wait_exit(Duration::from_secs(20));
    }
    assert_eq!(number(&server, &["EXISTS", HELD]), 0);
    let loads = loads(&runs(&file, &kills), &kills);
    let (granted, most) =
        (loads.values().map(|load| load.granted).sum::<usize>(), loads.values().map(|load| load.most).max());
    assert!(granted >= JOBS && most >= Some(2), "{granted} starts are noted, at most {most:?} at once");
    assert!(most <= Some(LIMIT), "{most:?} programs ran at once");
}

/// A type with a breaker, whose handler does what the payload says.
const FRAGILE: &str = r#"
[worker]
lease = "1s"
[queues.default]
tracking = "all"
[types.test]
handler = { exec = { command = ["sh", "-c", "read word; case $word in fail) exit 1;; hang) [ -e $REPAIRED ] || sleep 60;; esac"], env = { REPAIRED = "{repaired}" } } }
max_attempts = 1
max_losses = 20
backoff = { fixed = "10ms" }
[types.test.limits.breaker]
ratio = 0.5
min = 2
window = "1m"
cooldown = "1s"
[telemetry]
listen = "127.0.0.1:0"
"#;

#[test]
fn a_breaker_goes_on_though_the_worker_of_the_job_that_it_tries_is_killed() {
    const BREAKER: &str = "sf:{default}:breaker:type:test";
    const LIST: &str = "sf:{default}:room:type:test";
    const LONG: Duration = Duration::from_secs(60);
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (url, repaired) = (server.url(), dir.path().join("repaired"));
    let config = FRAGILE.replace("{repaired}", repaired.to_str().unwrap());
    let start =
        || -> Worker { Launch::new(&["-c", "{config}", "--redis", &url, "worker"]).config(&config).start() };
    let submit = |word: &str| {
        let line = format!("{word}\n");
        let fields = ["XADD", STREAM, "*", "type", "test", "encoding", "raw", "payload", &line];
        redis::from_redis_value::<String>(server.cmd(&fields)).unwrap()
    };
    let worker = start();
    submit("fail");
    submit("fail");
    until("the breaker to open", LONG, || number(&server, &["HEXISTS", BREAKER, "until_ms"]) == 1);
    let is_tried = || number(&server, &["HEXISTS", BREAKER, "probe"]) == 1;
    // Two that a worker reads at once may come to the waiting list in any order. The one that hangs has to be tried first.
    let hang = submit("hang");
    until("a job to wait", LONG, || is_tried() || number(&server, &["XLEN", LIST]) == 1);
    let ids = [hang, submit("well")];
    until("a job to be tried", LONG, is_tried);
    worker.kill9();
    fs::write(&repaired, "").unwrap();
    let worker = start();
    until("all jobs to be done", LONG, || {
        ids.iter().all(|id| {
            let state = server.cmd(&["HGET", &format!("sf:{{default}}:job:{id}"), "state"]);
            redis::from_redis_value::<Option<String>>(state).unwrap().as_deref() == Some("done")
        })
    });
    worker.term();
    worker.wait_exit(Duration::from_secs(20));
}

/// Jobs that run until they are killed, one at a time of each order. None of them may be lost.
const ORDERS: &str = r#"
[worker]
lease = "1s"
[queues.default.keys."h.order"]
concurrency = 1
[types.test]
handler = { exec = { command = ["sleep", "600"] } }
max_losses = 1
[telemetry]
listen = "127.0.0.1:0"
"#;

#[test]
fn a_killed_worker_leaves_no_places_of_values_behind() {
    const LONG: Duration = Duration::from_secs(60);
    let server = RedisServer::start();
    let url = server.url();
    let start =
        || -> Worker { Launch::new(&["-c", "{config}", "--redis", &url, "worker"]).config(ORDERS).start() };
    let held =
        || -> Vec<String> { redis::from_redis_value(server.cmd(&["KEYS", "sf:{default}:held:*"])).unwrap() };
    let worker = start();
    for order in ["1", "2", "3"] {
        server.cmd(&["XADD", STREAM, "*", "type", "test", "h.order", order]);
    }
    until("each job to hold its place", LONG, || held().len() == 3);
    worker.kill9();
    let worker = start();
    until("all jobs to be dead", LONG, || number(&server, &["XLEN", "sf:{default}:dead"]) == 3);
    until("all places to be given back", LONG, || held().is_empty());
    worker.term();
    worker.wait_exit(Duration::from_secs(20));
}

/// The rate of the second test, and a program that notes the time of each start. It inherits the path of its file.
const PACED: &str = r#"
[worker]
lease = "1s"
[types.paced]
handler = { exec = { command = ["sh", "-c", "echo $STREAMFLEET_JOB_ID $(date +%s%3N) >> $STARTS"], env = { STARTS = "{starts}" } } }
max_losses = 20
backoff = { fixed = "10ms" }
[types.paced.limits]
rate = "40/s"
[telemetry]
listen = "127.0.0.1:0"
"#;

/// What happened in one second.
#[derive(Default)]
struct Second {
    /// Jobs that started for the first time.
    started: usize,
    /// Jobs that started again because their worker was killed.
    repeated: usize,
    killed: usize,
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

/// Returns who noted what in a file. A line whose writer was killed in the middle is no note.
fn notes(file: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.split_once(' '));
    lines.map(|(who, what)| (who.to_owned(), what.to_owned())).collect()
}

/// Returns who noted the time of a start, and the time.
pub(super) fn starts(file: &Path) -> Vec<(String, u64)> {
    notes(file).into_iter().map(|(who, ms)| (who, ms.parse().unwrap())).collect()
}

/// Prints what was granted and allowed in each second.
fn print(seconds: &BTreeMap<u64, Second>, allowed: impl Fn(u64) -> f64) {
    eprintln!("second  killed  started  again  started so far  allowed so far");
    let mut total = 0;
    for (second, Second { started, repeated, killed }) in seconds {
        total += started;
        let allowed = allowed((second + 1) * 1000);
        eprintln!("{second:>6} {killed:>7} {started:>8} {repeated:>6} {total:>15} {allowed:>15.0}");
    }
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[test]
    fn killed_workers_never_exceed_the_rate() {
        const ALL: usize = 400;
        const KILLS: usize = 6;
        let rate: Rate = "40/s".parse().unwrap();
        let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
        let (url, file) = (server.url(), dir.path().join("starts"));
        let config = PACED.replace("{starts}", file.to_str().unwrap());
        let start = || -> Worker {
            Launch::new(&["-c", "{config}", "--redis", &url, "worker"]).config(&config).start()
        };
        let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| start()).collect();
        let began = now_ms();
        let mut pipe = redis::pipe();
        for _ in 0..ALL {
            pipe.cmd("XADD").arg(&[STREAM, "*", "type", "paced"]);
        }
        server.try_pipe(&pipe).unwrap();
        let (mut kills, mut last) = (Vec::new(), Instant::now());
        until("all jobs to have started", Duration::from_secs(90), || {
            if kills.len() < KILLS && last.elapsed() > Duration::from_millis(1300) {
                let next = kills.len() % PROCESSES;
                workers[next].kill9();
                kills.push(now_ms());
                workers[next] = start();
                last = Instant::now();
            }
            starts(&file).iter().map(|(job, _)| job).collect::<HashSet<_>>().len() == ALL
        });
        let mut starts = starts(&file);
        starts.sort_by_key(|(_, ms)| *ms);
        // The bucket is full at first, and a leader that comes late makes up for at most a quarter of a second.
        let allowed = |after_ms: u64| rate.burst() as f64 + 40.0 * (after_ms as f64 / 1000.0 + 0.25) + 1.0;
        let (mut seen, mut seconds) = (HashSet::new(), BTreeMap::<u64, Second>::new());
        for (job, ms) in &starts {
            let second = seconds.entry((ms - began) / 1000).or_default();
            if seen.insert(job) {
                second.started += 1;
                let most = allowed(ms - began);
                assert!(seen.len() as f64 <= most, "{} started in {} ms", seen.len(), ms - began);
            } else {
                second.repeated += 1;
            }
        }
        for ms in kills {
            seconds.entry((ms - began) / 1000).or_default().killed += 1;
        }
        print(&seconds, allowed);
        assert!(
            seconds.values().any(|second| second.killed > 0),
            "all jobs had started before the first kill"
        );
        for worker in &workers {
            worker.term();
            worker.wait_exit(Duration::from_secs(20));
        }
    }
}
