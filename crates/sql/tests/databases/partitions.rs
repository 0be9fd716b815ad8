//! Partitions are made ahead, take the rows of the catch-all, and are dropped.

use streamfleet_sql::history::partitions::{prepare, retain, unplaced};
use streamfleet_sql::history::questions::{LifeKey, life};
use streamfleet_sql::history::{Day, Ended, write};
use streamfleet_sql::{Dialect, Error};

use crate::kit::{MS, Place, ended, queue};

const DAY_MS: u64 = 86_400_000;

on_all_databases!(
    partitions_are_made_from_yesterday_to_a_week_ahead,
    rows_without_a_partition_are_kept_and_move_to_theirs,
    days_that_are_too_old_are_dropped,
    two_processes_may_change_partitions_at_the_same_time,
    a_history_that_nobody_has_looked_after_for_long_is_put_in_order,
    partitions_of_missing_tables_are_reported,
);

/// The page that says how to empty a catch-all.
const PAGE: &str = include_str!("../../../../docs/sql.md");

fn today() -> Day {
    Day::of_ms(MS)
}

/// Returns how many partitions there are if a table has this many.
fn in_all(place: &Place, count: usize) -> usize {
    if place.dialect == Dialect::Sqlite { 0 } else { 4 * count }
}

async fn partitions_are_made_from_yesterday_to_a_week_ahead(place: Place) {
    let database = place.migrated().await;
    assert_eq!(prepare(&database, today()).await.unwrap(), in_all(&place, 9));
    assert_eq!(prepare(&database, today()).await.unwrap(), 0);
    assert_eq!(prepare(&database, today().plus(2)).await.unwrap(), in_all(&place, 2));
    write(&database, &[ended(0), ended(9 * DAY_MS)]).await.unwrap();
    assert_eq!(unplaced(&database).await.unwrap(), 0);
}

async fn rows_without_a_partition_are_kept_and_move_to_theirs(place: Place) {
    let database = place.migrated().await;
    let lives: Vec<Ended> = [0, 3 * DAY_MS, 400 * DAY_MS].into_iter().map(ended).collect();
    write(&database, &lives).await.unwrap();
    let is_sqlite = place.dialect == Dialect::Sqlite;
    assert_eq!(unplaced(&database).await.unwrap(), if is_sqlite { 0 } else { 3 });
    prepare(&database, today()).await.unwrap();
    assert_eq!(unplaced(&database).await.unwrap(), u64::from(!is_sqlite));
    for wanted in &lives {
        let key = LifeKey::new(queue(), wanted.life.clone(), wanted.created_ms);
        let story = life(&database, &key).await.unwrap().unwrap();
        assert_eq!((story.attempts.len(), &story.body), (2, &wanted.body));
    }
    assert_eq!(write(&database, &lives).await.unwrap().stored, 3);
    assert_eq!(place.hand().await.number("SELECT COUNT(*) FROM sf_jobs").await, 3);
}

async fn days_that_are_too_old_are_dropped(place: Place) {
    let database = place.migrated().await;
    prepare(&database, today()).await.unwrap();
    // 60 days ago there was no partition, so the row is where those go that have none.
    let old = {
        let mut life = ended(1);
        life.life = format!("{}-0", MS - 60 * DAY_MS).parse().unwrap();
        life
    };
    let lives: Vec<Ended> = (0..5).map(|day| ended(day * DAY_MS)).chain([old]).collect();
    write(&database, &lives).await.unwrap();
    let removed = retain(&database, today().plus(2)).await.unwrap();
    assert_eq!((removed.partitions, removed.is_more), (in_all(&place, 3), false));
    let rows = match place.dialect {
        Dialect::MySql => 0,
        Dialect::Postgres => 5,
        Dialect::Sqlite => 15,
    };
    assert_eq!(removed.rows, rows);
    let mut hand = place.hand().await;
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_jobs").await, 3);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_attempts").await, 6);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_keys").await, 3);
    let again = retain(&database, today().plus(2)).await.unwrap();
    assert_eq!((again.partitions, again.rows), (0, 0));
    assert_eq!(
        prepare(&database, today()).await.unwrap(),
        if place.dialect == Dialect::Postgres { 12 } else { 0 }
    );
}

async fn two_processes_may_change_partitions_at_the_same_time(place: Place) {
    let (one, other) = (place.migrated().await, place.open().await);
    let (first, second) = tokio::join!(prepare(&one, today()), prepare(&other, today()));
    assert_eq!(first.unwrap() + second.unwrap(), in_all(&place, 9));
    let (first, second) = tokio::join!(retain(&one, today()), retain(&other, today()));
    assert!(first.unwrap().partitions.max(second.unwrap().partitions) <= in_all(&place, 1));
    write(&one, &[ended(0)]).await.unwrap();
}

async fn a_history_that_nobody_has_looked_after_for_long_is_put_in_order(place: Place) {
    let database = place.migrated().await;
    prepare(&database, today()).await.unwrap();
    let lives: Vec<Ended> = [40, 50, 60].into_iter().map(|day| ended(day * DAY_MS)).collect();
    write(&database, &lives).await.unwrap();
    prepare(&database, today().plus(60)).await.unwrap();
    assert_eq!(unplaced(&database).await.unwrap(), 0);
    retain(&database, today().plus(55)).await.unwrap();
    assert_eq!(place.hand().await.number("SELECT COUNT(*) FROM sf_jobs").await, 1);
}

async fn partitions_of_missing_tables_are_reported(place: Place) {
    let database = place.open().await;
    let error = retain(&database, today()).await.unwrap_err();
    assert!(matches!(error, Error::Schema { .. }), "{error:?}");
}

/// Returns the blocks of SQL under a heading of the page.
fn statements(heading: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(&format!("{heading}\n")).unwrap();
    let section = section.split("\n#").next().unwrap();
    section.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

#[tokio::test]
async fn the_catch_all_of_mariadb_is_emptied_by_the_statements_of_the_page() {
    let place = Place::new(Dialect::MySql).await;
    let database = place.migrated().await;
    let lives: Vec<Ended> = (0..2000).map(|number| ended(number % 3 * DAY_MS + number)).collect();
    write(&database, &lives).await.unwrap();
    let mut hand = place.hand().await;
    let [aside, back] = statements("#### Empty the catch-all of MariaDB")[..] else { panic!("two blocks") };
    hand.run(aside).await;
    assert_eq!(unplaced(&database).await.unwrap(), 0);
    // What ends meanwhile goes to its partition.
    prepare(&database, today()).await.unwrap();
    write(&database, &[ended(DAY_MS + 5000)]).await.unwrap();
    hand.run(back).await;
    assert_eq!(unplaced(&database).await.unwrap(), 0);
    for (table, rows) in [("sf_jobs", 2001), ("sf_attempts", 4002), ("sf_bodies", 2001), ("sf_keys", 2001)] {
        assert_eq!(hand.number(&format!("SELECT COUNT(*) FROM {table}")).await, rows, "{table}");
    }
}
