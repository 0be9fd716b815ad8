//! How long scripts take next to very many dead letters and jobs in waiting lists, and how long it takes to read the groups of the letters.
//! `STREAMFLEET_TEST_LETTERS`=1000000 writes a million of each, and takes some minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use streamfleet::job::{GateName, State};
use streamfleet::{JobError, Producer, Queue};
use streamfleet_engine::admin::{
    Action, Evicted, Filter, JobSearch, LetterEdit, LetterLimits, ReplayRules, Selection,
};

use harness::alone::alone;
use harness::fleet::{Acts, Running, config, queue, quick, submit};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, STREAM, Scene, job};
use harness::wait::until_async;
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

const DEAD: &str = "sf:{default}:dead";
const GROUPS: &str = "sf:{default}:dead:groups";

/// A gate, and its waiting list.
const GATE: &str = "key:h.t=1";
const LIST: &str = "sf:{default}:room:key:h.t=1";

/// How many letters or jobs one command writes.
const PAGE: usize = 10_000;

/// The most groups that are counted apart.
const MOST_GROUPS: usize = 10_000;

/// The most time that reading a hundred groups may take.
const MOST: Duration = Duration::from_millis(50);

/// How many letters to write: whole pages.
fn letters() -> usize {
    let wanted = std::env::var_os("STREAMFLEET_TEST_LETTERS");
    let wanted = wanted.map_or(20_000, |wanted| wanted.to_str().unwrap().parse().unwrap());
    PAGE * usize::div_ceil(wanted, PAGE)
}

/// Writes letters of this many groups, with the table that counts them. Returns how many.
fn write(server: &RedisServer, groups: usize) -> usize {
    const ADD: &str = "for nth = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do local group = nth % ARGV[3] \
        redis.call('XADD', KEYS[1], '*', 'type', 'test', 'dead_reason', 'fatal', 'dead_error', 'no', 'dead_fingerprint', \
        'f' .. group, 'dead_group', group < 10000 and 'f' .. group or 'other') end return 0";
    const COUNT: &str = "for nth = 0, ARGV[1] - 1 do redis.call('HSET', KEYS[1], 'f' .. nth, ARGV[2] .. ' ' .. ARGV[2] .. \
        ' 5 5 - test fatal no') end return 0";
    let total = letters();
    for page in 0..total / PAGE {
        let (first, count) = ((page * PAGE).to_string(), PAGE.to_string());
        server.cmd(&["EVAL", ADD, "1", DEAD, &first, &count, &groups.to_string()]);
    }
    let (apart, each) = (groups.min(MOST_GROUPS), total / groups);
    server.cmd(&["EVAL", COUNT, "1", GROUPS, &apart.to_string(), &each.to_string()]);
    let others = total - apart * each;
    if others > 0 {
        server.cmd(&["HSET", GROUPS, "other", &format!("{others} {others} 5 5 - - - no")]);
    }
    total
}

/// Puts as many jobs into the waiting list of a gate.
fn fill_waitlist(server: &RedisServer, jobs: usize) {
    const PARK: &str = "for nth = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do local id = 'r-' .. nth \
        local entry = redis.call('XADD', KEYS[1], '*', 'type', 'test', 'id', id, 'life', nth .. '-7', 'created_ms', nth, \
        'h.t', '1', 'lane', 'normal', 'room_gates', ARGV[3]) \
        redis.call('HSET', KEYS[2], id, entry .. ' ' .. ARGV[3]) end return 0";
    for page in 0..jobs / PAGE {
        let first = (page * PAGE + 1).to_string();
        let keys = [LIST, "sf:{default}:rooms:places"];
        server.cmd(&["EVAL", PARK, "2", keys[0], keys[1], &first, &PAGE.to_string(), GATE]);
    }
    server.cmd(&["HSET", "sf:{default}:rooms", GATE, "1700000000000"]);
}

