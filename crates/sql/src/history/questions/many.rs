//! What is asked about many lives at once: their fields, in portions that are bounded in bytes, and which ends are the last ones.

use std::collections::{BTreeMap, HashMap};

use streamfleet_domain::job::{JobId, QueueName};

use super::{Row, asking, by};
use crate::Error;
use crate::database::{Database, Dialect, Session, Statement};
use crate::history::{Body, Day};

/// The most lives of a portion.
const LIVES: usize = 100;

/// The most bytes of the fields of a portion with several lives. One life may have 9 MiB.
const BYTES: u64 = 8 << 20;

/// The most ids of one statement.
const IDS: usize = 500;

/// Returns the fields of the first of these lives, in their order: of as many as have 8 MiB together, at least one, and at most 100.
/// Call it again for the rest. Fields that are missing or cannot be read count as [`Body::None`].
///
/// # Errors
///
/// What the database answered.
pub async fn bodies(database: &Database, lives: &[Row]) -> Result<Vec<Body>, Error> {
    if lives.is_empty() {
        return Ok(Vec::new());
    }
    let mut session = asking(database).await?;
    let lives = &lives[..lives.len().min(LIVES)];
    let sizes = sizes(&mut session, database.dialect(), lives).await?;
    let size = |life: &Row| sizes.get(&life.life.to_string()).copied().unwrap_or_default();
    let lives = &lives[..portion(lives.iter().map(size))];
    let statement = of_lives(database.dialect(), "fields", lives);
    let mut packed = HashMap::new();
    for row in session.rows(&statement).await? {
        packed.insert(row.text(0)?.unwrap_or_default(), row.bytes(1)?);
    }
    let read = |life: &Row| {
        let packed = packed.remove(&life.life.to_string()).flatten();
        Body::read(life.payload_state, packed.as_deref())
    };
    Ok(lives.iter().map(read).collect())
}

/// Returns when the last life of each of these ids has ended, in milliseconds since 1970. Ids that the history does not have are left out.
///
/// # Errors
///
/// What the database answered.
pub async fn last_ends(
    database: &Database,
    queue: &QueueName,
    ids: &[&JobId],
) -> Result<HashMap<JobId, u64>, Error> {
    let (mut session, mut ends) = (asking(database).await?, HashMap::new());
    for ids in ids.chunks(IDS) {
        for row in session.rows(&of_ids(database.dialect(), queue, ids)).await? {
            ends.insert(row.parsed(0, "id")?, row.number(1)?);
        }
    }
    Ok(ends)
}

async fn sizes(
    session: &mut Session,
    dialect: Dialect,
    lives: &[Row],
) -> Result<HashMap<String, u64>, Error> {
    let bytes = match dialect {
        Dialect::Postgres => "CAST(OCTET_LENGTH(fields) AS BIGINT)",
        Dialect::MySql | Dialect::Sqlite => "LENGTH(fields)",
    };
    let mut sizes = HashMap::new();
    for row in session.rows(&of_lives(dialect, bytes, lives)).await? {
        sizes.insert(row.text(0)?.unwrap_or_default(), row.number(1)?);
    }
    Ok(sizes)
}

/// Returns how many of these sizes fit into a portion; at least one.
fn portion(sizes: impl Iterator<Item = u64>) -> usize {
    let sums = sizes.scan(0_u64, |sum, size| {
        *sum = sum.saturating_add(size);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= BYTES).count().max(1)
}

/// Returns a statement that reads this of each of these lives, of which there is at least one, after its name. It looks them up by the
/// primary key, day by day.
pub(super) fn of_lives(dialect: Dialect, what: &str, lives: &[Row]) -> Statement {
    let index = if dialect == Dialect::MySql { " FORCE INDEX (PRIMARY)" } else { "" };
    let mut statement =
        Statement::varying(dialect, &format!("SELECT life, {what} FROM sf_bodies{index} WHERE "));
    let mut days: BTreeMap<Day, Vec<&Row>> = BTreeMap::new();
    for life in lives {
        days.entry(Day::of_life(&life.life, life.created_ms)).or_default().push(life);
    }
    for (at, (day, lives)) in days.iter().enumerate() {
        statement.add(if at == 0 { "(day = " } else { " OR (day = " }).fixed_day(*day);
        statement.add(" AND queue = ").text(lives[0].queue.as_str()).add(" AND life IN (");
        for (at, life) in lives.iter().enumerate() {
            statement.add(if at == 0 { "" } else { ", " }).text(life.life.to_string().as_str());
        }
        statement.add("))");
    }
    statement
}

/// Returns a statement that reads the last end of each of these ids, of which there is at least one.
pub(super) fn of_ids(dialect: Dialect, queue: &QueueName, ids: &[&JobId]) -> Statement {
    let text = format!("SELECT id, MAX(ended_ms) FROM sf_jobs{} WHERE queue = ", by(dialect, "sf_jobs_id"));
    let mut statement = Statement::varying(dialect, &text);
    statement.text(queue.as_str());
    for (at, id) in ids.iter().enumerate() {
        statement.add(if at == 0 { " AND id IN (" } else { ", " }).text(id.to_string().as_str());
    }
    statement.add(") GROUP BY id");
    statement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_has_at_least_one_life_and_is_bounded_in_bytes() {
        let count = |sizes: &[u64]| portion(sizes.iter().copied());
        assert_eq!(count(&[9 << 20, 1]), 1);
        assert_eq!(count(&[4 << 20, 4 << 20, 1]), 2);
        assert_eq!(count(&[0; 7]), 7);
        assert_eq!(count(&[u64::MAX, u64::MAX]), 1);
    }
}
