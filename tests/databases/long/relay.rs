//! How fast a relay is, and which process works how much. `make sql-load ARGS="--outbox 100000"` relays 100,000 rows.

use std::fs;
use std::time::{Duration, Instant};

use harness::alone::alone;
use harness::wait::{until, until_async};
use streamfleet_sql::Dialect;

use crate::kit::{Hand, Place};
use crate::outbox::LEFT;
use crate::scene::{SOON, Scene};

on_all_databases!(alone: rows_are_relayed);

/// The rows of a run that is not asked for more.
const ROWS: usize = 4_000;

const QUEUES: usize = 8;

const OUTBOX: &str = "[outbox]\nurl_file = \"{url}\"\npoll = \"50ms\"\n[queues.default]\nconcurrency = 1\n";

async fn rows_are_relayed(place: Place) {
    let _alone = alone();
    let (scene, rows) = (Scene::new(place).await, rows());
    let mut hand = scene.place.hand().await;
    for first in (0..rows).step_by(1000) {
        hand.run(&insert(first, rows.min(first + 1000))).await;
    }
    let worker = scene.worker(OUTBOX);
    let relayed = || (0..QUEUES).map(|queue| length(&scene, queue)).sum::<usize>();
    until("the first rows", SOON, || relayed() > 0);
    let (before, began, first) =
        (Spent::of(&scene, worker.pid(), &mut hand).await, Instant::now(), relayed());
    let patience = SOON.max(Duration::from_millis(10 * rows as u64));
    until("all rows", patience, || relayed() >= rows);
    let (after, seconds) = (Spent::of(&scene, worker.pid(), &mut hand).await, began.elapsed().as_secs_f64());
    let share =
        |name: &str, before: f64, after: f64| format!("{name} {:.0} %", 100.0 * (after - before) / seconds);
    let counted = (rows - first) as f64;
    eprintln!(
        "{}: {:.0} rows/s; of one processor: {}, {}, {}; {:.4} statements per row",
        scene.place.dialect,
        counted / seconds,
        share("database", before.database, after.database),
        share("redis", before.redis, after.redis),
        share("relay", before.relay, after.relay),
        (after.statements - before.statements) as f64 / counted,
    );
    until_async("an empty outbox", SOON, async || hand.number(LEFT).await == 0).await;
    assert_eq!(relayed(), rows);
    worker.term();
    worker.wait_exit(SOON);
}

fn rows() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the number is for the person who runs this")]
    let given = std::env::var("STREAMFLEET_TEST_ROWS").ok();
    given.map_or(ROWS, |text| text.parse().expect("STREAMFLEET_TEST_ROWS must be a number"))
}

fn insert(first: usize, end: usize) -> String {
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(100));
    let row = |nth| format!("('order-{nth}', 'mail-{}', 'test', '{payload}')", nth % QUEUES);
    let rows: Vec<String> = (first..end).map(row).collect();
    format!("INSERT INTO streamfleet_outbox (job_id, queue, type, payload) VALUES {}", rows.join(", "))
}

fn length(scene: &Scene, queue: usize) -> usize {
    let length = scene.redis.cmd(&["XLEN", &format!("sf:{{mail-{queue}}}:jobs")]);
    redis::from_redis_value(length).unwrap()
}

/// The seconds of a processor that each has used so far, and how many statements the server has executed.
struct Spent {
    database: f64,
    redis: f64,
    relay: f64,
    statements: i64,
}

impl Spent {
    async fn of(scene: &Scene, relay: u32, hand: &mut Hand) -> Self {
        let statements = match scene.place.dialect {
            Dialect::MySql => {
                "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'"
            }
            Dialect::Postgres => {
                "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
            }
            Dialect::Sqlite => "SELECT 0",
        };
        Self {
            database: scene.place.shell().map_or(0.0, |shell| seconds_of(shell, true)),
            redis: scene.redis.cpu_seconds(),
            relay: seconds_of(relay, false),
            statements: hand.number(statements).await,
        }
    }
}

/// The seconds of a process, or of all that come from it.
fn seconds_of(pid: u32, with_children: bool) -> f64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
    let rest: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // In hundredths of a second, on all systems on which these tests run.
    let own: f64 = rest[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum();
    if !with_children {
        return own;
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    own + children.split_whitespace().map(|child| seconds_of(child.parse().unwrap(), true)).sum::<f64>()
}
