//! An audit: jobs of every kind are submitted in every way while workers, Redis and the network suffer faults. At the end a
//! judge decides whether each promise held. It compares what was submitted, a diary outside Redis, and what is left.
//!
//! [`load`] submits plain jobs in [`bulk`] and, among them, [`order`]s through [`send`]; the [`register`] remembers them.
//! [`faults`] strike by a [`plan`](mod@plan). A [`person`] cancels, replays and decides. A [`worker`] is the process that runs jobs
//! by their [`payload`] and writes the [`diary`]. [`pulse`] notices when Redis is away. [`account`] lists what is left, [`causes`]
//! knows what may have made a job run twice, and [`offsets`] knows how far the server's clock was off. [`judge`] applies the rules
//! ([`rules`], [`ends`], [`again`], [`ticks`]) to the [`view`] of all that. [`recovery`] and [`slow`] measure, [`watch`] shows the
//! progress, and the [`report`] is for people. The [`stage`] connects all of them.
#![expect(missing_docs, reason = "nothing is published, and a comment says what a name does not")]
#![expect(clippy::unwrap_used, reason = "an audit that cannot go on fails")]
#![expect(clippy::wildcard_enum_match_arm, reason = "an unexpected kind of answer ends the audit")]

pub mod account;
mod again;
mod bulk;
pub mod causes;
pub mod diary;
mod ends;
mod faults;
pub mod judge;
mod load;
pub mod offsets;
mod options;
mod order;
mod payload;
mod person;
pub mod plan;
mod pulse;
mod recovery;
pub mod register;
pub mod report;
mod rules;
mod send;
mod slow;
mod stage;
pub mod ticks;
mod view;
mod watch;
pub mod worker;

use std::sync::Arc;
use std::time::Instant;

pub use options::{Dose, Options};
pub use report::Report;
use stage::Stage;
pub use watch::Progress;

use harness::clock::can_shift;
use harness::redis_server::{Aof, RedisServer};

/// Runs an audit and reports its progress every second.
pub fn run(options: &Options, tell: impl FnMut(&Progress) + Send) -> Report {
    let (begun, mut options, mut notes) = (Instant::now(), options.clone(), Vec::new());
    if options.dose.clock_steps > 0 && !can_shift() {
        options.dose.clock_steps = 0;
        notes.push("the server's clock was not changed: no C compiler was found".to_owned());
    }
    let mut builder = RedisServer::builder().aof(Aof::Always).args(&[
        "--slowlog-log-slower-than",
        slow::NOTED_US,
        "--slowlog-max-len",
        "1000",
        "--latency-monitor-threshold",
        "1",
    ]);
    if options.dose.clock_steps > 0 {
        builder = builder.clock_shifts();
    }
    let server = Arc::new(builder.start());
    let (case, suffered, seconds) = Stage::new(&server, &options).perform(tell);
    let judgement = case.judge();
    Report {
        seed: options.seed,
        workers: options.workers,
        lease_ms: u64::try_from(options.lease.as_millis()).expect("a lease is short"),
        server: format!("{}, append-only file with fsync always", version(&server)),
        seconds: [seconds[0], seconds[1], begun.elapsed().as_secs_f64()],
        faults: suffered.counts,
        slowest: suffered.slowest,
        judgement,
        notes,
    }
}

/// Returns the server's name and version.
fn version(server: &RedisServer) -> String {
    let info: String = redis::from_redis_value(server.cmd(&["INFO", "server"])).unwrap_or_default();
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match (value("valkey_version:"), value("redis_version:")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, version) => format!("Redis {}", version.unwrap_or("?")),
    }
}
