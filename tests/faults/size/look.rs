//! Lookups in a queue whose jobs are large, many, or moving.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;
use streamfleet::job::{JobId, State};
use streamfleet_engine::admin::{Filter, JobSearch};

use harness::fleet::queue;
use harness::redis_server::RedisServer;
use harness::scene::SOON;

const STREAM: &str = "sf:{default}:jobs";
const DELAYED: &str = "sf:{default}:delayed";
const FIELDS: &str = "sf:{default}:delayed:fields";
const LARGE: usize = 8 * 1024 * 1024;

/// Returns the commands that scripts ran during `work`, as MONITOR reports them.
pub(super) async fn inside(server: &RedisServer, work: impl Future<Output = ()>) -> Vec<String> {
    const END: &str = "the end of the work";
    let mut monitor = TcpStream::connect(server.addr()).unwrap();
    monitor.set_read_timeout(Some(SOON)).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(monitor).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    work.await;
    server.cmd(&["ECHO", END]);
    let lines = lines.map(Result::unwrap).take_while(|line| !line.contains(END));
    lines.filter_map(|line| Some(line.split_once(" lua] ")?.1.to_owned())).collect()
}

/// Returns true if a command passes a job's fields, or a whole hash, to its script.
fn reads_whole(command: &str) -> bool {
    let hands = ["XRANGE", "XREVRANGE", "HGETALL", "HVALS"].map(|name| format!("\"{name}\""));
    let packed = command.starts_with("\"HGET\"") || command.starts_with("\"HMGET\"");
    hands.iter().any(|hand| command.starts_with(hand)) || packed && command.contains(FIELDS)
}

/// Returns a delayed job's packed fields: the lane, its type and a large payload.
fn packed(job_type: &str, payload: usize) -> Vec<u8> {
    let mut packed = vec![0x95];
    for text in ["normal", "type", job_type, "payload"] {
        packed.push(0xa0 + u8::try_from(text.len()).unwrap());
        packed.extend(text.as_bytes());
    }
    packed.push(0xdb);
    packed.extend(u32::try_from(payload).unwrap().to_be_bytes());
    packed.extend(vec![b'x'; payload]);
    packed
}

fn park(server: &RedisServer, member: &str, due: u64, fields: &[u8]) {
    server.cmd(&["ZADD", DELAYED, &due.to_string(), member]);
    let set = redis::cmd("HSET").arg(FIELDS).arg(member).arg(fields).to_owned();
    set.exec(&mut server.client()).unwrap();
}

