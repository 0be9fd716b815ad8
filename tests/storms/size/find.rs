//! How many jobs a search looks at in a second, wherever they wait, beside a plain read of as many entries.
//! `STREAMFLEET_TEST_WAITING`=200000 lets so many wait in each place.

use std::time::{Duration, Instant};

use redis::Value;
use streamfleet::Queue;
use streamfleet::job::State;
use streamfleet_engine::admin::{Filter, JobSearch};

use harness::alone::alone;
use harness::fleet::queue;
use harness::redis_server::RedisServer;
use harness::scene::STREAM;
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

const DELAYED: &str = "sf:{default}:delayed";
const FIELDS: &str = "sf:{default}:delayed:fields";
const LISTS: &str = "sf:{default}:rooms";
const PLACES: &str = "sf:{default}:rooms:places";

/// How many jobs one command adds.
const PAGE: usize = 10_000;

/// How often each place is searched. What else the machine does can only make a search slower.
const TRIES: usize = 3;

/// A search in waiting lists is at most this many times as slow as one in a lane, also while other tests use the processors: alone, it takes twice
/// as long.
const MOST_TIMES: f64 = 10.0;

/// The fields of a job. One of ten is of customer 3.
const JOB: &str = "local function job(nth, ...) return 'type', 'test', 'payload', '{\"customer\":' .. nth % 10 .. \
    ',\"text\":\"' .. string.rep('x', 200) .. '\"}', ... end ";

const IN_LANE: &str = "for nth = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do redis.call('XADD', KEYS[1], '*', job(nth)) end return 0";

/// Puts jobs into waiting lists in turn, of which fifty always got their first jobs in the same millisecond.
const IN_ROOMS: &str = "for nth = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do local room = nth % ARGV[3] \
    local name = 'key:h.t=' .. room \
    local entry = redis.call('XADD', KEYS[3] .. name, '*', job(nth, 'id', 'r-' .. nth, 'lane', 'normal', 'room_gates', name)) \
    redis.call('HSET', KEYS[2], 'r-' .. nth, entry .. ' ' .. name) \
    redis.call('HSETNX', KEYS[1], name, string.format('%d', 1700000000000 + math.floor(room / 50))) end return 0";

const LATER: &str = "for nth = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do \
    redis.call('ZADD', KEYS[1], string.format('%d', 9000000000000 + math.floor(nth / 7)), 'd-' .. nth) \
    redis.call('HSET', KEYS[2], 'd-' .. nth, cmsgpack.pack({ 'normal', job(nth) })) end return 0";

/// How many jobs wait in each place: whole pages.
fn waiting() -> usize {
    let wanted = std::env::var_os("STREAMFLEET_TEST_WAITING");
    let wanted = wanted.map_or(20_000, |wanted| wanted.to_str().unwrap().parse().unwrap());
    PAGE * usize::div_ceil(wanted, PAGE)
}

/// Adds the jobs by a script.
fn add(server: &RedisServer, script: &str, keys: &[&str], waitlists: usize) {
    let (script, count) = (format!("{JOB}{script}"), PAGE.to_string());
    for page in 0..waiting() / PAGE {
        let (number, first, waitlists) =
            (keys.len().to_string(), (page * PAGE).to_string(), waitlists.to_string());
        let (head, args) = (["EVAL", script.as_str(), number.as_str()], [first.as_str(), &count, &waitlists]);
        server.cmd(&[&head[..], keys, &args[..]].concat());
    }
}

/// Reads a stream by a plain command. Returns how many entries it reads in a second.
fn read(server: &RedisServer) -> f64 {
    let (mut client, mut from, mut entries) = (server.client(), "-".to_owned(), 0);
    let begun = Instant::now();
    loop {
        let command = redis::cmd("XRANGE").arg(&[STREAM, from.as_str(), "+", "COUNT", "500"]).to_owned();
        let page: Value = command.query(&mut client).unwrap();
        let Value::Array(page) = page else { panic!("{page:?}") };
        entries += page.len();
        let Some(Value::Array(last)) = page.last() else { break };
        let id: String = redis::from_redis_value(last[0].clone()).unwrap();
        from = format!("({id}");
    }
    assert_eq!(entries, waiting());
    entries as f64 / begun.elapsed().as_secs_f64()
}

/// Looks for the jobs of one customer. Returns how many jobs it looks at in a second.
async fn search(queue: &Queue, state: State) -> f64 {
    let filter = Filter::new().condition("payload.customer=3").unwrap();
    let search = JobSearch::new().states(vec![state]).filter(filter);
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let (mut walk, mut looked_at, mut found) = (queue.walk_jobs(&search, None), 0, 0);
        let begun = Instant::now();
        loop {
            let page = walk.page(usize::MAX).await.unwrap();
            (looked_at, found) = (looked_at + page.read, found + page.jobs.len());
            if page.next.is_none() {
                break;
            }
        }
        fastest = fastest.min(begun.elapsed());
        assert_eq!((looked_at, found), (waiting() as u64, waiting() / 10));
        assert_eq!(queue.count_jobs(&search).await.unwrap(), Some(looked_at));
    }
    waiting() as f64 / fastest.as_secs_f64()
}

/// A server whose scripts are watched, and what a plain read does there.
struct Scene {
    server: RedisServer,
    queue: Queue,
    plain: f64,
}

impl Scene {
    /// Searches one place, prints how fast that is, and deletes the jobs.
    async fn look(&self, place: &str, state: State) -> Result<f64, String> {
        log_from(&self.server, "300");
        let yardstick = Yardstick::lay(&self.server);
        let rate = search(&self.queue, state).await;
        println!("{place}: {rate:.0} jobs/s, {:.2} of a plain read", rate / self.plain);
        yardstick.judge(&self.server)?;
        self.server.cmd(&["FLUSHALL"]);
        Ok(rate)
    }
}

async fn look() -> Verdict {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    add(&server, IN_LANE, &[STREAM], 0);
    let plain = (0..TRIES).map(|_| read(&server)).fold(0.0, f64::max);
    println!("{} jobs in each place; a plain read: {plain:.0} entries/s", waiting());
    let scene = Scene { server, queue, plain };
    let lane = scene.look("a lane", State::Waiting).await?;
    let mut slowest = f64::MAX;
    for waitlists in [1, 1000, waiting()] {
        add(&scene.server, IN_ROOMS, &[LISTS, PLACES, "sf:{default}:room:"], waitlists);
        slowest = slowest.min(scene.look(&format!("{waitlists} rooms"), State::Waiting).await?);
    }
    add(&scene.server, LATER, &[DELAYED, FIELDS], 0);
    scene.look("the delayed set", State::Scheduled).await?;
    if slowest * MOST_TIMES < lane {
        return Err(format!("rooms: {slowest:.0} jobs/s, a lane: {lane:.0} jobs/s"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_looked_at_fast_wherever_they_wait() {
    let _alone = alone();
    in_one_of_three(async || look().await).await;
}
