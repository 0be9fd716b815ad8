//! One group of dead letters: when its jobs died, its newest letters, and by which values of their payloads and headers they differ.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use streamfleet::Queue;
use streamfleet::job::EntryId;
use streamfleet_engine::admin::{DeadGroup, DeadLetter, Filter, LetterSearch};

use super::deaths::{DeathSpan, PARTS, count};
use super::{Group, Letter, OTHER};
use crate::Error;

/// How far back deaths are counted.
const SINCE: Duration = Duration::from_secs(24 * 3600);

/// The most letters of the group that are looked at, …
const SAMPLE: usize = 100;

/// … for how long they are looked for, …
const LONGEST: Duration = Duration::from_secs(2);

/// … and how many of them are shown.
const SHOWN: usize = 10;

/// The most columns, …
const MAX_COLUMNS: usize = 40;

/// … how many values of each are shown, …
const MAX_VALUES: usize = 5;

/// … how long a value may be, …
const MAX_VALUE_BYTES: usize = 120;

/// … how deep it may be in the payload, …
const MAX_DEPTH: usize = 3;

/// … how long the name of its column may be, …
const MAX_COLUMN_BYTES: usize = 200;

/// … and how many values of one letter are compared. Producers choose payloads and headers.
const MAX_CELLS: usize = 200;

/// A group of dead letters.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DeadGroupDetail)]
#[non_exhaustive]
pub struct GroupDetail {
    /// The queue.
    pub queue: String,
    /// What is known about the group.
    #[serde(flatten)]
    pub group: Group,
    /// How many of its jobs died in each of the last 24 hours, the oldest first.
    pub hourly: Vec<u64>,
    /// Which time these are.
    pub span: DeathSpan,
    /// The newest letters, at most 10.
    pub letters: Vec<Letter>,
    /// How many letters the columns are about, at most 100.
    pub sampled: usize,
    /// The values of payloads and headers that these letters have, those first in which they differ. At most 200 values of each letter
    /// are compared, and only those whose column has a name of at most 200 bytes. Empty for those who may not see payloads.
    pub columns: Vec<Column>,
}

/// One value of payloads, or a header.
#[derive(Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = PayloadColumn)]
#[non_exhaustive]
pub struct Column {
    /// Its name, as conditions have it, such as `payload.customer` or `h.tenant`.
    pub column: String,
    /// How many of the letters have it.
    pub present: usize,
    /// How many different values they have.
    pub distinct: usize,
    /// The most frequent values, at most 5.
    pub values: Vec<ColumnValue>,
}

/// A value, and how many letters have it.
#[derive(Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct ColumnValue {
    /// The value: a text as it is, anything else as JSON. A long one is cut.
    pub value: String,
    /// How many of the letters have it.
    pub count: usize,
}

/// Shows a group by its fingerprint, or `other`. `seen` returns the decoded payload and the headers of a letter, as far as they may
/// be shown.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Redis`].
pub async fn group(
    queue: &Queue,
    name: &str,
    seen: impl Fn(&DeadLetter) -> Option<(Value, BTreeMap<String, String>)>,
) -> Result<GroupDetail, Error> {
    let groups = queue.dead_letters().groups().await.map_err(Error::redis("failed to read the groups"))?;
    let is_it = |group: &DeadGroup| group.fingerprint.as_deref().unwrap_or(OTHER) == name;
    let none = || format!("the queue {} has no group {name} of dead letters", queue.name());
    let found = groups.groups.into_iter().find(is_it).ok_or_else(|| Error::NotFound(none()))?;
    let now = queue.clock().await.map_err(Error::redis("failed to read the clock of Redis"))?;
    let filter = Filter::new().group(name).map_err(|error| Error::invalid("group", error.to_string()))?;
    let search = LetterSearch::new(&filter, now).newest_first(true);
    let after = Some(EntryId::new(found.last.as_ms().saturating_add(1), 0));
    let ((span, mut counted), mut letters) =
        tokio::try_join!(count(queue, SINCE, now), newest(queue, search.after(after)))?;
    if letters.is_empty() {
        // They were edited later, and so they are newer than the last death.
        letters = newest(queue, search).await?;
    }
    let (sampled, columns) = columns(letters.iter().filter_map(seen));
    Ok(GroupDetail {
        queue: queue.name().to_string(),
        group: Group::from(found),
        hourly: counted.remove(name).unwrap_or([0; PARTS]).to_vec(),
        span,
        letters: letters.iter().take(SHOWN).map(Letter::of).collect(),
        sampled,
        columns,
    })
}

/// The newest letters, for a while, without large fields.
async fn newest(queue: &Queue, mut search: LetterSearch<'_>) -> Result<Vec<DeadLetter>, Error> {
    let (mut letters, begun) = (Vec::new(), Instant::now());
    while letters.len() < SAMPLE && begun.elapsed() < LONGEST {
        let page = queue.dead_letters().bare().search(&search.most(SAMPLE - letters.len())).await;
        let page = page.map_err(Error::redis("failed to read the dead letters"))?;
        letters.extend(page.letters);
        if page.next.is_none() {
            break;
        }
        search = search.after(page.next);
    }
    Ok(letters)
}

