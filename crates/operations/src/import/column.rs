//! The columns with the type and the payload of a job, each of which may be written in a short form.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use streamfleet::job::JobType;

/// The type of a row's job.
#[derive(Debug, Clone)]
pub(super) enum TypeFrom {
    Constant(JobType),
    Column(TypeColumn),
}

/// A column that says the type. If the payload of this column is a serialized object, its class does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TypeColumn {
    pub(super) column: String,
    pub(super) map: Option<BTreeMap<String, JobType>>,
}

/// The payload of a row's job.
#[derive(Debug, Clone)]
pub(super) enum PayloadFrom {
    Column(Column),
    /// The columns become members of a JSON object.
    Members(Vec<Column>),
}

/// A column with a payload, or with a member of one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) column: String,
    #[serde(rename = "as")]
    pub(super) form: Form,
}

/// A member of a payload: the name of a column alone means a text.
struct Member(Column);

/// How a column's value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Form {
    /// The bytes as they are.
    Text,
    /// JSON.
    Json,
    /// A message of Laravel's queue.
    Laravel,
    /// What PHP's `serialize` returns.
    Php,
}

streamfleet_domain::text_or_table!(
    TypeFrom,
    "a type, or { column = \"…\", map = { … } }",
    |text: &str| text.parse().map(TypeFrom::Constant),
    TypeFrom::Column
);

impl<'de> Deserialize<'de> for PayloadFrom {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PayloadVisitor)
    }
}

struct PayloadVisitor;

impl<'de> Visitor<'de> for PayloadVisitor {
    type Value = PayloadFrom;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("{ column = \"…\", as = \"…\" }, or a list of columns")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<PayloadFrom, M::Error> {
        Column::deserialize(MapAccessDeserializer::new(map)).map(PayloadFrom::Column)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, list: S) -> Result<PayloadFrom, S::Error> {
        let members = Vec::<Member>::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(PayloadFrom::Members(members.into_iter().map(|Member(column)| column).collect()))
    }
}

streamfleet_domain::text_or_table!(
    Member,
    "the name of a column, or { column = \"…\", as = \"…\" }",
    |column: &str| Ok::<_, String>(Member(Column { column: column.to_owned(), form: Form::Text })),
    Member
);
