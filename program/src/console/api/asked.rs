//! The parameters of a request's query. Each is read once and by name, so that the rest are those that nobody knows.

use std::collections::VecDeque;
use std::fmt::Display;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use streamfleet::job::QueueName;
use streamfleet_service::config::nearest;

pub(super) use super::query::wrong;
use super::query::{USUAL, page_size};
use crate::console::problem::Problem;
use crate::filter::Conditions;
use crate::times;

/// The most parameters of a query.
const MAX_PARAMETERS: usize = 100;

/// The parameters of a query that nobody has read yet.
pub(super) struct Asked {
    pairs: VecDeque<(String, String)>,
    /// The names that were asked for.
    known: Vec<&'static str>,
}

impl Asked {
    /// Reads a query, without the question mark.
    ///
    /// # Errors
    ///
    /// [`Problem`] if it has too many parameters.
    fn parse(query: &str) -> Result<Self, Problem> {
        let pairs: VecDeque<_> =
            form_urlencoded::parse(query.as_bytes()).into_owned().take(MAX_PARAMETERS + 1).collect();
        if pairs.len() > MAX_PARAMETERS {
            return Err(Problem::field("query", format!("it has more than {MAX_PARAMETERS} parameters")));
        }
        Ok(Self { pairs, known: Vec::new() })
    }

    /// All values of a parameter, in their order.
    pub(super) fn many(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        let (taken, left) = std::mem::take(&mut self.pairs).into_iter().partition(|(known, _)| known == name);
        self.pairs = left;
        let taken: VecDeque<(String, String)> = taken;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// The value of a parameter that may be given once.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn one<T, E: Display>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Problem> {
        let values = self.many(name);
        match &values[..] {
            [] => Ok(None),
            [value] => parse(value).map(Some).map_err(|error| wrong(name, error)),
            _ => Err(wrong(name, "it must be given only once")),
        }
    }

    /// A parameter that is `true` or `false`; without it, or if it has no value, it is false or true.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        let parsed = self.one(name, |value| match value {
            "" | "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err("it must be true or false"),
        });
        Ok(parsed?.unwrap_or(false))
    }

    /// How many items the page may have.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn limit(&mut self) -> Result<u64, Problem> {
        Ok(self.given_limit()?.unwrap_or(USUAL))
    }

    /// How many items the answer may have, if the request says it.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn given_limit(&mut self) -> Result<Option<u64>, Problem> {
        self.one("limit", page_size)
    }

    /// A duration, at most this long.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn duration(
        &mut self,
        name: &'static str,
        longest: Duration,
    ) -> Result<Option<Duration>, Problem> {
        self.one(name, |value| {
            let duration = times::duration(value)?;
            let seconds = longest.as_secs();
            if duration > longest { Err(format!("it must be at most {seconds}s")) } else { Ok(duration) }
        })
    }

    /// Queues, each in a parameter of its own.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn queues(&mut self) -> Result<Vec<QueueName>, Problem> {
        let names = self.many("queue").into_iter();
        names.map(|name| name.parse::<QueueName>().map_err(|error| wrong("queue", error))).collect()
    }

    /// The conditions that select jobs.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn conditions(&mut self) -> Result<Conditions, Problem> {
        let mut conditions = Conditions::default();
        for name in Conditions::names() {
            for value in self.many(name) {
                conditions.set(name, &value).map_err(|why| wrong(name, why))?;
            }
        }
        Ok(conditions)
    }

    /// Refuses parameters that nobody has read.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the first of them.
    pub(super) fn end(self) -> Result<(), Problem> {
        let Some((name, _)) = self.pairs.front() else { return Ok(()) };
        let near = nearest(name, self.known.iter().copied());
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        Err(wrong(name, format!("this request has no such parameter{hint}")))
    }
}

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Asked {
        Asked::parse(query).unwrap()
    }

    #[test]
    fn every_wrong_parameter_is_named() {
        for (query, at) in
            [("limit=0", "query.limit"), ("limit=501", "query.limit"), ("limit=a", "query.limit")]
        {
            assert!(asked(query).limit().unwrap_err().detail().starts_with(at), "{query}");
        }
        assert!(asked("limit=1&limit=2").limit().unwrap_err().detail().contains("only once"));
        assert!(asked("dry=maybe").flag("dry").unwrap_err().detail().starts_with("query.dry: "));
        let mut misspelled = asked("limt=3");
        assert_eq!(misspelled.limit().unwrap(), USUAL);
        assert!(misspelled.end().unwrap_err().detail().ends_with("did you mean limit?"));
    }

    #[test]
    fn conditions_are_read_by_their_names() {
        assert!(asked("since=noon").conditions().is_err());
        let mut query = asked("type=mail.*&where=payload.a%3D1&where=h.b%3D2&reason=fatal");
        let conditions = query.conditions().unwrap();
        query.end().unwrap();
        let filter = conditions.filter().unwrap();
        assert_eq!(filter.to_string(), "--type 'mail.*' --where payload.a=1 --where h.b=2 --reason fatal");
    }

    #[test]
    fn a_query_has_a_bounded_number_of_parameters() {
        assert!(Asked::parse(&"a=1&".repeat(MAX_PARAMETERS + 1)).is_err());
    }
}
