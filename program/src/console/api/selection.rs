//! The conditions in a body or a query that select jobs or letters.

use serde::Deserialize;

use super::jobs::filter_of;
use super::{Call, Problem};
use crate::filter::Conditions;
use streamfleet_engine::admin::Filter;

/// Which jobs or dead letters are meant. All conditions must hold.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
#[schema(as = Selection, examples(json!({"type": "mail.*", "where": ["payload.customer=9"], "older_than": "2h"})))]
pub(super) struct Selection {
    /// Only jobs of this type, or with `mail.*` of all types that begin like this.
    r#type: Option<String>,
    /// Only jobs whose payload or header fulfils all of these conditions, such as `payload.customer=9`, `payload.total>100` or
    /// `h.tenant=9`.
    #[schema(max_items = 20)]
    r#where: Vec<String>,
    /// Only jobs with these headers, such as `tenant=9`.
    #[schema(max_items = 20)]
    header: Vec<String>,
    /// Only jobs whose payload or error contains this text.
    text: Option<String>,
    /// Only jobs whose last error contains this text.
    error: Option<String>,
    /// Only jobs whose id begins like this.
    id_prefix: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, at this instant or later, such as `2026-12-01T10:00:00Z`, or as long
    /// ago as this at most, such as `90m`.
    since: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, before this instant, or longer ago than this.
    until: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, longer ago than this, such as `2h`.
    older_than: Option<String>,
    /// Only dead letters with this reason, such as `exhausted`.
    reason: Option<String>,
    /// Only dead letters whose last failure was of this kind, such as `timeout`.
    kind: Option<String>,
    /// Only dead letters with this fingerprint.
    group: Option<String>,
}

impl Selection {
    /// Reads the conditions, each of which is at this place and its name, if this person may use them.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the condition.
    pub(super) fn conditions(&self, at: &str, call: &Call) -> Result<Conditions, Problem> {
        let given = [
            ("type", self.r#type.as_slice()),
            ("where", self.r#where.as_slice()),
            ("header", self.header.as_slice()),
            ("text", self.text.as_slice()),
            ("error", self.error.as_slice()),
            ("id_prefix", self.id_prefix.as_slice()),
            ("since", self.since.as_slice()),
            ("until", self.until.as_slice()),
            ("older_than", self.older_than.as_slice()),
            ("reason", self.reason.as_slice()),
            ("kind", self.kind.as_slice()),
            ("group", self.group.as_slice()),
        ];
        let mut conditions = Conditions::default();
        for (name, values) in given {
            for value in values {
                let set = conditions.set(name, value);
                set.map_err(|why| Problem::field(format!("{at}{name}"), why))?;
            }
        }
        call.check_conditions(&conditions)?;
        Ok(conditions)
    }

    /// Reads the conditions of a body as a filter. An empty one is refused, unless `all` is meant.
    ///
    /// # Errors
    ///
    /// The errors of [`Selection::conditions`].
    pub(super) fn filter(&self, all: bool, call: &Call) -> Result<Filter, Problem> {
        let filter = filter_of(&self.conditions("/filter/", call)?, call.mask(), "/filter")?;
        if filter.is_empty() && !all {
            return Err(Problem::field("/filter", "select something by a filter, or set all to true"));
        }
        Ok(filter)
    }

    /// Reads the conditions of a query as a filter.
    ///
    /// # Errors
    ///
    /// The errors of [`Selection::conditions`].
    pub(super) fn filter_of_query(&self, call: &Call) -> Result<Filter, Problem> {
        filter_of(&self.conditions("query.", call)?, call.mask(), "query")
    }
}
