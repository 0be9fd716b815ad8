//! The conditions in a body that select jobs or letters.

use serde::Deserialize;

use super::jobs::filter_of;
use super::privacy::View;
use crate::console::problem::Problem;
use crate::filter::Conditions;
use streamfleet_engine::admin::Filter;

/// Which jobs or dead letters are meant. All conditions must hold.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Selection, examples(json!({"type": "mail.*", "where": ["payload.customer=9"], "older_than": "2h"})))]
pub(super) struct Selection {
    /// Only jobs of this type, or with `mail.*` of all types that begin like this.
    r#type: Option<String>,
    /// Only jobs whose payload or header fulfils these conditions, such as `payload.customer=9` or `h.tenant=9`.
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
    /// Only jobs that were accepted, or dead jobs that died, at this instant or later, or as long ago as this at most, such as `90m`.
    since: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, before this instant, or longer ago than this.
    until: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, longer ago than this, such as `2h`.
    older_than: Option<String>,
    /// Only dead letters with this reason.
    reason: Option<String>,
    /// Only dead letters whose last failure was of this kind.
    kind: Option<String>,
    /// Only dead letters with this fingerprint.
    group: Option<String>,
}

impl Selection {
    /// Reads the conditions, if this person may use them.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the condition.
    pub(super) fn conditions(&self, view: &View<'_>) -> Result<Conditions, Problem> {
        let mut conditions = Conditions::default();
        let texts = [
            ("type", &self.r#type),
            ("text", &self.text),
            ("error", &self.error),
            ("id_prefix", &self.id_prefix),
            ("since", &self.since),
            ("until", &self.until),
            ("older_than", &self.older_than),
            ("reason", &self.reason),
            ("kind", &self.kind),
            ("group", &self.group),
        ];
        let wrong = |name: &str, why: String| Problem::field(format!("/filter/{name}"), why);
        for (name, value) in texts {
            if let Some(value) = value {
                conditions.set(name, value).map_err(|why| wrong(name, why))?;
            }
        }
        for (name, values) in [("where", &self.r#where), ("header", &self.header)] {
            for value in values {
                conditions.set(name, value).map_err(|why| wrong(name, why))?;
            }
        }
        view.check(&conditions)?;
        Ok(conditions)
    }

    /// Reads the conditions as a filter. An empty one is refused, unless `all` is meant.
    ///
    /// # Errors
    ///
    /// As [`Selection::conditions`].
    pub(super) fn filter(&self, all: bool, view: &View<'_>) -> Result<Filter, Problem> {
        let filter = filter_of(&self.conditions(view)?, view.mask(), "/filter")?;
        if filter.is_empty() && !all {
            return Err(Problem::field("/filter", "select something by a filter, or set all to true"));
        }
        Ok(filter)
    }
}
