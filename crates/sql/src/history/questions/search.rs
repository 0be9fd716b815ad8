//! Searches. Each statement follows one index in its order, newest first, so that it stops as soon as the page is full. If
//! several values of a column are asked for, each has a statement of its own, and the answers are merged. The indexes have the
//! other columns that are often asked for, too, so rows that are not wanted are passed over without reading them. Connections
//! keep the statements prepared: the values are parameters, and a page of the same kind has the same text.

use super::row::{JOB_COLUMNS, columns_of};
use super::{Cursor, Filter, Page, Row, asking, by, keyed};
use crate::Error;
use crate::database::{Database, Dialect, Statement};
use crate::history::Ending;

/// Returns the lives that the filter asks for, after the cursor if there is one; at most `limit` of them, which is 1 to 500.
///
/// # Errors
///
/// [`Error::Input`] if the filter or the limit is beyond its bound; [`Error::Transient`] after 5 s, which a condition without
/// an index may take if few lives fulfill it; otherwise what the database answered.
pub async fn jobs(
    database: &Database,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page, Error> {
    filter.check(limit)?;
    let mut session = asking(database).await?;
    if let Some(key) = &filter.key {
        let rows = session.rows(&keyed::statement(database.dialect(), filter, key, after, limit)).await?;
        return keyed::page(&rows, limit);
    }
    let mut rows = Vec::new();
    for statement in statements(database.dialect(), filter, after, limit + 1) {
        for row in session.rows(&statement).await? {
            rows.push(Row::read(&row)?);
        }
    }
    Ok(merged(rows, limit))
}

/// Cuts what the statements have returned to one page.
fn merged(mut rows: Vec<Row>, limit: usize) -> Page {
    rows.sort_by_cached_key(|row| std::cmp::Reverse((row.ended_ms, row.life.to_string())));
    let is_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| is_more);
    let next = last.map(Row::cursor);
    Page { rows, next }
}

/// The condition whose index a statement follows.
enum Lead<'a> {
    Id(String),
    Fingerprint(&'a str),
    Version(&'a str),
    Type(&'a str),
    State(Ending),
}

impl Lead<'_> {
    fn index(&self) -> &'static str {
        match self {
            Self::Id(_) => "sf_jobs_id",
            Self::Fingerprint(_) => "sf_jobs_fingerprint",
            Self::Version(_) => "sf_jobs_version",
            Self::Type(_) => "sf_jobs_type",
            Self::State(_) => "sf_jobs_state",
        }
    }

    fn condition(&self) -> (&'static str, &str) {
        match self {
            Self::Id(id) => ("id", id),
            Self::Fingerprint(fingerprint) => ("fingerprint", fingerprint),
            Self::Version(version) => ("worker_version", version),
            Self::Type(job_type) => ("type", job_type),
            Self::State(state) => ("state", state.as_str()),
        }
    }
}

fn leads(filter: &Filter) -> Vec<Lead<'_>> {
    if let Some(id) = &filter.id {
        return vec![Lead::Id(id.to_string())];
    }
    if let Some(fingerprint) = &filter.fingerprint {
        return vec![Lead::Fingerprint(fingerprint)];
    }
    if let Some(version) = &filter.worker_version {
        return vec![Lead::Version(version)];
    }
    // Few lives do not succeed, so their state leads to them sooner than their type does.
    let are_few = !filter.states.is_empty() && !filter.states.contains(&Ending::Done);
    if !filter.types.is_empty() && !are_few {
        let mut types: Vec<&str> = filter.types.iter().map(String::as_str).collect();
        types.sort_unstable();
        types.dedup();
        return types.into_iter().map(Lead::Type).collect();
    }
    let asked = |state: &Ending| filter.states.is_empty() || filter.states.contains(state);
    Ending::ALL.into_iter().filter(asked).map(Lead::State).collect()
}

/// Returns the statements of a search, which is not by a field of the payload or else has one.
pub(super) fn statements(
    dialect: Dialect,
    filter: &Filter,
    after: Option<&Cursor>,
    rows: usize,
) -> Vec<Statement> {
    if let Some(key) = &filter.key {
        return vec![keyed::statement(dialect, filter, key, after, rows)];
    }
    leads(filter).iter().map(|lead| statement(dialect, filter, lead, after, rows)).collect()
}

fn statement(
    dialect: Dialect,
    filter: &Filter,
    lead: &Lead<'_>,
    after: Option<&Cursor>,
    rows: usize,
) -> Statement {
    let (column, value) = lead.condition();
    let is_mysql = dialect == Dialect::MySql;
    // MariaDB reads a row of a partitioned table before it looks at conditions that the index could answer. So it finds the keys
    // first.
    let columns = if is_mysql { "day AS d, life AS l" } else { JOB_COLUMNS };
    let before = if is_mysql { format!("SELECT {} FROM (", columns_of("j")) } else { String::new() };
    let text = format!("{before}SELECT {columns} FROM sf_jobs{} WHERE queue = ", by(dialect, lead.index()));
    let mut statement = Statement::new(dialect, &text);
    statement.text(filter.queue.as_str()).add(" AND ").add(column).add(" = ").text(value);
    conditions(&mut statement, filter, "");
    if let Some(Cursor { ms, life }) = after {
        statement.add(" AND ended_ms <= ").number(*ms).add(" AND (ended_ms < ").number(*ms);
        statement.add(" OR life < ").text(life.to_string().as_str()).add(")");
    }
    statement
        .add(" ORDER BY ended_ms DESC, life DESC LIMIT ")
        .digits(&[i64::try_from(rows).unwrap_or(i64::MAX)]);
    if is_mysql {
        statement.add(") AS k STRAIGHT_JOIN sf_jobs AS j ON j.day = k.d AND j.life = k.l AND j.queue = ");
        statement.text(filter.queue.as_str());
    }
    statement
}

/// Adds all conditions of a filter except the field of the payload. Some may be there already, which does no harm. `table` is
/// before each column.
pub(super) fn conditions(statement: &mut Statement, filter: &Filter, table: &str) {
    let one_of = |statement: &mut Statement, column: &str, values: &[&str]| {
        for (at, value) in values.iter().enumerate() {
            let before = if at == 0 { format!(" AND {table}{column} IN (") } else { ", ".to_owned() };
            statement.add(&before).text(*value);
        }
        statement.add(if values.is_empty() { "" } else { ")" });
    };
    one_of(statement, "state", &filter.states.iter().map(|state| state.as_str()).collect::<Vec<_>>());
    one_of(statement, "type", &filter.types.iter().map(String::as_str).collect::<Vec<_>>());
    let id = filter.id.as_ref().map(ToString::to_string);
    let equal = [
        ("id", id.as_deref()),
        ("fingerprint", filter.fingerprint.as_deref()),
        ("worker_version", filter.worker_version.as_deref()),
    ];
    for (column, value) in equal {
        if let Some(value) = value {
            statement.add(&format!(" AND {table}{column} = ")).text(value);
        }
    }
    if let Some(from) = filter.from_ms {
        statement.add(&format!(" AND {table}ended_ms >= ")).number(from);
    }
    if let Some(to) = filter.to_ms {
        statement.add(&format!(" AND {table}ended_ms < ")).number(to);
    }
}
