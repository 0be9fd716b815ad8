//! How many lives have ended, by type and state.

use streamfleet_domain::job::QueueName;

use super::{asking, by};
use crate::Error;
use crate::database::{Database, Dialect, Statement};
use crate::history::Ending;

/// The most lives of each state that are counted.
const COUNTED: u64 = 10_000;

/// How many lives ended in a time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// One number for each type and state that occurs; the largest first.
    pub counts: Vec<Count>,
    /// Whether all lives were counted. Otherwise there were 10,000 of a state or more, and the latest 10,000 were counted.
    pub is_complete: bool,
}

/// How many lives of a type ended in a way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// The type.
    pub job_type: String,
    /// How they ended.
    pub state: Ending,
    /// How many they are.
    pub count: u64,
}

/// Counts the lives of a queue that ended from `from_ms` on and before `to_ms`, in milliseconds since 1970. It looks at no
/// more than 10,000 of each state, so its time is bounded.
///
/// # Errors
///
/// What the database answered.
pub async fn stats(database: &Database, queue: &QueueName, from_ms: u64, to_ms: u64) -> Result<Stats, Error> {
    let mut session = asking(database).await?;
    let mut stats = Stats { counts: Vec::new(), is_complete: true };
    let asked = statements(database.dialect(), queue, from_ms, to_ms);
    for (state, statement) in Ending::ALL.into_iter().zip(asked) {
        let mut all = 0;
        for row in session.rows(&statement).await? {
            let count = row.number(1)?;
            all += count;
            stats.counts.push(Count { job_type: row.text(0)?.unwrap_or_default(), state, count });
        }
        stats.is_complete &= all < COUNTED;
    }
    stats
        .counts
        .sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.job_type.cmp(&other.job_type)));
    Ok(stats)
}

/// Returns one statement for each way to end, which the index answers alone. The earlier bound comes after the limit: PostgreSQL plans without
/// the values, and would take what is between two bounds for few rows, which it sorts.
pub(super) fn statements(dialect: Dialect, queue: &QueueName, from_ms: u64, to_ms: u64) -> Vec<Statement> {
    let made = Ending::ALL.into_iter().map(|state| {
        let text = format!(
            "SELECT type, COUNT(*) FROM (SELECT type, ended_ms FROM sf_jobs{} WHERE queue = ",
            by(dialect, "sf_jobs_state")
        );
        let mut statement = Statement::new(dialect, &text);
        statement.text(queue.as_str()).add(" AND state = ").text(state.as_str());
        statement.add(" AND ended_ms < ").number(to_ms);
        statement
            .add(&format!(" ORDER BY ended_ms DESC, life DESC LIMIT {COUNTED}) AS few WHERE ended_ms >= "));
        statement.number(from_ms).add(" GROUP BY type");
        statement
    });
    made.collect()
}
