//! Writes the lives of a month as the writers of the queues do: up to 500 of one queue at a time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;
use streamfleet_sql::history::partitions::prepare;
use streamfleet_sql::history::{Ended, write};
use streamfleet_sql::{Database, Dialect, Options};
use tokio::task::JoinSet;

use crate::month::{DAYS, Month, QUEUES};
use crate::place::Place;

/// How many lives one call writes.
const LIVES: u64 = 500;

/// Progress is printed after each such part.
const PARTS: u64 = 20;

/// How the lives were written.
#[derive(Serialize)]
pub(crate) struct Filled {
    pub(crate) lives: u64,
    pub(crate) seconds: f64,
    pub(crate) lives_per_second: f64,
    /// What a call with 500 lives took, in milliseconds.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// How often a call failed by a deadlock or a lock, and was repeated.
    pub(crate) repeated: u64,
}

/// What the writers share.
struct Shared {
    database: Database,
    month: Month,
    numbers: Range<u64>,
    next: AtomicU64,
    written: AtomicU64,
    repeated: AtomicU64,
    began: Instant,
}

/// Writes the lives of the month with these numbers.
pub(crate) async fn fill(place: &Place, month: &Month, numbers: Range<u64>, writers: usize) -> Filled {
    let options = Options { max_connections: 8, ..Options::default() };
    let database = place.open_with(options).await;
    // Each call makes those of nine days.
    for day in (1..=DAYS).step_by(8) {
        prepare(&database, Month::first_day().plus(i32::try_from(day).unwrap())).await.unwrap();
    }
    let shared = Arc::new(Shared {
        database,
        month: Month::new(month.lives, month.seed),
        numbers: numbers.clone(),
        next: AtomicU64::new(0),
        written: AtomicU64::new(0),
        repeated: AtomicU64::new(0),
        began: Instant::now(),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..if place.dialect == Dialect::Sqlite { 1 } else { writers } {
        tasks.spawn(write_chunks(Arc::clone(&shared)));
    }
    let mut took: Vec<f64> = tasks.join_all().await.into_iter().flatten().collect();
    let seconds = shared.began.elapsed().as_secs_f64();
    shared.database.close().await;
    settle(place).await;
    took.sort_unstable_by(f64::total_cmp);
    let lives = numbers.end - numbers.start;
    Filled {
        lives,
        seconds,
        lives_per_second: lives as f64 / seconds,
        p50_ms: crate::answers::quantile(&took, 50),
        p99_ms: crate::answers::quantile(&took, 99),
        repeated: shared.repeated.load(Ordering::Relaxed),
    }
}

/// Writes chunks until none is left. Returns how many milliseconds each took.
async fn write_chunks(shared: Arc<Shared>) -> Vec<f64> {
    let mut took = Vec::new();
    loop {
        let lives = shared.chunk(shared.next.fetch_add(1, Ordering::Relaxed));
        let Some(lives) = lives else { return took };
        let began = Instant::now();
        loop {
            match write(&shared.database, &lives).await {
                Ok(written) => break assert!(written.poison.is_empty(), "{:?}", written.poison),
                Err(error) if error.is_transient() => shared.repeated.fetch_add(1, Ordering::Relaxed),
                Err(error) => panic!("{error}"),
            };
        }
        took.push(began.elapsed().as_secs_f64() * 1000.0);
        shared.progress(lives.len() as u64);
    }
}

impl Shared {
    fn progress(&self, count: u64) {
        let (before, all) =
            (self.written.fetch_add(count, Ordering::Relaxed), self.numbers.end - self.numbers.start);
        let (part, seconds) = ((before + count) * PARTS / all, self.began.elapsed().as_secs_f64());
        if part > before * PARTS / all {
            let rate = (before + count) as f64 / seconds;
            eprintln!("{:>3} %  {rate:.0} lives/s", part * 100 / PARTS);
        }
    }

    /// The lives of a chunk, all of one queue; `None` after the last chunk.
    fn chunk(&self, number: u64) -> Option<Vec<Ended>> {
        let (queue, first) = (number % QUEUES, self.numbers.start + number / QUEUES * LIVES * QUEUES);
        if first >= self.numbers.end {
            return None;
        }
        let numbers = (0..LIVES).map(|nth| first + nth * QUEUES + queue);
        Some(
            numbers
                .filter(|number| self.numbers.contains(number))
                .map(|number| self.month.life(number))
                .collect(),
        )
    }
}

/// Does what the server of PostgreSQL would do by itself within the next minutes.
async fn settle(place: &Place) {
    match place.dialect {
        Dialect::Postgres => place.hand().await.run("VACUUM ANALYZE").await,
        Dialect::MySql | Dialect::Sqlite => {}
    }
}
