//! The calls of a process that submits recurring jobs are refused by Redis, or their replies are lost after they were executed:
//! every tick is submitted once.

use streamfleet::cron::Missed;

use super::witness::Witness;
use super::{Process, Ran, SOON, each_second, is_every_second};
use crate::harness::proxy::{Commands, Mode, Scope};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::until_async;
use crate::traps::scene::{LONG, Scene};

/// Text that only the request of this script contains.
const AGENDA: &str = "sf:{default}:cron\r\n";
const TICK: &str = "h.cron-tick-ms";
const PUT: &str = "cron.schedule";

/// A process behind the proxy has this trouble from its first call on, and then none: each second is one job.
async fn ticks_once(trouble: impl Fn() -> Mode, strikes: usize) {
    let scene = Scene::on(RedisServer::start()).await;
    let (ran, witness) = (Ran::default(), Witness::of(&scene.server));
    // Before there is an entry, and again while it submits ticks.
    scene.proxy.set(trouble());
    let process = Process::start(scene.config(LONG), vec![each_second("beat")], ran.handler());
    let struck = async || {
        until_async("the trouble", SOON, async || scene.proxy.hits() >= strikes).await;
        scene.proxy.set(Mode::Pass);
    };
    if scene.proxy.connections() > 0 || strikes > 0 {
        struck().await;
    }
    ran.until("beat", 2).await;
    scene.proxy.set(trouble());
    struck().await;
    let so_far = ran.ticks("beat").len();
    ran.until("beat", so_far + 2).await;
    process.stop().await;
    let ticks = ran.ticks("beat");
    assert!(is_every_second(&ticks), "{ticks:?}");
    assert!(witness.counts().values().all(|count| *count == 1), "{:?}", witness.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_whose_reply_was_lost_is_one_job() {
    ticks_once(|| Mode::drop_reply_to(TICK, 2), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_reply_was_lost_is_repeated() {
    ticks_once(|| Mode::drop_reply_to(AGENDA, 2), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_refused_by_redis_are_submitted_when_it_accepts_them_again() {
    let scripts = || Commands::Only(vec!["EVALSHA".to_owned(), "EVAL".to_owned()]);
    let error = "OOM command not allowed when used memory > 'maxmemory'.";
    ticks_once(|| Mode::Inject { error: error.to_owned(), to: scripts() }, 5).await;
    let error = "LOADING Redis is loading the dataset in memory";
    ticks_once(|| Mode::Inject { error: error.to_owned(), to: scripts() }, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_stored_once_although_the_reply_was_lost() {
    let scene = Scene::on(RedisServer::start()).await;
    let (ran, witness) = (Ran::default(), Witness::of(&scene.server));
    scene.proxy.set(Mode::drop_reply_to(PUT, 1));
    let entry = each_second("beat").when_missed(Missed::All);
    let process = Process::start(scene.config(LONG), vec![entry], ran.handler());
    ran.until("beat", 3).await;
    assert_eq!(scene.proxy.hits(), 1);
    process.stop().await;
    let revision: String =
        redis::from_redis_value(scene.server.cmd(&["HGET", super::STATES, ":revision"])).unwrap();
    assert_eq!(revision, "1");
    assert!(is_every_second(&ran.ticks("beat")) && witness.counts().values().all(|count| *count == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_loses_its_connection_misses_no_tick() {
    ticks_once(|| Mode::blackhole(Scope::Sent(super::STATES.to_owned())), 3).await;
    ticks_once(|| Mode::Rst, 1).await;
}
