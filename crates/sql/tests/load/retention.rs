//! How long the removal of the oldest day takes.

use std::time::Instant;

use serde::Serialize;
use streamfleet_sql::Options;
use streamfleet_sql::history::partitions::retain;

use crate::month::Month;
use crate::place::Place;

/// What the removal of a day took, in seconds.
#[derive(Serialize)]
pub(crate) struct Dropped {
    pub(crate) seconds: f64,
    /// One call of several that SQLite needs, at most.
    pub(crate) longest_call: f64,
    pub(crate) partitions: usize,
    pub(crate) rows: u64,
}

pub(crate) async fn drop_a_day(place: &Place) -> Dropped {
    let database = place.open_with(Options::default()).await;
    let mut dropped = Dropped { seconds: 0.0, longest_call: 0.0, partitions: 0, rows: 0 };
    loop {
        let began = Instant::now();
        let removed = retain(&database, Month::first_day().plus(1)).await.unwrap();
        let took = began.elapsed().as_secs_f64();
        dropped.seconds += took;
        dropped.longest_call = dropped.longest_call.max(took);
        dropped.partitions += removed.partitions;
        dropped.rows += removed.rows;
        if !removed.is_more {
            break;
        }
    }
    database.close().await;
    dropped
}
