//! Taking over the large entries of a dead worker: few at a time, however many there are.

use harness::alone::alone;
use harness::process::peak_memory;
use harness::program::Program;
use harness::redis_server::RedisServer;
use harness::scene::{SOON, STREAM, Scene};
use harness::wait::until_async;
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

const DELAYED: &str = "sf:{default}:delayed";
const DEAD: &str = "sf:{default}:dead";
const LARGE: usize = 8 * 1024 * 1024 - 200;

/// As many as one script of the claimer takes over: together 800 MiB.
const ENTRIES: i64 = 100;
const PER_SCRIPT: i64 = 20;

/// The claimer holds eight of them at a time, each in up to four copies. All of them, even once, would be more than this.
const MOST_MIB: u64 = 600;

/// Appends entries and returns their ids.
const APPEND: &str = "local body, ids = string.rep('x', ARGV[2]), {} for nth = 1, ARGV[1] do \
    ids[nth] = redis.call('XADD', KEYS[1], '*', 'type', 'test', 'payload', body) end return ids";

/// Appends large entries as pending for a consumer without a process. Nobody reads them for that.
fn leave_large_entries(server: &RedisServer) {
    let mut claim = ["XCLAIM", STREAM, "fleet", "gone", "0"].map(str::to_owned).to_vec();
    let (entries, bytes) = (PER_SCRIPT.to_string(), LARGE.to_string());
    for _ in 0..ENTRIES / PER_SCRIPT {
        let ids = server.cmd(&["EVAL", APPEND, "1", STREAM, &entries, &bytes]);
        claim.extend(redis::from_redis_value::<Vec<String>>(ids).unwrap());
    }
    claim.extend(["FORCE", "JUSTID"].map(str::to_owned));
    server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "$"]);
    server.cmd(&claim);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_entries_of_a_dead_worker_are_taken_over_in_small_portions() {
    let _alone = alone();
    in_one_of_three(async || take_over().await).await;
}

async fn take_over() -> Verdict {
    let scene = Scene::new().await;
    leave_large_entries(&scene.server);
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let dir = tempfile::tempdir().unwrap();
    // The retries are not due, so the process holds only what it takes over.
    let program =
        Program { lease_ms: 3_000, backoff_ms: 3_600_000, ..Program::new(&scene.server.url(), dir.path()) };
    let claimer = program.launch().start();
    until_async("all to wait for their retries", 6 * SOON, async || {
        scene.int(&["ZCARD", DELAYED]) == ENTRIES
    })
    .await;
    let peak = peak_memory(claimer.pid()) >> 20;
    println!("the claimer had at most {peak} MiB");
    assert!(peak < MOST_MIB, "the claimer had {peak} MiB");
    assert_eq!((scene.int(&["XLEN", STREAM]), scene.int(&["XLEN", DEAD])), (0, 0));
    yardstick.judge(&scene.server)
}
