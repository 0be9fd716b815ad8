//! The parameters of a request's query. The struct by which an operation describes them is the one into which they are read.
//! Parameters that no operation describes are refused before its handler runs.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use axum::routing::MethodRouter;
use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use streamfleet::job::QueueName;
use streamfleet_service::config::nearest;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{ParameterIn, PathItem};

use super::call::Call;
use super::{MAX_WAIT, names};
use crate::console::access::Role;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::times;

/// The most items of a page …
const MOST: u64 = 500;

/// … and how many it has if nobody says so.
pub(super) const USUAL: u64 = 50;

/// The most parameters of a query.
const MAX_PARAMETERS: usize = 100;

/// The parameters of a query, read into a struct, or into a tuple of structs. A field that is a list may be given several times, any
/// other once.
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// Which queues a list is about.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct QueuesParams {
    /// Only this queue; may be repeated.
    #[serde(deserialize_with = "each_parsed")]
    #[param(value_type = Vec<String>)]
    queue: Vec<QueueName>,
}

impl QueuesParams {
    /// Whether no queue is named, which means all of them.
    pub(super) fn are_all(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the list is about this queue.
    pub(super) fn has(&self, name: &QueueName) -> bool {
        self.are_all() || self.queue.contains(name)
    }

    /// Refuses queues that the person may not see.
    ///
    /// # Errors
    ///
    /// [`Problem`] if there are any.
    pub(super) fn check(&self, call: &Call) -> Result<(), Problem> {
        self.queue.iter().try_for_each(|queue| call.person.check(Role::Viewer, Some(queue)))
    }

    /// The queues that the list is about, by name.
    ///
    /// # Errors
    ///
    /// [`Problem`] if the person may not see a queue that is named, it does not exist, or Redis does not answer.
    pub(super) async fn visible(&self, call: &Call) -> Result<Vec<QueueName>, Problem> {
        self.check(call)?;
        if self.are_all() {
            return Ok(names::visible(call).await?.queues);
        }
        let named: BTreeSet<&QueueName> = self.queue.iter().collect();
        for name in &named {
            names::must_have(&call.app, name).await?;
        }
        Ok(named.into_iter().cloned().collect())
    }
}

/// Which page of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// The most items of the page: 50 unless told otherwise.
    #[serde(deserialize_with = "some_limit")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u64>,
    /// The `next` of an earlier page.
    after: Option<String>,
}

impl PageParams {
    /// How many items the page may have.
    pub(super) fn limit(&self) -> u64 {
        self.limit.unwrap_or(USUAL)
    }

    /// How many items the answer may have, if the request says it.
    pub(super) fn given_limit(&self) -> Option<u64> {
        self.limit
    }

    /// Where the page begins.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn after<T: FromStr<Err: Display>>(&self) -> Result<Option<T>, Problem> {
        let after = self.after.as_deref().map(str::parse::<T>).transpose();
        after.map_err(|error| wrong("after", error))
    }
}

/// Reads how many items a page may have.
pub(super) fn some_limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    by(from, |text| {
        let limit = text.parse::<u64>().ok().filter(|limit| (1..=MOST).contains(limit));
        limit.map(Some).ok_or_else(|| format!("it must be a number from 1 to {MOST}"))
    })
}

/// Why a change is made whose request has no body.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ReasonParams {
    /// Why it is done, for the audit.
    pub(super) reason: String,
}

/// Refuses requests with parameters that the operation of this path does not describe.
pub(in crate::console) fn only_described(
    item: &PathItem,
    answers: MethodRouter<AppState>,
) -> MethodRouter<AppState> {
    let known = described(item);
    answers.route_layer(from_fn(move |request: Request, next: Next| {
        let checked = check(request.uri().query().unwrap_or_default(), &known);
        async move {
            match checked {
                Ok(()) => next.run(request).await,
                Err(problem) => problem.into_response(),
            }
        }
    }))
}

/// A parameter is wrong.
pub(super) fn wrong(name: &str, why: impl Display) -> Problem {
    Problem::field(format!("query.{name}"), why.to_string())
}

/// Reads a parameter by a rule, which says what is wrong with the text.
pub(super) fn by<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    rule: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    rule(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Reads a parameter by the rule of its type.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    by(from, str::parse).map(Some)
}

/// Reads a parameter that may be given several times, by the rule of its type.
fn each_parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

/// Reads for how long a request waits for the end of a job.
pub(super) fn wait<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    by(from, |text| match times::duration(text)? {
        wait if wait > MAX_WAIT => Err(format!("it must be at most {}s", MAX_WAIT.as_secs())),
        wait => Ok(Some(wait)),
    })
}

/// The names of the parameters that the operation of a path describes.
fn described(item: &PathItem) -> Arc<[String]> {
    let operations = [&item.get, &item.put, &item.post, &item.delete, &item.patch].into_iter().flatten();
    let parameters = operations.flat_map(|operation| operation.parameters.iter().flatten());
    let names = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    names.collect()
}

