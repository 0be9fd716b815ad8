//! Lists in JSON: one shape for every command.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{AllOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// The version of the shape. It changes if a key is removed or gets another meaning, not if one is added.
const VERSION: u32 = 1;

/// A list. In JSON, it is `{"version": 1, …, "items": […], "next": …}`, with the facts among them.
#[derive(Debug)]
pub struct List<T, F = NoFacts, N = String> {
    /// The items of this page.
    pub items: Vec<T>,
    /// What to pass for the next page; none if this is the last one, or if there are no pages.
    pub next: Option<N>,
    /// What is known about the list as a whole.
    pub facts: F,
    /// Another key that has the same items: older programs read it.
    pub former: Option<&'static str>,
}

/// Nothing is known about the list as a whole.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct NoFacts {}

/// A list as OpenAPI describes it: an object with the facts, the items and the cursor.
impl<T: ToSchema, F: ToSchema, N: ToSchema> PartialSchema for List<T, F, N> {
    fn schema() -> RefOr<Schema> {
        let named = |name: Cow<'static, str>| RefOr::<Schema>::from(Ref::from_schema_name(name));
        let next = OneOfBuilder::new().item(N::schema()).item(ObjectBuilder::new().schema_type(Type::Null));
        let own = ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("version", u32::schema())
            .required("version")
            .property("items", ArrayBuilder::new().items(named(T::name())))
            .required("items")
            .property(
                "next",
                next.description(Some(
                    "The value of `after` for the next page; null if this is the last one.",
                )),
            )
            .required("next");
        AllOfBuilder::new().item(named(F::name())).item(own).into()
    }
}

impl<T: ToSchema, F: ToSchema, N: ToSchema> ToSchema for List<T, F, N> {
    fn name() -> Cow<'static, str> {
        format!("{}List", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        schemas.push((F::name().into_owned(), F::schema()));
        T::schemas(schemas);
        F::schemas(schemas);
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, next: None, facts: NoFacts {}, former: None }
    }
}

impl<T: Serialize, F: Serialize, N: Serialize> Serialize for List<T, F, N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a, T, F, N> {
            version: u32,
            #[serde(flatten)]
            facts: &'a F,
            items: &'a [T],
            next: &'a Option<N>,
            #[serde(flatten)]
            former: BTreeMap<&'static str, &'a [T]>,
        }
        let Self { items, next, facts, former } = self;
        let former = former.iter().map(|name| (*name, items.as_slice())).collect();
        Shape { version: VERSION, facts, items, next, former }.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_list_has_the_same_shape() {
        let plain = List::from(vec![1, 2]);
        assert_eq!(
            serde_json::to_value(&plain).unwrap(),
            json!({"version": 1, "items": [1, 2], "next": null})
        );
        #[derive(Serialize)]
        struct Facts {
            total: u64,
        }
        let facts = Facts { total: 3 };
        let page = List { items: vec!["a"], next: Some("a".to_owned()), facts, former: Some("letters") };
        let want = json!({"version": 1, "total": 3, "items": ["a"], "next": "a", "letters": ["a"]});
        assert_eq!(serde_json::to_value(&page).unwrap(), want);
    }
}
