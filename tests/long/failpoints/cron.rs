//! Recurring jobs: each missed tick is submitted once, whatever happens to the process that submits it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use super::drill::Drill;
use harness::cron::entry;
use harness::cron::{STATES, set_back};
use harness::fleet::queue;
use harness::ledger::{Ledger, Record};
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::witness::Witness;
use streamfleet::cron::Missed;

/// Two hourly entries that were last handled two hours ago.
const ENTRIES: [&str; 2] = ["one", "two"];
const TICKS: usize = 4;

/// The witnesses, by the port of the server.
static WITNESSES: Mutex<BTreeMap<u16, Witness>> = Mutex::new(BTreeMap::new());

fn submit(server: &RedisServer) {
    WITNESSES.lock().unwrap().insert(server.port(), Witness::of(server));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = queue(server).await;
        let minute = queue.cron().table().await.unwrap().now.as_ms() / 60_000 + 30;
        for name in ENTRIES {
            let hourly = entry(name, &format!("{} * * * *", minute % 60)).when_missed(Missed::All);
            let hourly = hourly.payload(b"ok", streamfleet::job::Encoding::Raw).unwrap();
            queue.cron().put(&hourly).await.unwrap();
            set_back(server, &queue, name, Duration::from_secs(7200)).await;
        }
        // The direct change is announced as any change is.
        server.cmd(&["HINCRBY", STATES, ":revision", "1"]);
    });
}

fn is_done(server: &RedisServer) -> bool {
    let seen = WITNESSES.lock().unwrap()[&server.port()].counts().len();
    seen == TICKS && jobs_left(server) == 0
}

/// Checks that each tick was submitted once, and that its job has run.
fn judge(server: &RedisServer, ledger: &Ledger) -> Result<(), String> {
    let counts = WITNESSES.lock().unwrap()[&server.port()].counts();
    let records = ledger.read();
    let ran: BTreeSet<&str> = records
        .iter()
        .filter_map(|record| match record {
            Record::Start { run, .. } => Some(run.job.as_str()),
            _ => None,
        })
        .collect();
    match counts.len() == TICKS && counts.values().all(|count| *count == 1) && ran.len() == TICKS {
        true => Ok(()),
        false => Err(format!("submitted: {counts:?}; ran: {ran:?}")),
    }
}

#[test]
fn each_tick_is_one_job_despite_any_fault() {
    Drill { scripts: &["agenda", "tick"], submit, is_done, judge }.run("cron");
}
