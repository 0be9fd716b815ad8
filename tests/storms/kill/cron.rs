//! Recurring jobs while workers are killed and frozen: each tick is one job.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use streamfleet::Queue;
use streamfleet::cron::Missed;
use streamfleet::job::{Encoding, Lane};

use harness::alone::alone;
use harness::cron::each_second;
use harness::fleet::queue;
use harness::ledger::{How, Ledger, Record};
use harness::nemesis::{Intensity, Plan, seed};
use harness::process::Worker;
use harness::program::Program;
use harness::redis_server::{Aof, RedisServer};
use harness::rest::jobs_left;
use harness::wait::{until, until_async};
use harness::witness::Witness;

const WORKERS: usize = 4;
const ENTRIES: usize = 25;
const TICKS: u64 = 40;
const OVER: Duration = Duration::from_secs(36);
const LEADER: &str = "sf:{default}:leader";

/// How long sixteen processes may take to start.
const JOINED: Duration = Duration::from_secs(30);

/// How long the last ticks and their jobs may take on a slow machine.
const AT_REST: Duration = Duration::from_secs(90);

fn names() -> Vec<String> {
    (0..ENTRIES).map(|nth| format!("k{nth:02}")).collect()
}

/// Adds the entries and returns their ticks in the next 40 seconds.
async fn begin(queue: &Queue) -> BTreeSet<(String, u64)> {
    for name in names() {
        let entry = each_second(&name).payload(b"ok", Encoding::Raw).unwrap();
        queue.cron().put(&entry).await.unwrap();
    }
    let table = queue.cron().table().await.unwrap();
    let ticks = table.entries.iter().flat_map(|status| {
        let first = status.handled.as_ms() / 1000 + 1;
        (first..first + TICKS).map(|second| (status.name.to_string(), second * 1000))
    });
    ticks.collect()
}

/// A thousand ticks in 40 real seconds: 25 entries with a tick each second. Nothing else is simulated. The clock is that of Redis,
/// and the witness (`MONITOR`) counts what Redis executes, so a tick that was submitted twice would be counted twice although
/// both jobs had the same id.
#[test]
fn each_of_1000_ticks_is_one_job_while_workers_are_killed_and_frozen() {
    let _alone = alone();
    let server = RedisServer::builder().aof(Aof::EverySec).start();
    let dir = tempfile::tempdir().unwrap();
    let (ledger, program) = (
        Ledger::new(dir.path()),
        Program { retention_ms: 600_000, ..Program::new(&server.url(), dir.path()) },
    );
    let seed = seed();
    let freeze_for = Duration::from_millis(1_300)..=Duration::from_millis(3_000);
    let plan =
        Plan::new(seed, &Intensity { workers: WORKERS, kills: 18, freezes: 6, freeze_for, over: OVER });
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| program.launch().start()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let witness = Witness::of(&server);
    let queue = runtime.block_on(queue(&server));
    let want = runtime.block_on(begin(&queue));
    assert_eq!(want.len(), 1_000);
    plan.unleash(&mut workers, |_slot| program.launch().start());
    let last = want.iter().map(|(_, tick)| *tick).max().unwrap();
    runtime.block_on(async {
        until_async("the last tick", AT_REST, async || {
            queue.cron().table().await.unwrap().entries.iter().all(|status| status.handled.as_ms() >= last)
        })
        .await;
        for name in names() {
            queue.cron().remove(&name.parse().unwrap()).await.unwrap();
        }
    });
    until("the jobs to be done", AT_REST, || jobs_left(&server) == 0);
    let mut counts = witness.counts();
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "SEED={seed}: submitted more than once: {twice:?}");
    counts.retain(|(_, tick), _| *tick <= last);
    let submitted: BTreeSet<_> = counts.into_keys().filter(|tick| want.contains(tick)).collect();
    assert_eq!(submitted, want, "SEED={seed}");
    let done = done(&ledger);
    let id = |(entry, tick): &(String, u64)| format!("cron.{entry}.{tick}");
    let undone: Vec<_> = want.iter().map(id).filter(|id| !done.contains_key(id)).collect();
    assert!(undone.is_empty(), "SEED={seed}: never done: {}", explained(&undone, &ledger, &server));
    let mut late: Vec<_> = witness.seen().iter().map(|seen| seen.at_ms - seen.tick).collect();
    late.sort_unstable();
    let (half, most) = (late[late.len() / 2], late[late.len() - 1]);
    eprintln!(
        "SEED={seed}: {} jobs of {} ticks; delay: half at most {half} ms, all at most {most} ms",
        want.len(),
        late.len()
    );
}

