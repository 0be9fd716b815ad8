//! What lookups cost Redis, as counted by the server itself.

use std::time::Duration;

use redis::Value;
use streamfleet_engine::admin::Cancellation;

use harness::fleet::queue;
use harness::redis_server::RedisServer;

const STREAM: &str = "sf:{default}:jobs";
const DEAD: &str = "sf:{default}:dead";

/// Appends this many entries of this many bytes.
pub(super) fn fill(server: &RedisServer, stream: &str, entries: u32, bytes: usize) {
    let source = "local body = string.rep('x', ARGV[2]) for nth = 1, ARGV[1] do \
        redis.call('XADD', KEYS[1], '*', 'type', 'test', 'id', 'own-' .. nth, 'payload', body) end return 1";
    // In portions, so that no client waits for too long.
    for _ in 0..entries.div_ceil(20_000) {
        let (some, bytes) = (entries.min(20_000).to_string(), bytes.to_string());
        server.cmd(&["EVAL", source, "1", stream, &some, &bytes]);
    }
}

/// Reads every entry by pages, as a client does that looks for something.
fn read_all(server: &RedisServer, stream: &str) {
    let mut from = "-".to_owned();
    loop {
        let Value::Array(page) = server.cmd(&["XRANGE", stream, &from, "+", "COUNT", "1000"]) else { break };
        let Some(last) = page.last().cloned() else { break };
        let (last, _fields): (String, Value) = redis::from_redis_value(last).unwrap();
        from = format!("({last}");
    }
}

/// Returns how many commands ran since the last reset. A script and the commands in it count once each.
fn calls(server: &RedisServer) -> u64 {
    ["eval", "evalsha", "xrange", "xrevrange"].iter().map(|name| server.calls(name)).sum()
}

/// Returns how many milliseconds of a processor the server has taken. What else runs on the machine does not count.
fn cpu_ms(server: &RedisServer) -> f64 {
    let info: String = redis::from_redis_value(server.cmd(&["INFO", "cpu"])).unwrap();
    let names = ["used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"];
    let seconds = names.map(|name| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    });
    seconds.iter().sum::<f64>() * 1_000.0
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_an_unknown_id_is_cheap_however_many_jobs_wait() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    fill(&server, STREAM, 100_000, 100);
    let before = cpu_ms(&server);
    read_all(&server, STREAM);
    let read = cpu_ms(&server) - before;
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let unknown = "nobody".parse().unwrap();
    let before = cpu_ms(&server);
    let answer = queue.cancel(&unknown, "a test", Duration::from_secs(60)).await.unwrap();
    assert_eq!(answer, Cancellation::Unknown);
    let (calls, cpu) = (calls(&server), cpu_ms(&server) - before);
    println!("{calls} commands and {cpu:.0} ms of a processor, where reading every entry takes {read:.0} ms");
    assert!(calls < 150, "{calls} commands");
    assert!(cpu < 4.0 * read, "{cpu:.0} ms of a processor, where reading every entry takes {read:.0} ms");
    let found = queue.seek(&"own-17".parse().unwrap(), 100_000).await.unwrap().unwrap();
    assert_eq!(found.job_type, "test");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_large_dead_letters_are_read_in_portions() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    fill(&server, DEAD, 1_000, 10);
    fill(&server, DEAD, 12, 4 * 1024 * 1024);
    let newest = queue.dead_letters().recent(None, 100).await.unwrap();
    assert_eq!(newest.len(), 4, "a page holds at most 16 MiB");
    let (mut all, mut from) = (0, None);
    loop {
        let page = queue.dead_letters().page(from, 200).await.unwrap();
        let Some(last) = page.last() else { break };
        from = Some(streamfleet::job::EntryId::new(last.entry.ms, last.entry.seq + 1));
        all += page.len();
    }
    assert_eq!(all, 1_012);
    // The command line reads all of them too.
    let args = ["--redis", &server.url(), "dead", "list", "--limit", "1000", "--json"];
    let listed = harness::process::run(&args, b"");
    let list: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1_000), "{:?}", listed.code);
    assert_eq!(server.cmd(&["XLEN", DEAD]), Value::Int(1_012));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_large_delayed_jobs_are_read_in_portions() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = streamfleet::Producer::new(queue.clone());
    let large = vec![b'x'; 4 * 1024 * 1024];
    for _ in 0..6 {
        let job = harness::scene::job(large.clone()).delay(Duration::from_secs(3600));
        producer.submit(job).await.unwrap();
    }
    let mut seen = 0;
    loop {
        let page = queue.delayed().page(seen, 100).await.unwrap();
        assert!(page.len() <= 4, "{}", page.len());
        if page.is_empty() {
            break;
        }
        seen += page.len() as u64;
    }
    assert_eq!(seen, 6);
}
