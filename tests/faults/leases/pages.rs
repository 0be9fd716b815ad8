//! Idle entries among very many fresh ones: searches are paged, and no worker loses an entry because of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;

use harness::fleet::Acts;
use harness::redis_server::RedisServer;
use harness::scene::{SOON, STREAM, Scene};
use harness::scripts::Scripts;
use harness::scripts::source;
use harness::wait::{pause_for, until_async};

const LANE: &str = "sf:{q}:jobs";
const LANES: [&str; 3] = ["sf:{q}:jobs:high", LANE, "sf:{q}:jobs:low"];
/// The lease of the queue whose entries are renewed.
const LEASE: Duration = Duration::from_secs(8);

/// Appends this many jobs and delivers them to `somebody`. Returns the ids of their entries.
fn hold(server: &RedisServer, stream: &str, jobs: usize) -> Vec<String> {
    let source = "for nth = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'type', 'test') end \
        redis.call('XREADGROUP', 'GROUP', 'fleet', 'somebody', 'COUNT', ARGV[1], 'STREAMS', KEYS[1], '>') return 1";
    server.cmd(&["EVAL", source, "1", stream, &jobs.to_string()]);
    let entries = server.cmd(&["XPENDING", stream, "fleet", "-", "+", "100000"]);
    let entries: Vec<(String, String, i64, i64)> = redis::from_redis_value(entries).unwrap();
    entries.into_iter().map(|(id, ..)| id).collect()
}

fn silence(server: &RedisServer, stream: &str, entry: &str) {
    server.cmd(&["XCLAIM", stream, "fleet", "somebody", "0", entry, "IDLE", "3600000", "JUSTID"]);
}

fn text(value: &Value) -> String {
    redis::from_redis_value(value.clone()).unwrap()
}

#[test]
fn searches_and_claims_of_idle_entries_are_paged() {
    let scripts = Scripts::start();
    let stale = || {
        let (_, lanes) = scripts.call(source("stale"), &LANES, &["60000"]);
        lanes.iter().map(text).collect::<Vec<_>>()
    };
    let mut held = hold(&scripts.server, LANE, 10_000);
    assert_eq!(stale(), ["", "", ""]);
    silence(&scripts.server, LANE, &held[9_999]);
    assert_eq!(stale(), ["", &held[9_999], ""], "all ten thousand are searched");
    held = hold(&scripts.server, LANE, 1);
    assert_eq!((held.len(), stale()), (10_001, vec![String::new(), "0-0".to_owned(), String::new()]));
    let claim = |from: &str| {
        let args = ["me", "60000", from, "100", "0", "9000000000000"];
        let (status, rest) = scripts.call(source("claim"), &[LANE], &args);
        let Value::Array(taken) = &rest[2] else { panic!("{rest:?}") };
        (status, text(&rest[0]), taken.len())
    };
    // If no entry is idle, the next page begins with the last entry of this one.
    assert_eq!(claim("0-0"), (1, held[999].clone(), 0));
    assert_eq!(claim(&held[999]), (1, held[1_998].clone(), 0));
    assert_eq!(claim(&held[9_500]), (1, "0-0".to_owned(), 1));
    assert_eq!(claim(&held[9_500]), (1, "0-0".to_owned(), 0));
    let mine = scripts.server.cmd(&["XPENDING", LANE, "fleet", "-", "+", "10", "me"]);
    let mine: Vec<(String, String, i64, i64)> = redis::from_redis_value(mine).unwrap();
    assert_eq!(mine.len(), 1, "{mine:?}");
}

/// Renews what `somebody` holds, except for one entry, until it is dropped.
struct Renewing {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Renewing {
    fn all_but(server: &RedisServer, entry: &str) -> Self {
        let source = "local ids = {} \
            for _, held in ipairs(redis.call('XPENDING', KEYS[1], 'fleet', '-', '+', 100000, 'somebody')) do \
              if held[1] ~= ARGV[1] then ids[#ids + 1] = held[1] end end \
            for at = 1, #ids, 1000 do \
              local some = { unpack(ids, at, math.min(at + 999, #ids)) } some[#some + 1] = 'JUSTID' \
              redis.call('XCLAIM', KEYS[1], 'fleet', 'somebody', 0, unpack(some)) end return #ids";
        let command = redis::cmd("EVAL").arg(&[source, "1", STREAM, entry]).to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut client) = (Arc::clone(&stop), server.client());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                command.exec(&mut client).unwrap();
                // Workers renew at this interval, too: an eighth of the lease.
                pause_for(LEASE / 8);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_idle_entry_among_twelve_thousand_is_taken_over() {
    let scene = Scene::new().await;
    scene.queue.join(LEASE).await.unwrap();
    let held = hold(&scene.server, STREAM, 12_000);
    let lost = &held[11_500];
    silence(&scene.server, STREAM, lost);
    let _renewing = Renewing::all_but(&scene.server, lost);
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LEASE, handler.clone());
    let lost = lost.parse().unwrap();
    until_async("the lost job to run", 3 * SOON, async || handler.runs(&lost) > 0).await;
    // Not a poll: long enough for further searches, none of which may take another entry over.
    tokio::time::sleep(LEASE).await;
    let theirs = scene.server.cmd(&["XPENDING", STREAM, "fleet", "-", "+", "100000", "somebody"]);
    let theirs: Vec<(String, String, i64, i64)> = redis::from_redis_value(theirs).unwrap();
    assert_eq!(theirs.len(), 11_999, "another worker's entry was taken over");
    assert_eq!(handler.runs(&lost), 1);
    fleet.stop().await;
}
