//! What an idle fleet costs Redis, and how soon it reacts. docs/scale.md states the bounds that are asserted here.

mod connections;
mod cost;
mod fleet;
mod slots;

use std::time::{Duration, Instant};

use cost::{Cost, Monitor};
use fleet::{Crowd, append};
use futures_util::future::join_all;

use harness::alone::alone;
use harness::fleet::{Running, config, quick};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// An idle queue costs Redis fewer commands per second than this, however many workers wait for its jobs.
const BUDGET: f64 = 20.0;

/// How long the workers get to find out how many there are, and to settle.
const SETTLING: Duration = Duration::from_secs(16);

const WINDOW: Duration = Duration::from_secs(15);

/// Lets time pass, either to measure it or to reach the state to be measured.
async fn pass(time: Duration) {
    let begun = Instant::now();
    until_async("the time to pass", time * 2, async || begun.elapsed() >= time).await;
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Returns how many times longer an `XADD` to the crowd's stream takes than one to an empty server. They are sent alternately,
/// each after the previous job has begun.
async fn appending(crowd: &Crowd, empty: &RedisServer) -> f64 {
    let mut connections = [crowd.server.client(), empty.client()];
    let mut times = [Vec::new(), Vec::new()];
    for nth in 1..=100 {
        for (connection, times) in connections.iter_mut().zip(&mut times) {
            let begun = Instant::now();
            append(connection);
            times.push(begun.elapsed());
        }
        let begun = async || crowd.handler.started() == nth;
        until_async("the job to begin", Duration::from_secs(5), begun).await;
    }
    let [with, without] = times.map(median);
    with.as_secs_f64() / without.as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_idle_queue_costs_few_commands_however_many_workers_wait() {
    let _alone = alone();
    let (sizes, empty) = ([2, 64, 200], RedisServer::start());
    let crowds = join_all(sizes.map(Crowd::start)).await;
    pass(SETTLING).await;
    let alone = Monitor::start(&empty);
    let monitors: Vec<_> = crowds.iter().map(|crowd| Monitor::start(&crowd.server)).collect();
    pass(WINDOW).await;
    let alone = alone.stop(&empty);
    let costs: Vec<_> =
        monitors.into_iter().zip(&crowds).map(|(monitor, crowd)| monitor.stop(&crowd.server)).collect();
    println!("{}", Cost::columns());
    for (cost, workers) in costs.iter().zip(sizes) {
        println!("{}", cost.row(workers, &alone));
    }
    for (crowd, workers) in crowds.iter().zip(sizes) {
        crowd.handler.release(1000);
        let ratio = appending(crowd, &empty).await;
        println!("{workers:>7} XADD takes {ratio:.2} times as long as on an empty server");
    }
    join_all(crowds.into_iter().map(Crowd::stop)).await;
    for (cost, workers) in costs.iter().zip(sizes) {
        assert!(
            cost.all() < BUDGET,
            "{workers} workers:\n{}\n{}",
            Cost::columns(),
            cost.row(workers, &alone)
        );
    }
}

/// There is a job for each worker, but only a few workers wait for one: the others must be called.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn standby_workers_are_called_as_soon_as_they_are_needed() {
    let _alone = alone();
    let crowd = Crowd::start(96).await;
    pass(SETTLING).await;
    let mut begun = Instant::now();
    for (jobs, all) in [(1, 1), (95, 96)] {
        begun = Instant::now();
        crowd.submit(jobs);
        let started = async || crowd.handler.started() == all;
        until_async("every job to run on a worker of its own", Duration::from_secs(8), started).await;
    }
    println!("95 workers began 95 jobs within {:?}", begun.elapsed());
    crowd.handler.release(96);
    crowd.stop().await;
}

/// Each worker asks for leadership once in half a minute, but all together several times per second.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dead_leader_of_a_large_fleet_is_replaced_within_its_lease() {
    let _alone = alone();
    let crowd = Crowd::start(70).await;
    pass(SETTLING).await;
    // Pretends that the leader is a process that has died.
    let tenure = Duration::from_secs(5);
    crowd.server.cmd(&["SET", "sf:{default}:leader", "ghost", "PX", "5000"]);
    let begun = Instant::now();
    let replaced = async || match crowd.server.cmd(&["GET", "sf:{default}:leader"]) {
        redis::Value::BulkString(leader) => leader != b"ghost",
        _ => false,
    };
    // A ghost holds the leadership for 5 s; it must be replaced within the lease of 15 s.
    until_async("another worker to lead", Duration::from_secs(15), replaced).await;
    println!(
        "another worker leads {:?} after the leadership was free",
        begun.elapsed().saturating_sub(tenure)
    );
    crowd.stop().await;
}

/// The group has enough members for a worker to leave the waiting to others, but the others are all dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_noticed_within_seconds_although_no_worker_waits_for_it() {
    let _alone = alone();
    let server = RedisServer::start();
    let mut connection = server.client();
    let mut group = redis::cmd("XGROUP");
    group.arg(&["CREATE", "sf:{default}:jobs", "fleet", "0", "MKSTREAM"]).exec(&mut connection).unwrap();
    for nth in 0..300 {
        let mut member = redis::cmd("XGROUP");
        member.arg(&["CREATECONSUMER", "sf:{default}:jobs", "fleet", &format!("dead-{nth}")]);
        member.exec(&mut connection).unwrap();
    }
    let handler = harness::fleet::Acts::well();
    let mut config = config(&server.url());
    // Long enough that the dead consumers are not removed.
    config.worker.lease = Duration::from_secs(60);
    let worker = Running::start_with(config, quick(1), handler.clone());
    for nth in 1..=8 {
        append(&mut connection);
        let ran = async || handler.jobs() == nth;
        until_async(&format!("job {nth} to run"), Duration::from_secs(5), ran).await;
    }
    let begun = Instant::now();
    worker.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "a standby worker must stop immediately: {:?}",
        begun.elapsed()
    );
}
