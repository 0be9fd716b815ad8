//! A table of another program, and the two steps in which a page of it is read.

use super::{Key, name};
use crate::Error;
use crate::database::{Database, Dialect, Statement};

/// The most rows of one call.
pub const MAX_ROWS: usize = 1000;

/// The most columns of a table that are read.
const MAX_COLUMNS: usize = 64;

/// Which columns of which table are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    name: String,
    key: String,
    marks: Vec<String>,
    columns: Vec<String>,
}

/// A row of which only the marks were read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Look {
    /// The key.
    pub key: Key,
    /// The marks, in the order of the table's; absent for NULL.
    pub marks: Vec<Option<Vec<u8>>>,
    /// How many bytes its columns have, roughly.
    pub bytes: u64,
}

/// A row with the columns that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The key.
    pub key: Key,
    /// The values, in the order of the table's columns; absent for NULL.
    pub values: Vec<Option<Vec<u8>>>,
}

impl Look {
    /// A row of which the marks were read.
    pub fn new(key: Key, marks: Vec<Option<Vec<u8>>>, bytes: u64) -> Self {
        Self { key, marks, bytes }
    }
}

impl Table {
    /// Names a table, its key, the columns by which rows are chosen, and those that are read of chosen rows.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if a name is empty, too long or has control characters, or if there are more than 64 columns.
    pub fn new(name: &str, key: &str, marks: &[&str], columns: &[&str]) -> Result<Self, Error> {
        name::table(name)?;
        [key].iter().chain(marks).chain(columns).try_for_each(|column| name::column(column))?;
        if marks.len() + columns.len() > MAX_COLUMNS {
            return Err(Error::Input(format!(
                "at most {MAX_COLUMNS} columns of the table {name} can be read"
            )));
        }
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Ok(Self { name: name.to_owned(), key: key.to_owned(), marks: owned(marks), columns: owned(columns) })
    }

    /// Begins a statement that selects the key as it is, its bytes, and these parts.
    fn select(&self, dialect: Dialect, parts: impl IntoIterator<Item = String>) -> Statement {
        let key = [name::quoted(dialect, &self.key), bytes_of(dialect, &self.key)];
        let selected: Vec<String> = key.into_iter().chain(parts).collect();
        let from = name::quoted_table(dialect, &self.name);
        Statement::varying(dialect, &format!("SELECT {} FROM {from}", selected.join(", ")))
    }

    fn looking(&self, dialect: Dialect, after: Option<&Key>, rows: usize) -> Statement {
        let key = name::quoted(dialect, &self.key);
        let sizes: Vec<String> = self.columns.iter().map(|column| size_of(dialect, column)).collect();
        let size = if sizes.is_empty() { "0".to_owned() } else { sizes.join(" + ") };
        let kind = if dialect == Dialect::MySql { "SIGNED" } else { "BIGINT" };
        let marks = self.marks.iter().map(|mark| bytes_of(dialect, mark));
        let mut statement =
            self.select(dialect, [format!("CAST({size} AS {kind})")].into_iter().chain(marks));
        if let Some(after) = after {
            statement.add(" WHERE ").add(&key).add(" > ");
            after.bind(&mut statement, dialect);
        }
        statement
            .add(" ORDER BY ")
            .add(&key)
            .add(" LIMIT ")
            .digits(&[i64::try_from(rows).unwrap_or(i64::MAX)]);
        statement
    }

    fn reading(&self, dialect: Dialect, keys: &[Key]) -> Statement {
        let key = name::quoted(dialect, &self.key);
        let columns = self.columns.iter().map(|column| bytes_of(dialect, column));
        let mut statement = self.select(dialect, columns);
        statement.add(" WHERE ").add(&key).add(" IN (");
        for (at, one) in keys.iter().enumerate() {
            statement.add(if at == 0 { "" } else { ", " });
            one.bind(&mut statement, dialect);
        }
        statement.add(") ORDER BY ").add(&key);
        statement
    }