/// Adds what is known about these jobs: their runs, their records, and all dead letters.
fn explained(jobs: &[String], ledger: &Ledger, server: &RedisServer) -> String {
    let records = ledger.read();
    let mut text = String::new();
    for job in jobs {
        let runs = records.iter().filter(|record| match record {
            Record::Submit { job: own, .. } | Record::Unknown { job: own, .. } => own == job,
            Record::Start { run, .. } | Record::End { run, .. } => run.job == *job,
        });
        let record = server.cmd(&["HGETALL", &format!("sf:{{default}}:job:{job}")]);
        text += &format!("{job}: runs {:?}, record {record:?}\n", runs.collect::<Vec<_>>());
    }
    let letters = server.cmd(&["XRANGE", "sf:{default}:dead", "-", "+", "COUNT", "10"]);
    text + &format!("dead letters: {letters:?}")
}

/// Returns how often each job was done.
fn done(ledger: &Ledger) -> BTreeMap<String, usize> {
    let mut done = BTreeMap::new();
    for record in ledger.read() {
        if let Record::End { run, how: How::Ok, .. } = record {
            *done.entry(run.job).or_default() += 1;
        }
    }
    done
}

#[test]
fn ticks_are_on_time_right_after_the_leader_is_killed() {
    let _alone = alone();
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    // The lease is so long that no other process leads before the ticks that count are over.
    let program = Program { lease_ms: 30_000, ..Program::new(&server.url(), dir.path()) };
    let workers: Vec<Worker> = (0..WORKERS).map(|_| program.launch().start()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let queue = runtime.block_on(queue(&server));
    let witness = Witness::of(&server);
    let beat = each_second("beat").payload(b"ok", Encoding::Raw).unwrap();
    runtime.block_on(queue.cron().put(&beat)).unwrap();
    until("some ticks", Duration::from_secs(30), || witness.seen().len() >= 3);
    let leader: String = redis::from_redis_value(server.cmd(&["GET", LEADER])).unwrap();
    let pid = workers.iter().map(Worker::pid).find(|pid| leader.contains(&format!("-{pid}-"))).unwrap();
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let before = witness.seen().len();
    until("more ticks", Duration::from_secs(30), || witness.seen().len() >= before + 4);
    let after: Vec<_> =
        witness.seen()[before..before + 4].iter().map(|seen| seen.at_ms - seen.tick).collect();
    assert!(after.iter().all(|late| *late <= 1_500), "{after:?}");
}

/// The dead processes count as alive for longer than this lasts. A leader asks about every tick, so neither of the living may lead:
/// the test keeps the lease of the dead leader.
#[test]
fn no_tick_is_skipped_while_14_of_16_processes_are_dead() {
    let _alone = alone();
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    // The lease is so long that no dead consumer is removed before the test is over.
    let program = Program { lease_ms: 30_000, ..Program::new(&server.url(), dir.path()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (queue, witness) = (runtime.block_on(queue(&server)), Witness::of(&server));
    let beat = each_second("beat").when_missed(Missed::Skip).payload(b"ok", Encoding::Raw).unwrap();
    runtime.block_on(queue.cron().put(&beat)).unwrap();
    let mut workers: Vec<Worker> = (0..16).map(|_| program.launch().start()).collect();
    runtime.block_on(until_async("all to join", JOINED, async || {
        queue.consumers(Lane::Normal).await.unwrap().len() == 16
    }));
    let leader = until("a leader", JOINED, || {
        redis::from_redis_value::<Option<String>>(server.cmd(&["GET", LEADER])).unwrap()
    });
    let is_leader = |worker: &Worker| leader.contains(&format!("-{}-", worker.pid()));
    let at = workers.iter().position(is_leader).unwrap();
    workers.swap(0, at);
    let seen = until("a tick", JOINED, || witness.seen().last().map(|seen| seen.tick));
    for worker in &workers[..14] {
        worker.kill9();
    }
    until("fifteen seconds of ticks", Duration::from_secs(60), || {
        server.cmd(&["PEXPIRE", LEADER, "5000"]);
        witness.seen().last().is_some_and(|last| last.tick >= seen + 15_000)
    });
    let ticks: Vec<u64> = witness.seen().iter().map(|seen| seen.tick).filter(|tick| *tick >= seen).collect();
    assert!(ticks.windows(2).all(|pair| pair[1] == pair[0] + 1_000), "{ticks:?}");
}
