//! The tables: which migrations exist, which of them a database has, and how they are applied. The text of each is in
//! `migrations/`, one file for each dialect, so that an administrator can read and apply them by hand.

mod ledger;
mod migration;

use crate::database::{Database, Dialect};
use crate::{Error, Trouble};
pub use migration::{Migration, Part};

/// Applies the migrations of these parts that the database lacks, in order, and returns them. Two processes may call this at
/// the same time: one waits for the other. A migration that was interrupted is applied again.
///
/// # Errors
///
/// [`Error::Broken`] if a migration was changed after it was applied, or the database has one that this version does not know.
/// Otherwise what the database answered; what was applied before stays.
pub async fn migrate(database: &Database, parts: &[Part]) -> Result<Vec<Migration>, Error> {
    let mut session = database.session("migrate the database").await?;
    ledger::lock(&mut session).await?;
    let applied = apply(&mut session, parts).await;
    match ledger::unlock(&mut session, applied.is_ok()).await {
        Ok(()) => applied,
        Err(error) => applied.and(Err(error)),
    }
}

async fn apply(session: &mut crate::database::Session, parts: &[Part]) -> Result<Vec<Migration>, Error> {
    ledger::create(session).await?;
    let missing = missing(ledger::read(session).await?, session.dialect(), parts)?;
    for migration in &missing {
        tracing::info!(version = migration.version, name = migration.name, "a migration is applied");
        session.run(migration.text).await?;
        ledger::record(session, migration).await?;
    }
    Ok(missing)
}

/// Returns the migrations of these parts that the database lacks. It changes nothing.
///
/// # Errors
///
/// [`Error::Broken`] as [`migrate`], otherwise what the database answered.
pub async fn pending(database: &Database, parts: &[Part]) -> Result<Vec<Migration>, Error> {
    let mut session = database.session("look which migrations the database has").await?;
    let applied = match ledger::read(&mut session).await {
        Err(Error::Schema { .. }) => Vec::new(),
        other => other?,
    };
    missing(applied, database.dialect(), parts)
}

/// Returns the SQL of all migrations of these parts, for administrators who apply it themselves, with the statements that
/// record it.
pub fn print(dialect: Dialect, parts: &[Part]) -> String {
    let mut text = format!("{};\n", ledger::table(dialect));
    for migration in Migration::all(dialect).into_iter().filter(|one| parts.contains(&one.part)) {
        text.push_str(&format!(
            "\n-- Migration {}: {}\n{}",
            migration.version, migration.name, migration.text
        ));
        text.push_str(&format!("{};\n", ledger::record_text(&migration)));
    }
    text
}

/// Compares what a database has with what this version knows.
fn missing(applied: Vec<ledger::Applied>, dialect: Dialect, parts: &[Part]) -> Result<Vec<Migration>, Error> {
    let known = Migration::all(dialect);
    for found in &applied {
        let refused = |why: String| Error::Broken { doing: "use the tables", why };
        let Some(migration) = known.iter().find(|one| one.version == found.version) else {
            let why = format!("a newer streamfleet has applied migration {}: update this one", found.version);
            return Err(refused(why));
        };
        if migration.checksum() != found.checksum {
            let why = format!(
                "migration {} is not what was applied to this database: compare it with `streamfleet sql print`",
                found.version
            );
            return Err(refused(why));
        }
    }
    let is_missing = |one: &Migration| applied.iter().all(|found| found.version != one.version);
    Ok(known.into_iter().filter(|one| parts.contains(&one.part) && is_missing(one)).collect())
}

/// Returns the error of a lock that another process holds for too long.
fn locked(doing: &'static str) -> Error {
    let why = "another process has held it for 10 s".to_owned();
    Error::Transient { doing, trouble: Trouble::LockTimeout, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_the_same_migrations() {
        let names = |dialect| -> Vec<_> {
            Migration::all(dialect).iter().map(|one| (one.version, one.name, one.part)).collect()
        };
        assert_eq!(names(Dialect::MySql), names(Dialect::Postgres));
        assert_eq!(names(Dialect::MySql), names(Dialect::Sqlite));
    }

    #[test]
    fn a_changed_or_unknown_migration_is_refused() {
        let first = &Migration::all(Dialect::Sqlite)[0];
        let known = ledger::Applied { version: first.version, checksum: first.checksum() };
        let left = missing(vec![known], Dialect::Sqlite, &Part::ALL).unwrap();
        assert_eq!(left.len(), 2);
        let changed = ledger::Applied { version: first.version, checksum: "0".to_owned() };
        assert!(
            missing(vec![changed], Dialect::Sqlite, &Part::ALL)
                .unwrap_err()
                .to_string()
                .contains("migration 1")
        );
        let newer = ledger::Applied { version: 99, checksum: String::new() };
        assert!(missing(vec![newer], Dialect::Sqlite, &Part::ALL).unwrap_err().to_string().contains("newer"));
    }

    #[test]
    fn the_printed_sql_has_only_the_parts_that_were_asked_for() {
        let text = print(Dialect::Postgres, &[Part::Outbox]);
        assert!(text.contains("CREATE TABLE streamfleet_outbox"));
        assert!(text.contains("INSERT INTO streamfleet_migrations"));
        assert!(!text.contains("sf_jobs"));
    }
}
