//! The calls of a process that submits recurring jobs are refused by Redis, or their replies are lost after they were executed:
//! every tick is submitted once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use streamfleet::Fleet;
use streamfleet::cron::Missed;
use streamfleet::event::{Event, Events, QueueEvent};

use super::{Process, Ran, SOON, is_every_second};
use harness::cron::{each_second, entry, named, set_back};
use harness::fleet::{Running, config, queue, quick, until_empty};
use harness::proxy::{Commands, Mode, Scope};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, Scene};
use harness::wait::until_async;
use harness::witness::Witness;

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
async fn a_tick_whose_reply_was_lost_is_reported_once() {
    let scene = Scene::on(RedisServer::start()).await;
    let (ran, reported) = (Ran::default(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&reported);
    let listener = move |event: &Event<'_>| {
        if let Event::Queue { event: QueueEvent::CronTicked { jobs, .. }, .. } = event {
            counted.fetch_add(*jobs, Ordering::SeqCst);
        }
    };
    let builder = Fleet::builder(scene.config(LONG)).handler_with("test", quick(3), ran.handler()).unwrap();
    let builder = builder.events(Events::new(vec![Arc::new(listener)])).cron(each_second("beat"));
    let process = Running::of(builder.build());
    // Redis has the script now, so requests with the needle are short.
    let so_far = ran.until("beat", 2).await.len();
    let holding = b":1\r\n".to_vec();
    scene.proxy.set(Mode::DropReplyTo { needle: TICK.into(), holding, times: 1 });
    until_async("the reply to be lost", SOON, async || scene.proxy.hits() == 1).await;
    ran.until("beat", so_far + 3).await;
    scene.queue.cron().remove(&named("beat")).await.unwrap();
    until_empty(&scene.queue).await;
    until_async("each tick to be reported", SOON, async || {
        reported.load(Ordering::SeqCst) >= ran.ticks("beat").len()
    })
    .await;
    process.stop().await;
    assert_eq!(reported.load(Ordering::SeqCst), ran.ticks("beat").len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_reply_was_lost_is_repeated() {
    ticks_once(|| Mode::drop_reply_to(AGENDA, 2), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_refused_by_redis_are_submitted_when_it_accepts_them_again() {
    let scripts = || Commands::Only(vec!["EVALSHA".to_owned(), "EVAL".to_owned()]);
    let refused = |error: &'static str| move || Mode::Inject { error: error.to_owned(), to: scripts() };
    tokio::join!(
        ticks_once(refused("OOM command not allowed when used memory > 'maxmemory'."), 5),
        ticks_once(refused("LOADING Redis is loading the dataset in memory"), 5),
    );
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
        redis::from_redis_value(scene.server.cmd(&["HGET", harness::cron::STATES, ":revision"])).unwrap();
    assert_eq!(revision, "1");
    assert!(is_every_second(&ran.ticks("beat")) && witness.counts().values().all(|count| *count == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_loses_its_connection_misses_no_tick() {
    tokio::join!(
        ticks_once(|| Mode::blackhole(Scope::Sent(harness::cron::STATES.to_owned())), 3),
        ticks_once(|| Mode::Rst, 1),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_that_redis_has_forgotten_is_submitted_again_long_before_the_next_one() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Ran::default());
    queue.cron().put(&entry("report", "@yearly").when_missed(Missed::One)).await.unwrap();
    set_back(&server, &queue, "report", Duration::from_secs(400 * 86_400)).await;
    let before: String =
        redis::from_redis_value(server.cmd(&["HGET", harness::cron::STATES, "report"])).unwrap();
    let process = Process::start(config(&server.url()), vec![], ran.handler());
    let tick = ran.until("report", 1).await[0];
    until_empty(&queue).await;
    // As after a restart that lost the last second.
    server.cmd(&["HSET", harness::cron::STATES, "report", &before]);
    server.cmd(&["DEL", &format!("sf:{{default}}:job:cron.report.{tick}")]);
    until_async("the tick to run again", 2 * SOON, async || ran.ticks("report") == [tick, tick]).await;
    process.stop().await;
}
