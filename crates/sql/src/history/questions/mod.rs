//! Questions to the history. Each answer is bounded, each question uses an index, and a search continues after a cursor where
//! it stopped. Each statement takes at most 5 s if the database is opened with [`Options::reading`](crate::Options::reading).
//! Otherwise the server may work longer, but nobody waits for more than 7 s.

mod count;
mod filter;
mod keyed;
mod life;
mod many;
mod row;
mod search;

use std::time::Duration;

use crate::Error;
use crate::database::{Database, Dialect, Session, Statement};
pub use count::{Count, Stats, stats};
pub use filter::{Cursor, Filter, InvalidCursor, Page};
pub use life::{LifeKey, Story, job, life};
pub use many::{bodies, last_ends};
pub(super) use row::JOB_COLUMNS;
pub use row::Row;
pub use search::jobs;

/// How long one statement of a question may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Waits for a connection to ask something.
async fn asking(database: &Database) -> Result<Session, Error> {
    let mut session = database.session("ask the history").await?;
    session.limit(LIMIT);
    Ok(session)
}

/// Returns the hint that a statement is meant to use this index. PostgreSQL has none.
fn by(dialect: Dialect, index: &str) -> String {
    match dialect {
        Dialect::MySql => format!(" FORCE INDEX ({index})"),
        Dialect::Sqlite => format!(" INDEXED BY {index}"),
        Dialect::Postgres => String::new(),
    }
}

/// A question whose plan is asked for.
#[doc(hidden)]
#[derive(Debug)]
pub enum Asked<'a> {
    /// [`job`].
    Job(&'a streamfleet_domain::job::QueueName, &'a streamfleet_domain::job::JobId),
    /// [`life`].
    Life(&'a LifeKey),
    /// [`bodies`].
    Bodies(&'a [Row]),
    /// [`last_ends`].
    LastEnds(&'a streamfleet_domain::job::QueueName, &'a [&'a streamfleet_domain::job::JobId]),
    /// [`jobs`].
    Jobs(&'a Filter, Option<&'a Cursor>),
    /// [`stats`].
    Stats(&'a streamfleet_domain::job::QueueName),
}

/// Returns how the database would execute each statement of a question, for tests.
#[doc(hidden)]
pub async fn plans(database: &Database, asked: Asked<'_>) -> Result<Vec<String>, Error> {
    let dialect = database.dialect();
    let statements: Vec<Statement> = match asked {
        Asked::Job(queue, id) => vec![life::of_id(dialect, queue, id)],
        Asked::Life(key) => life::of_key(dialect, key).into(),
        Asked::Bodies(lives) => vec![many::of_lives(dialect, "fields", lives)],
        Asked::LastEnds(queue, ids) => vec![many::of_ids(dialect, queue, ids)],
        Asked::Jobs(filter, after) => search::statements(dialect, filter, after, 100),
        Asked::Stats(queue) => count::statements(dialect, queue, 0, 1),
    };
    let mut session = asking(database).await?;
    let mut plans = Vec::new();
    for statement in &statements {
        if dialect == Dialect::Postgres {
            session.run("SET enable_seqscan = off").await?;
        }
        let column = if dialect == Dialect::Sqlite { 3 } else { 0 };
        let mut plan = String::new();
        for row in session.rows(&statement.explained()).await? {
            plan.push_str(&row.text(column)?.unwrap_or_default());
            plan.push('\n');
        }
        plans.push(plan);
    }
    if dialect == Dialect::Postgres {
        session.run("RESET enable_seqscan").await?;
    }
    Ok(plans)
}
