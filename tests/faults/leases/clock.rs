//! The server's clock is set.

use std::time::{Duration, Instant};

use super::{LATEST, LEASE, Scene, pass};
use harness::redis_server::RedisServer;
use harness::wait::until;

/// Repeated forward steps of the clock cause no second run.
#[tokio::test(flavor = "multi_thread")]
async fn promise_2_clock_steps_of_the_server_repeat_no_job() {
    let scene = Scene::new(RedisServer::builder().clock_shifts().start(), LEASE, 3);
    scene.send(&["sleep 15000"; 10]).await;
    scene.until_started(10);
    for step in [10_000, 10_000, 10_000, 3_600_000, 10_000, 7_000] {
        scene.server.shift_clock(step);
        pass(Duration::from_millis(2_100));
    }
    scene.until_done();
    scene.assert_all_ran_once(10);
}

/// When Redis resumes, it first executes what a claimer had requested before the pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_step_while_redis_is_paused_causes_no_second_run() {
    let scene = Scene::new(RedisServer::builder().clock_shifts().start(), LEASE, 2);
    scene.send(&["sleep 14000"; 10]).await;
    scene.until_started(10);
    for step in [20_000, -20_000, 60_000] {
        scene.server.freeze();
        pass(LEASE / 3);
        scene.server.shift_clock(step);
        scene.server.thaw();
        pass(Duration::from_millis(1_300));
    }
    scene.until_done();
    scene.assert_all_ran_once(10);
}

/// By its idle time alone, the dead worker's entry would be taken over a minute later, and its place as leader would stay
/// taken for just as long.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_delays_a_takeover_by_at_most_one_lease() {
    let lease = Duration::from_secs(3);
    let mut scene = Scene::new(RedisServer::builder().clock_shifts().start(), lease, 1);
    scene.send(&["sleep 2000"; 3]).await;
    scene.until_started(3);
    scene.hire();
    // The first is the leader.
    scene.workers[0].kill9();
    let killed = Instant::now();
    pass(Duration::from_millis(300));
    scene.server.shift_clock(-60_000);
    until("the jobs to start again", LATEST, || scene.starts().values().all(|by| by.len() == 2));
    let took = killed.elapsed();
    scene.until_done();
    assert!(took <= lease * 7 / 3 + Duration::from_secs(1), "{took:?}");
    eprintln!("taken over {took:?} after the worker was killed");
}