/// Reads the groups five times, and returns the shortest time.
async fn read_groups(queue: &Queue, groups: usize) -> Duration {
    let (mut fastest, letters) = (Duration::MAX, letters() as u64);
    for _ in 0..5 {
        let asked = Instant::now();
        let found = queue.dead_letters().groups().await.unwrap();
        fastest = fastest.min(asked.elapsed());
        assert_eq!((found.groups.len(), found.letters), (groups, letters));
        assert_eq!((found.uncounted(), found.overcounted()), (0, 0));
    }
    println!("{letters} letters: {groups} groups in {fastest:?}");
    fastest
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_read_at_once_however_many_letters_there_are() {
    let _alone = alone();
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let total = write(&server, 100);
    let fastest = read_groups(&queue, 100).await;
    assert!(fastest <= MOST, "{fastest:?} for {total} letters");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_script_takes_longer_because_every_letter_died_of_another_error() {
    let _alone = alone();
    in_one_of_three(async || many_letters().await).await;
}

async fn many_letters() -> Verdict {
    let scene = Scene::new().await;
    let total = write(&scene.server, letters());
    let gate: GateName = GATE.parse().unwrap();
    scene.queue.gates().close(&gate, "ann", "", None).await.unwrap();
    fill_waitlist(&scene.server, total);
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let others = usize::from(total > MOST_GROUPS);
    read_groups(&scene.queue, total.min(MOST_GROUPS) + others).await;
    let handler = Acts::new(|_, payload| match payload {
        b"die" => Err(JobError::fatal("no")),
        _ => Ok(serde_json::Value::Null),
    });
    let fleet = Running::start(&scene.server.url(), quick(1), handler.clone());
    change_letters(&scene.queue).await;
    let selection = scene.queue.dead_letters().select(Filter::new()).await.unwrap();
    run_campaign(&scene.queue, &selection).await;
    assert!(scene.queue.dead_letters().recount(|_| ()).await.unwrap().is_some());
    leave_waitlist(&scene, &gate).await;
    fleet.stop().await;
    yardstick.judge(&scene.server)
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_by_xadd_take_no_longer_because_too_many_groups_exist() {
    let _alone = alone();
    in_one_of_three(async || copied().await).await;
}

/// Replays large letters by `XADD`, after they died of an error whose group is not counted apart.
async fn copied() -> Verdict {
    const JOBS: usize = 100;
    let scene = Scene::new().await;
    let before = write(&scene.server, letters()) as u64;
    let is_cured = Arc::new(AtomicBool::new(false));
    let cure = Arc::clone(&is_cured);
    let handler = Acts::new(move |_, _| match cure.load(Ordering::Relaxed) {
        true => Ok(serde_json::Value::Null),
        false => Err(JobError::fatal("no")),
    });
    let start = || {
        let mut config = config(&scene.server.url());
        config.worker.queues.values_mut().for_each(|queue| queue.concurrency = 2 * JOBS);
        Running::start_with(config, quick(1), handler.clone())
    };
    Producer::new(scene.queue.clone()).submit_all((0..JOBS).map(|_| job("x".repeat(120_000)))).await.unwrap();
    let fleet = start();
    let dead = async || scene.queue.snapshot().await.unwrap().dead;
    until_async("all to die", SOON, async || dead().await == before + JOBS as u64).await;
    fleet.stop().await;
    let range = scene.server.cmd(&["XREVRANGE", DEAD, "+", "-", "COUNT", &JOBS.to_string()]);
    let letters: Vec<(String, Vec<Vec<u8>>)> = redis::from_redis_value(range).unwrap();
    for (_, fields) in letters {
        let add = [b"XADD".to_vec(), STREAM.into(), b"*".to_vec()];
        scene.server.cmd(&add.into_iter().chain(fields).collect::<Vec<_>>());
    }
    is_cured.store(true, Ordering::Relaxed);
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let fleet = start();
    until_async("all letters to be moved", SOON, async || dead().await == before).await;
    scene.until_at_rest().await;
    fleet.stop().await;
    yardstick.judge(&scene.server)
}

/// Writes, reads, evicts, drops, edits and replays letters.
async fn change_letters(queue: &Queue) {
    const EACH: u64 = 100;
    let dead = queue.dead_letters();
    let before = queue.snapshot().await.unwrap().dead;
    for _ in 0..EACH {
        submit(queue, "die").await;
    }
    until_async("jobs to die", SOON, async || queue.snapshot().await.unwrap().dead == before + EACH).await;
    let limits = LetterLimits::default().most(before);
    for letter in dead.page(None, EACH).await.unwrap() {
        assert_eq!(dead.evict(letter.entry, &letter.job(), limits).await.unwrap(), Evicted::Dropped);
    }
    for letter in dead.recent(None, EACH).await.unwrap() {
        assert!(dead.drop(letter.entry, &letter.job()).await.unwrap());
    }
    let edit = LetterEdit::default().job_type("mail".parse().unwrap());
    for letter in dead.page(None, 20).await.unwrap() {
        dead.edit(&letter, &edit, &Action::new("dead edit", "ann")).await.unwrap();
    }
    for letter in dead.page(None, EACH).await.unwrap() {
        assert!(dead.replay(letter.entry, &letter.job()).await.unwrap().is_done());
    }
    let search = JobSearch::new().states(vec![State::Dead]).filter(Filter::new().error("no").unwrap());
    assert!(!queue.find_jobs(&search, None).await.unwrap().jobs.is_empty());
}

/// Lets a campaign replay some of the letters.
async fn run_campaign(queue: &Queue, selection: &Selection) {
    let (tasks, ann) = (queue.tasks(), Action::new("dead replay", "ann"));
    let id = tasks.start_replay(selection, ReplayRules::default().rate(500.0), &ann).await.unwrap().value;
    until_async("the campaign to replay some", 2 * SOON, async || {
        tasks.get(&id).await.unwrap().unwrap().counts.done >= 500
    })
    .await;
    tasks.stop(&id, &ann).await.unwrap();
}

/// Finds and cancels jobs in the waiting list, and opens its gate until some have left.
async fn leave_waitlist(scene: &Scene, gate: &GateName) {
    const SOME: u64 = 500;
    let search =
        JobSearch::new().states(vec![State::Waiting]).filter(Filter::new().header("t", "1").unwrap());
    let (mut found, mut from) = (0, None);
    while found == 0 {
        let page = scene.queue.find_jobs(&search, from).await.unwrap();
        (found, from) = (page.jobs.len(), page.next);
        assert!(found > 0 || from.is_some(), "the waiting list is not searched");
    }
    for nth in 1..=20 {
        let id = format!("r-{nth}").parse().unwrap();
        scene.queue.cancel(&id, "ann", LONG).await.unwrap();
    }
    let in_waitlist = async || scene.queue.snapshot().await.unwrap().in_rooms;
    let before = in_waitlist().await;
    assert!(scene.queue.gates().open(gate).await.unwrap());
    until_async("jobs to leave the waiting list", 2 * SOON, async || in_waitlist().await + SOME <= before)
        .await;
}