/// Counts these letters, and returns the columns of their payloads and headers, those with the most different values first. Only one of
/// the letters is decoded at a time.
fn columns(rows: impl Iterator<Item = (Value, BTreeMap<String, String>)>) -> (usize, Vec<Column>) {
    let (mut sampled, mut found) = (0, BTreeMap::<String, BTreeMap<String, usize>>::new());
    for (payload, headers) in rows {
        sampled += 1;
        for (column, value) in cells(&payload, &headers) {
            *found.entry(column).or_default().entry(value).or_default() += 1;
        }
    }
    let column = |(column, values): (String, BTreeMap<String, usize>)| {
        let (present, distinct) = (values.values().sum(), values.len());
        let mut values: Vec<ColumnValue> =
            values.into_iter().map(|(value, count)| ColumnValue { value, count }).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.count));
        values.truncate(MAX_VALUES);
        Column { column, present, distinct, values }
    };
    let mut columns: Vec<Column> = found.into_iter().map(column).collect();
    // A value that some letters lack is a difference, too.
    let differs = |column: &Column| column.distinct + usize::from(column.present < sampled);
    columns.sort_by_key(|column| std::cmp::Reverse(differs(column)));
    columns.truncate(MAX_COLUMNS);
    (sampled, columns)
}

/// The values of one letter by their columns, as many as are compared: its headers, and then the leaves of its payload.
fn cells(payload: &Value, headers: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_short = |(name, _): &(&String, &String)| "h.".len() + name.len() <= MAX_COLUMN_BYTES;
    let headers = headers.iter().filter(is_short).take(MAX_CELLS);
    let mut cells = headers.map(|(name, value)| (format!("h.{name}"), cut(value))).collect();
    collect("payload", payload, MAX_DEPTH, &mut cells);
    cells
}

/// Collects the values at the leaves of a payload by their paths, until there are enough. What is deeper is a value as a whole.
fn collect(path: &str, value: &Value, depth: usize, cells: &mut BTreeMap<String, String>) {
    if cells.len() >= MAX_CELLS {
        return;
    }
    match value {
        Value::Object(members) if depth > 0 => {
            let is_short = |(name, _): &(&String, &Value)| path.len() + 1 + name.len() <= MAX_COLUMN_BYTES;
            for (name, value) in members.iter().filter(is_short) {
                collect(&format!("{path}.{name}"), value, depth - 1, cells);
            }
        }
        Value::String(text) => {
            cells.insert(path.to_owned(), cut(text));
        }
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
            cells.insert(path.to_owned(), cut(&value.to_string()));
        }
    }
}

/// The beginning of a value.
fn cut(text: &str) -> String {
    let end =
        (0..=text.len().min(MAX_VALUE_BYTES)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_in_which_letters_differ_come_first() {
        let row = |customer: u64, region: &str| {
            let headers = BTreeMap::from([("tenant".to_owned(), "9".to_owned())]);
            (json!({"customer": customer, "to": {"region": region}, "kind": "gift"}), headers)
        };
        let (sampled, found) = columns([row(1, "eu"), row(2, "eu"), row(3, "us")].into_iter());
        assert_eq!(sampled, 3);
        let names: Vec<(&str, usize)> = found.iter().map(|one| (&*one.column, one.distinct)).collect();
        let want = [("payload.customer", 3), ("payload.to.region", 2), ("h.tenant", 1), ("payload.kind", 1)];
        assert_eq!(names, want);
        assert_eq!((&*found[1].values[0].value, found[1].values[0].count), ("eu", 2));
    }

    #[test]
    fn a_long_value_is_cut_between_two_letters() {
        let (_, found) = columns([(json!({"text": "ü".repeat(200)}), BTreeMap::new())].into_iter());
        assert_eq!(found[0].values[0].value, format!("{}…", "ü".repeat(60)));
    }
    #[test]
    fn what_a_letter_adds_is_bounded() {
        let many = |what: &str| (0..3000).map(|nth| (format!("{what}{nth}"), json!(nth))).collect::<Value>();
        let long = "k".repeat(30 * 1024);
        let names = |payload: Value, headers: BTreeMap<String, String>| {
            cells(&payload, &headers).into_keys().collect::<Vec<_>>()
        };
        let under_long = json!({&long: many("leaf"), "kind": "gift"});
        assert_eq!(names(under_long, BTreeMap::from([(long, "9".to_owned())])), ["payload.kind"]);
        let longest = "k".repeat(MAX_COLUMN_BYTES - "payload.".len());
        assert_eq!(names(json!({&longest: 1}), BTreeMap::new()), [format!("payload.{longest}")]);
        let headers = (0..3000).map(|nth| (format!("tenant{nth}"), "9".to_owned())).collect();
        assert_eq!(names(many("leaf"), headers).len(), MAX_CELLS);
        assert_eq!(names(many("leaf"), BTreeMap::new()).len(), MAX_CELLS);
    }
}