/// Refuses parameters other than these.
fn check(query: &str, known: &[String]) -> Result<(), Problem> {
    for (nth, (name, _)) in form_urlencoded::parse(query.as_bytes()).enumerate() {
        if nth >= MAX_PARAMETERS {
            return Err(Problem::field("query", format!("it has more than {MAX_PARAMETERS} parameters")));
        }
        if !known.iter().any(|known| known.as_str() == name) {
            let near = nearest(&name, known.iter().map(String::as_str));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            return Err(wrong(&name, format!("this request has no such parameter{hint}")));
        }
    }
    Ok(())
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    T::deserialize(Pairs(&pairs)).map_err(|Unfit { name, why }| match name {
        Some(name) => wrong(name, why),
        None => Problem::field("query", why),
    })
}

/// A parameter that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct Unfit {
    name: Option<&'static str>,
    why: String,
}

impl serde::de::Error for Unfit {
    fn custom<T: Display>(why: T) -> Self {
        Self { name: None, why: why.to_string() }
    }
}

/// All parameters of a query. Each struct takes those that have the names of its fields.
#[derive(Clone, Copy)]
struct Pairs<'a>(&'a [(String, String)]);

impl<'de> Deserializer<'de> for Pairs<'_> {
    type Error = Unfit;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Unfit> {
        Err(Unfit::custom("parameters can only be read into structs"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unfit> {
        visitor.visit_map(Fields { pairs: self, names: names.iter(), current: None })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Unfit> {
        visitor.visit_seq(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple_struct map enum identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Pairs<'_> {
    type Error = Unfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Unfit> {
        seed.deserialize(*self).map(Some)
    }
}

/// The parameters that have the names of a struct's fields.
struct Fields<'a> {
    pairs: Pairs<'a>,
    names: std::slice::Iter<'static, &'static str>,
    /// The field that is about to be read, and its values.
    current: Option<(&'static str, Vec<&'a str>)>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Unfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unfit> {
        for &name in self.names.by_ref() {
            let given = self.pairs.0.iter().filter(|(given, _)| given == name);
            let values: Vec<&str> = given.map(|(_, value)| value.as_str()).collect();
            if !values.is_empty() {
                self.current = Some((name, values));
                return seed.deserialize(StrDeserializer::new(name)).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unfit> {
        let (name, values) = self.current.take().unwrap_or_default();
        seed.deserialize(Values(values)).map_err(|unfit| Unfit { name: Some(name), ..unfit })
    }
}

/// The values of one parameter.
struct Values<'a>(Vec<&'a str>);

impl<'a> Values<'a> {
    fn one(&self) -> Result<&'a str, Unfit> {
        match self.0[..] {
            [value] => Ok(value),
            _ => Err(Unfit::custom("it must be given only once")),
        }
    }
}

impl<'de> Deserializer<'de> for Values<'_> {
    type Error = Unfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        visitor.visit_str(self.one()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        visitor.visit_some(self)
    }

    /// A flag without a value is true.
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        match self.one()? {
            "" | "true" | "1" => visitor.visit_bool(true),
            "false" | "0" => visitor.visit_bool(false),
            _ => Err(Unfit::custom("it must be true or false")),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter()))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Page {
        #[serde(deserialize_with = "some_limit")]
        limit: Option<u64>,
        all: bool,
        r#type: Option<String>,
    }

    #[test]
    fn each_struct_takes_the_parameters_of_its_fields() {
        let query = "queue=mail&limit=7&all&queue=shop&type=a%2Fb";
        let (page, queues): (Page, QueuesParams) = read(query).unwrap();
        assert_eq!(page, Page { limit: Some(7), all: true, r#type: Some("a/b".to_owned()) });
        assert_eq!(queues.queue, ["mail", "shop"].map(|name| name.parse::<QueueName>().unwrap()));
        assert_eq!(read::<Page>("").unwrap(), Page::default());
    }

    #[test]
    fn every_wrong_parameter_is_named() {
        for (query, at) in [
            ("limit=a", "query.limit: "),
            ("limit=1&limit=2", "query.limit: it must be given only once"),
            ("all=maybe", "query.all: it must be true or false"),
        ] {
            assert!(read::<Page>(query).unwrap_err().detail().starts_with(at), "{query}");
        }
        let refused = read::<PageParams>("limit=501").unwrap_err();
        assert!(refused.detail().starts_with("query.limit: it must be a number"), "{}", refused.detail());
        assert!(read::<QueuesParams>("queue=a&queue=A").unwrap_err().detail().starts_with("query.queue: "));
    }

    #[test]
    fn what_is_not_described_is_refused() {
        let known = ["limit".to_owned(), "after".to_owned()];
        assert!(check("limit=1&after=2&limit=3", &known).is_ok() && check("", &[]).is_ok());
        let refused = check("limt=3", &known).unwrap_err();
        assert_eq!(refused.detail(), "query.limt: this request has no such parameter; did you mean limit?");
        assert!(check("limit=1", &[]).is_err());
        assert!(check(&"limit=1&".repeat(MAX_PARAMETERS + 1), &known).is_err());
    }
}
