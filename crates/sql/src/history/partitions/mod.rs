//! The partitions of the history, one for each day. [`prepare`] makes those of the next days, [`retain`] drops those that are
//! too old. Both are safe to repeat, and of two processes one waits for the other.
//!
//! SQLite has no partitions: [`prepare`] does nothing there, and [`retain`] deletes rows.

mod mysql;
mod postgres;
mod rest;

use std::time::Instant;

use super::{Day, TABLES};
use crate::Error;
use crate::database::{Database, Dialect};
pub use rest::MOST_COUNTED;

/// How many days ahead there are partitions.
const AHEAD: i32 = 7;

/// The most days behind for which partitions are made if none was made for long.
const BEHIND: i32 = 30;

/// What [`retain`] has removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Removed {
    /// How many partitions were dropped, in all tables together.
    pub partitions: usize,
    /// How many rows were deleted one by one: those of days without a partition, and all in SQLite.
    pub rows: u64,
    /// Whether there is more to delete: call again.
    pub is_more: bool,
}

/// Makes the partitions from yesterday to 7 days ahead that are missing, and moves the rows there that the catch-all has of
/// these days. Returns how many partitions it has made, in all tables together. Call it at least once a day.
///
/// # Errors
///
/// [`Error::Schema`] if there are no tables, otherwise what the database answered. Some partitions may have been made.
pub async fn prepare(database: &Database, today: Day) -> Result<usize, Error> {
    let mut session = database.session("make the partitions of the history").await?;
    let mut made = 0;
    match database.dialect() {
        Dialect::MySql => {
            made = mysql::locked(&mut session, async |session| {
                let mut made = 0;
                for table in TABLES {
                    made += mysql::prepare(session, table, today).await?;
                }
                Ok(made)
            })
            .await?;
        }
        Dialect::Postgres => {
            for table in TABLES {
                made += postgres::prepare(&mut session, table, today).await?;
            }
        }
        Dialect::Sqlite => {}
    }
    Ok(made)
}

/// Removes the history of all lives that began before this day: it drops partitions, and deletes rows that have none, 5,000 at
/// a time for about a second.
///
/// # Errors
///
/// [`Error::Schema`] if there are no tables, otherwise what the database answered. Some may have been removed.
pub async fn retain(database: &Database, first: Day) -> Result<Removed, Error> {
    let mut session = database.session("remove what is too old from the history").await?;
    let (mut removed, began) = (Removed::default(), Instant::now());
    match database.dialect() {
        Dialect::MySql => {
            removed.partitions = mysql::locked(&mut session, async |session| {
                let mut dropped = 0;
                for table in TABLES {
                    dropped += mysql::retain(session, table, first).await?;
                }
                Ok(dropped)
            })
            .await?;
        }
        Dialect::Postgres => {
            for table in TABLES {
                removed.partitions += postgres::retain(&mut session, table, first).await?;
                rest::delete(&mut session, table, first, began, &mut removed).await?;
            }
        }
        Dialect::Sqlite => {
            for table in TABLES {
                rest::delete(&mut session, table, first, began, &mut removed).await?;
            }
        }
    }
    Ok(removed)
}

/// Returns how many jobs the catch-all has, counted up to [`MOST_COUNTED`]. If there are any, [`prepare`] was not called for days, or a
/// clock is wrong. SQLite has no catch-all.
///
/// # Errors
///
/// What the database answered.
pub async fn unplaced(database: &Database) -> Result<u64, Error> {
    let mut session = database.session("look into the catch-all of the history").await?;
    rest::count(&mut session).await
}

/// Returns the days of which a table must have partitions, in order.
fn wanted(first: Day, today: Day) -> Vec<Day> {
    let all = (0..=BEHIND + AHEAD).map(|number| today.plus(number - BEHIND));
    all.filter(|day| *day >= first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_days_that_are_wanted_end_a_week_ahead() {
        let today = Day::of_ms(1_796_083_200_000);
        let days: Vec<String> = wanted(today.plus(6), today).iter().map(ToString::to_string).collect();
        assert_eq!(days, ["2026-12-07", "2026-12-08"]);
        assert_eq!(wanted(Day::of_ms(0), today).len(), 38);
        assert!(wanted(today.plus(8), today).is_empty());
    }
}