    /// Words an error about a table that the tables of streamfleet have nothing to do with.
    fn worded(&self, error: Error) -> Error {
        match error {
            Error::Schema { why, .. } => {
                Error::Input(format!("{why}; compare the mapping with the table {}", self.name))
            }
            other @ (Error::Address(_)
            | Error::Input(_)
            | Error::Transient { .. }
            | Error::Poison { .. }
            | Error::Forbidden { .. }
            | Error::Broken { .. }) => other,
        }
    }
}

/// What every value arrives as. `CONCAT` makes a text of numbers and times, and leaves bytes as they are.
fn bytes_of(dialect: Dialect, column: &str) -> String {
    let column = name::quoted(dialect, column);
    match dialect {
        Dialect::MySql => format!("CONCAT({column})"),
        Dialect::Postgres => format!(
            "CASE WHEN pg_typeof({column}) = 'bytea'::regtype THEN decode(substr(CAST({column} AS TEXT), 3), 'hex') \
             ELSE convert_to(CAST({column} AS TEXT), 'UTF8') END"
        ),
        Dialect::Sqlite => format!("CAST({column} AS BLOB)"),
    }
}

fn size_of(dialect: Dialect, column: &str) -> String {
    let column = name::quoted(dialect, column);
    match dialect {
        Dialect::MySql => format!("COALESCE(LENGTH(CONCAT({column})), 0)"),
        Dialect::Postgres => format!("COALESCE(octet_length(CAST({column} AS TEXT)), 0)"),
        Dialect::Sqlite => format!("COALESCE(length(CAST({column} AS BLOB)), 0)"),
    }
}

/// Returns the first rows after a key, or from the beginning, in the order of the key: at most `limit`, which is 1 to 1,000.
///
/// # Errors
///
/// [`Error::Input`] if the limit is beyond its bounds, if there is no such table or column, or if the key is not unique, has NULL,
/// or is of a type that cannot be one; otherwise what the database answered.
pub async fn look(
    database: &Database,
    table: &Table,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Look>, Error> {
    if !(1..=MAX_ROWS).contains(&limit) {
        return Err(Error::Input(format!("the limit of a page is {limit}, but must be 1 to {MAX_ROWS}")));
    }
    let mut session = database.session("read a table").await?;
    // One row more shows whether the last key is unique.
    let statement = table.looking(database.dialect(), after, limit + 1);
    let mut looks: Vec<Look> = Vec::new();
    for row in session.rows(&statement).await.map_err(|error| table.worded(error))? {
        let key = Key::of(&row, &table.name)?;
        if looks.last().is_some_and(|last| last.key == key) {
            let why = format!(
                "the column {} of the table {} has {key} twice, but must be unique",
                table.key, table.name
            );
            return Err(Error::Input(why));
        }
        let marks = (0..table.marks.len()).map(|at| row.bytes(at + 3)).collect::<Result<_, _>>()?;
        looks.push(Look { key, marks, bytes: row.number(2)? });
    }
    looks.truncate(limit);
    Ok(looks)
}

/// Returns the rows with these keys, of which there are at most 1,000, in the order of the key. Rows that are gone are left out.
///
/// # Errors
///
/// [`Error::Input`] if there are too many keys, otherwise what the database answered.
pub async fn read(database: &Database, table: &Table, keys: &[Key]) -> Result<Vec<Row>, Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    if keys.len() > MAX_ROWS {
        return Err(Error::Input(format!(
            "{} rows were asked for, but at most {MAX_ROWS} can be",
            keys.len()
        )));
    }
    let mut session = database.session("read a table").await?;
    let rows = session.rows(&table.reading(database.dialect(), keys)).await;
    let mut read = Vec::with_capacity(keys.len());
    for row in rows.map_err(|error| table.worded(error))? {
        let values = (0..table.columns.len()).map(|at| row.bytes(at + 2)).collect::<Result<_, _>>()?;
        read.push(Row { key: Key::of(&row, &table.name)?, values });
    }
    Ok(read)
}