fn add(server: &RedisServer, job_type: &str, payload: usize) -> JobId {
    let body = "x".repeat(payload);
    let added = server.cmd(&["XADD", STREAM, "*", "type", job_type, "payload", &body]);
    redis::from_redis_value::<String>(added).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_script_reads_a_jobs_fields_to_find_the_job() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.join(Duration::from_secs(15)).await.unwrap();
    let running = add(&server, "runs", LARGE);
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "somebody", "STREAMS", STREAM, ">"]);
    let waiting = add(&server, "waits", LARGE);
    let own = add(&server, "own", LARGE);
    server.cmd(&[
        "HSET",
        "sf:{default}:job:own",
        "state",
        "waiting",
        "entry",
        &own.to_string(),
        "lane",
        "normal",
    ]);
    park(&server, "later", 9_000_000_000_000, &packed("parked", LARGE));
    let mut seen = Vec::new();
    let commands = inside(&server, async {
        for id in [running, waiting, "own".parse().unwrap(), "later".parse().unwrap()] {
            let status = queue.status(&id).await.unwrap().unwrap();
            seen.push((status.state, status.job_type, status.worker));
        }
    })
    .await;
    let want = [
        (State::Running, "runs", Some("somebody")),
        (State::Waiting, "waits", None),
        (State::Waiting, "own", None),
        (State::Scheduled, "parked", None),
    ];
    let want = want.map(|(state, name, worker)| (state, name.to_owned(), worker.map(str::to_owned)));
    assert_eq!(seen, want);
    let reads: Vec<_> = commands.iter().filter(|command| reads_whole(command)).collect();
    assert!(!commands.is_empty() && reads.is_empty(), "{reads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_reads_large_fields_only_of_jobs_that_may_match() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    server.cmd(&["XADD", STREAM, "*", "type", "a", "offloaded", "token 10", "encoding", "offloaded"]);
    let mut packed = vec![0x97];
    for text in ["normal", "type", "a", "offloaded", "token 10", "encoding", "offloaded"] {
        packed.push(0xa0 + u8::try_from(text.len()).unwrap());
        packed.extend(text.as_bytes());
    }
    park(&server, "later", 9_000_000_000_000, &packed);
    let reads = async |job_type: &str| {
        server.cmd(&["CONFIG", "RESETSTAT"]);
        let filter = Filter::new().job_type(job_type).unwrap().condition("payload.customer=9").unwrap();
        let search = JobSearch::new().states(vec![State::Waiting, State::Scheduled]).filter(filter);
        let (mut looked_at, mut from) = (0, None);
        loop {
            let page = queue.find_jobs(&search, from).await.unwrap();
            looked_at += page.read;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.client()).unwrap();
        let gets = stats.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls=")).unwrap_or("0,");
        (looked_at, gets.split(',').next().unwrap().parse::<u32>().unwrap())
    };
    // Each page takes a snapshot, too.
    let (others, matching) = (reads("b").await, reads("a").await);
    assert_eq!((others.0, matching.0, matching.1 - others.1), (2, 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_a_job_ends_when_its_bytes_are_used_up() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for nth in 0..40 {
        let (id, payload) = (format!("own-{nth}"), "x".repeat(100_000));
        server.cmd(&["XADD", STREAM, "*", "type", "a", "id", &id, "payload", &payload]);
    }
    let id: JobId = "own-20".parse().unwrap();
    let mut bytes = 1_000_000;
    assert!(queue.seek_within(&id, 1000, &mut bytes).await.unwrap().is_none());
    assert_eq!(bytes, 0);
    let mut bytes = 100_000_000;
    let found = queue.seek_within(&id, 1000, &mut bytes).await.unwrap().unwrap();
    assert_eq!((found.id, found.state), (id, State::Waiting));
    assert!((90_000_000..99_000_000).contains(&bytes), "{bytes}");
}

/// How often the server ran a script that was named by its digest.
fn scripts_run(client: &mut redis::Connection) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(client).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_moves_during_a_lookup_is_found_wherever_it_is() {
    const MOVE: &str = "local fields = {'type', 'test', 'id', 'own'} \
        local entry = redis.call('HGET', KEYS[4], 'entry') \
        if redis.call('ZREM', KEYS[2], 'own') == 1 then \
          redis.call('HDEL', KEYS[3], 'own') \
          entry = redis.call('XADD', KEYS[1], '*', unpack(fields)) \
          redis.call('HSET', KEYS[4], 'state', 'waiting', 'entry', entry, 'lane', 'normal') \
        else \
          if entry then redis.call('XDEL', KEYS[1], entry) end \
          redis.call('ZADD', KEYS[2], '9000000000000', 'own') \
          redis.call('HSET', KEYS[3], 'own', cmsgpack.pack({'normal', unpack(fields)})) \
          redis.call('HSET', KEYS[4], 'state', 'retrying') \
        end return 1";
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let command =
        redis::cmd("EVAL").arg(&[MOVE, "4", STREAM, DELAYED, FIELDS, "sf:{default}:job:own"]).to_owned();
    command.exec(&mut server.client()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, mut client) = (Arc::clone(&stop), server.client());
    let mover = std::thread::spawn(move || {
        // A look is repeated if the job moved, but not forever. So the job moves after one to six runs of the script, however
        // slow the machine is.
        for pause in (1..=6).cycle() {
            let from = scripts_run(&mut client);
            while scripts_run(&mut client) < from + pause {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            command.exec(&mut client).unwrap();
        }
    });
    let id = "own".parse().unwrap();
    let (mut parked, mut waiting) = (0, 0);
    for _ in 0..3_000 {
        let status = queue.status(&id).await.unwrap().expect("the job always exists somewhere");
        match (status.state, status.due, status.entry) {
            (State::Retrying, Some(_), None) => parked += 1,
            (State::Waiting, None, Some(_)) => waiting += 1,
            other => panic!("{other:?}"),
        }
        assert_eq!(status.job_type, "test");
    }
    stop.store(true, Ordering::Relaxed);
    mover.join().unwrap();
    println!("{parked} times parked, {waiting} times waiting");
    assert!(parked > 0 && waiting > 0);
    assert_eq!(server.cmd(&["EXISTS", "sf:{default}:job:own"]), Value::Int(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_delayed_jobs_passes_no_large_job_to_its_script() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for (nth, size) in [10, LARGE, 100_000, 10].into_iter().enumerate() {
        park(&server, &format!("job-{nth}"), 9_000_000_000_000 + nth as u64, &packed("test", size));
    }
    server.cmd(&["ZADD", DELAYED, "9000000000009", "bare"]);
    let mut sizes = Vec::new();
    let commands = inside(&server, async {
        let page = queue.delayed().page(0, 100).await.unwrap();
        let size = |fields: &streamfleet::job::Envelope| fields.get(b"payload").unwrap().len();
        sizes.extend(page.iter().map(|job| job.fields.as_ref().map(|(_, fields)| size(fields))));
    })
    .await;
    assert_eq!(sizes, [Some(10), Some(LARGE), Some(100_000), Some(10), None]);
    let handed: Vec<_> = commands.iter().filter(|command| command.starts_with("\"HGET\"")).collect();
    assert!(
        handed.iter().all(|command| !command.contains("job-1") && !command.contains("job-2")),
        "{handed:?}"
    );
    assert!(handed.iter().any(|command| command.contains("job-3")), "{handed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_page_follows_a_chain_of_replaced_jobs_only_so_far() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let batch = "sf:{default}:batch:b";
    // A thousand members that wait for a job that was replaced two hundred times.
    let chains = "for m = 1, 1000 do redis.call('HSET', KEYS[1], 'm:member-' .. m, '=0-0') end \
        for nth = 0, 199 do redis.call('HSET', KEYS[1], 'w:0-' .. nth, '>0-' .. nth + 1) end \
        redis.call('HSET', KEYS[1], 'w:0-200', 1000, 'state', 'closed', 'size', 1000, 'left', 1000, \
            'created_ms', 1) return 1";
    server.cmd(&["EVAL", chains, "1", batch]);
    let mut found = None;
    let commands = inside(&server, async {
        found = queue.batch_status(&"b".parse().unwrap()).await.unwrap();
    })
    .await;
    let found = found.unwrap();
    assert_eq!((found.left, found.waiting_for.len()), (1_000, 20));
    let calls = commands.split(|command| command.starts_with("\"HSCAN\""));
    let steps = calls.map(|call| call.iter().filter(|command| command.contains("\"w:")).count());
    let most = steps.max().unwrap();
    assert!((200..=2_000).contains(&most), "{most} steps in one script");
}

#[tokio::test(flavor = "multi_thread")]
async fn recurring_jobs_beyond_half_a_megabyte_are_read_one_by_one() {
    use streamfleet::cron::{Entry, Schedule};
    use streamfleet::job::Encoding;
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let payload = vec![b'x'; 16 * 1024];
    for nth in 0..50 {
        let schedule = Schedule::new("@yearly", "UTC").unwrap();
        let entry = Entry::new(&format!("entry-{nth}"), schedule, "note").unwrap();
        queue.cron().put(&entry.payload(&payload, Encoding::Raw).unwrap()).await.unwrap();
    }
    let mut read = 0;
    let commands = inside(&server, async {
        let table = queue.cron().table().await.unwrap();
        read = table.entries.iter().filter(|status| status.entry.is_ok()).count();
    })
    .await;
    let handed = commands.iter().filter(|command| command.starts_with("\"HGET\"")).count();
    assert_eq!(read, 50);
    assert!((20..33).contains(&handed), "{handed} entries went through the script");
}
