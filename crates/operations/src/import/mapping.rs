//! How the rows of one table become jobs, as a mapping file says it.

use std::collections::BTreeSet;

use serde::Deserialize;
use streamfleet::job::QueueName;
use streamfleet_sql::foreign::Table;

use super::column::{PayloadFrom, TypeFrom};

/// The most members of a payload that is made of columns.
const MAX_MEMBERS: usize = 40;

/// A table, and what its columns mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Fields")]
pub struct Mapping {
    pub(super) fields: Fields,
    pub(super) table: Table,
    /// The columns that are read of a row, in their order.
    pub(super) columns: Vec<String>,
}

impl Mapping {
    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.fields.name
    }

    /// The beginning of the ids of its jobs, which no other table of the file has.
    pub fn id(&self) -> &str {
        self.fields.id.as_deref().unwrap_or(&self.fields.name)
    }

    /// The queue that gets its jobs.
    pub fn queue(&self) -> &QueueName {
        &self.fields.queue
    }

    /// What a row with these marks is.
    pub(super) fn sort(&self, marks: &[Option<Vec<u8>>]) -> Option<Sort> {
        if let Some(sort) = self.fields.all {
            return Some(sort);
        }
        let both = [(&self.fields.waiting, Sort::Waiting), (&self.fields.dead, Sort::Dead)];
        let named = both.into_iter().filter_map(|(marked, sort)| Some((marked.as_ref()?, sort)));
        let found = named.zip(marks).find(|((marked, _), mark)| marked.has(mark.as_deref()));
        found.map(|((_, sort), _)| sort)
    }
}

/// The keys of `[[table]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) key: String,
    pub(super) queue: QueueName,
    #[serde(rename = "type")]
    pub(super) job_type: TypeFrom,
    pub(super) payload: PayloadFrom,
    pub(super) run_at: Option<TimeFrom>,
    pub(super) attempts: Option<String>,
    pub(super) error: Option<String>,
    pub(super) died_at: Option<TimeFrom>,
    pub(super) waiting: Option<Marked>,
    pub(super) dead: Option<Marked>,
    pub(super) all: Option<Sort>,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sort {
    /// A job that waits, or is due later.
    Waiting,
    /// A job that has failed for good.
    Dead,
}

/// A column with a time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeFrom {
    pub(super) column: String,
    pub(super) unit: Unit,
}

/// How a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    /// Seconds since 1970.
    S,
    /// Milliseconds since 1970.
    Ms,
    /// A date and a time of day in UTC.
    Utc,
}

/// Which rows are meant: those whose column has one of these values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marked {
    pub(super) column: String,
    pub(super) values: Vec<Mark>,
}

/// A value that marks rows.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Mark {
    Bool(bool),
    Int(i64),
    Text(String),
}

impl Marked {
    fn has(&self, found: Option<&[u8]>) -> bool {
        found.is_some_and(|found| self.values.iter().any(|mark| mark.is(found)))
    }
}

impl Mark {
    /// Databases write `true` in different ways.
    fn is(&self, found: &[u8]) -> bool {
        match self {
            Self::Bool(true) => matches!(found, b"1" | b"t" | b"true"),
            Self::Bool(false) => matches!(found, b"0" | b"f" | b"false"),
            Self::Int(number) => found == number.to_string().as_bytes(),
            Self::Text(text) => found == text.as_bytes(),
        }
    }
}

impl Fields {
    /// Which columns say what a row is.
    fn marks(&self) -> Vec<&str> {
        [&self.waiting, &self.dead].into_iter().flatten().map(|marked| marked.column.as_str()).collect()
    }

    /// All columns that are read of a row, each once.
    fn columns(&self) -> Vec<String> {
        let payload = match &self.payload {
            PayloadFrom::Column(column) => std::slice::from_ref(column),
            PayloadFrom::Members(members) => members,
        };
        let job_type = match &self.job_type {
            TypeFrom::Constant(_) => None,
            TypeFrom::Column(found) => Some(&found.column),
        };
        let times = [&self.run_at, &self.died_at].into_iter().flatten().map(|time| &time.column);
        let others = [&self.attempts, &self.error].into_iter().flatten();
        let all = payload.iter().map(|column| &column.column).chain(job_type).chain(times).chain(others);
        all.collect::<BTreeSet<_>>().into_iter().cloned().collect()
    }

    /// Says what nobody can have meant.
    fn check(&self) -> Result<(), String> {
        match (self.all, self.waiting.is_some() || self.dead.is_some()) {
            (None, false) => {
                return Err("says not which rows are jobs: add `waiting`, `dead` or `all`".to_owned());
            }
            (Some(_), true) => return Err("`all` means every row: leave out `waiting` and `dead`".to_owned()),
            (Some(_), false) | (None, true) => {}
        }
        let marked = [("waiting", &self.waiting), ("dead", &self.dead)];
        if let Some((key, _)) =
            marked.iter().find(|(_, marked)| marked.as_ref().is_some_and(|marked| marked.values.is_empty()))
        {
            return Err(format!("`{key}.values` is empty, so it means no row"));
        }
        if let PayloadFrom::Members(members) = &self.payload
            && !(1..=MAX_MEMBERS).contains(&members.len())
        {
            return Err(format!("`payload` has {} columns, but must have 1 to {MAX_MEMBERS}", members.len()));
        }
        if self.id.as_deref().is_some_and(str::is_empty) {
            return Err("`id` is empty".to_owned());
        }
        Ok(())
    }
}

impl TryFrom<Fields> for Mapping {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let named = |why: String| format!("the table {:?}: {why}", fields.name);
        fields.check().map_err(named)?;
        let columns = fields.columns();
        let read: Vec<&str> = columns.iter().map(String::as_str).collect();
        let table = Table::new(&fields.name, &fields.key, &fields.marks(), &read);
        let table = table.map_err(|error| error.to_string())?;
        Ok(Self { table, columns, fields })
    }
}
