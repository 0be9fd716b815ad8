//! Migrations.

use streamfleet_sql::schema::{Part, migrate, pending, print};
use streamfleet_sql::{Error, history};

use crate::kit::{Place, ended};

on_all_databases!(
    migrations_are_applied_once,
    two_processes_may_migrate_at_the_same_time,
    a_part_may_be_applied_alone,
    a_changed_migration_is_refused,
    missing_tables_are_reported_with_the_command_that_makes_them,
    printed_migrations_may_be_applied_by_hand,
);

async fn migrations_are_applied_once(place: Place) {
    let database = place.open().await;
    let versions = |found: Vec<streamfleet_sql::schema::Migration>| -> Vec<u32> {
        found.iter().map(|one| one.version).collect()
    };
    assert_eq!(versions(pending(&database, &Part::ALL).await.unwrap()), [1, 2, 3]);
    assert_eq!(versions(migrate(&database, &Part::ALL).await.unwrap()), [1, 2, 3]);
    assert!(pending(&database, &Part::ALL).await.unwrap().is_empty());
    assert!(migrate(&database, &Part::ALL).await.unwrap().is_empty());
}

async fn two_processes_may_migrate_at_the_same_time(place: Place) {
    let (one, other) = (place.open().await, place.open().await);
    let (first, second) = tokio::join!(migrate(&one, &Part::ALL), migrate(&other, &Part::ALL));
    assert_eq!(first.unwrap().len() + second.unwrap().len(), 3);
}

async fn a_part_may_be_applied_alone(place: Place) {
    let database = place.open().await;
    let applied = migrate(&database, &[Part::Effects]).await.unwrap();
    assert_eq!(applied.len(), 1);
    assert_eq!(applied[0].part, Part::Effects);
    assert_eq!(pending(&database, &Part::ALL).await.unwrap().len(), 2);
    assert_eq!(migrate(&database, &Part::ALL).await.unwrap().len(), 2);
}

async fn a_changed_migration_is_refused(place: Place) {
    let database = place.migrated().await;
    place.hand().await.run("UPDATE streamfleet_migrations SET checksum = 'x' WHERE version = 2").await;
    let error = migrate(&database, &Part::ALL).await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }) && error.to_string().contains("migration 2"), "{error}");
    place.hand().await.run("UPDATE streamfleet_migrations SET version = 99 WHERE version = 2").await;
    let error = pending(&database, &Part::ALL).await.unwrap_err();
    assert!(error.to_string().contains("a newer streamfleet"), "{error}");
}

async fn missing_tables_are_reported_with_the_command_that_makes_them(place: Place) {
    let database = place.open().await;
    let error = history::write(&database, &[ended(1)]).await.unwrap_err();
    assert!(matches!(error, Error::Schema { .. }), "{error:?}");
    assert!(error.to_string().contains("run `streamfleet sql migrate`"), "{error}");
}

async fn printed_migrations_may_be_applied_by_hand(place: Place) {
    let database = place.open().await;
    place.hand().await.run(&print(place.dialect, &Part::ALL)).await;
    assert!(pending(&database, &Part::ALL).await.unwrap().is_empty());
    assert_eq!(history::write(&database, &[ended(1)]).await.unwrap().stored, 1);
}
