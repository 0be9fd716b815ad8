//! A JSON Schema, compiled once.

mod decoded;
mod problem;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ReferencingError, ValidationError, Validator};
use serde_json::Value;

use crate::job::{Encoding, InvalidPayload, PayloadProblem};

/// The largest payload in bytes of which all problems are collected. A larger one may have millions.
const EXPLAINED_BYTES: usize = 64 * 1024;

/// The keywords that refer to other schemas.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A JSON Schema for payloads. Clones share it.
///
/// The dialect is the one that `$schema` names, of draft 4 to 2020-12, or else 2020-12. Formats, such as `email` and
/// `date-time`, are checked, except `regex`. Patterns run in linear time, so they have no look-around and no
/// backreferences. Nothing outside of the schema is read or fetched.
///
/// ```
/// # fn example() -> Result<(), streamfleet::schema::InvalidSchema> {
/// use streamfleet::job::Encoding;
/// use streamfleet::schema::Schema;
///
/// let schema = Schema::parse(br#"{"properties": {"count": {"type": "integer"}}}"#)?;
/// let invalid = schema.check(br#"{"count": "x"}"#, Encoding::Json).unwrap_err();
/// assert_eq!(invalid.to_string(), r#"/count: "x" is not of type "integer""#);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Schema {
    compiled: Arc<Compiled>,
}

struct Compiled {
    validator: Validator,
    /// Whether a value may fit one of several schemas. Its problems are then those with each of them.
    has_alternatives: bool,
}

/// Why a text is not a schema that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSchema {
    /// It is too large.
    #[error("has more than {max} bytes, the most that a schema may have", max = Schema::MAX_BYTES)]
    TooLarge,
    /// It is not JSON. Contains the line and the column.
    #[error("is not JSON: {0}")]
    Json(String),
    /// It is JSON, but not a schema, or uses what is not supported.
    #[error("{}{reason}", place(.pointer))]
    Unusable {
        /// The place in the schema as a JSON pointer; empty for the schema as a whole, and if the place is not known.
        pointer: String,
        /// What is wrong there.
        reason: String,
    },
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("{pointer}: ") }
}

impl Schema {
    /// Whether this build has the feature `schema`.
    #[doc(hidden)]
    pub const AVAILABLE: bool = true;

    /// The most bytes of a schema as JSON: 1 MiB.
    pub const MAX_BYTES: usize = 1024 * 1024;

    /// Reads and compiles a schema.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`], which names the place, if this is not a JSON Schema of at most [`Schema::MAX_BYTES`], has a pattern
    /// that does not run in linear time, or refers to anything outside of it.
    pub fn parse(json: &[u8]) -> Result<Self, InvalidSchema> {
        if json.len() > Self::MAX_BYTES {
            return Err(InvalidSchema::TooLarge);
        }
        let schema: Value =
            serde_json::from_slice(json).map_err(|error| InvalidSchema::Json(error.to_string()))?;
        if !schema.is_object() && !schema.is_boolean() {
            let reason = "a schema must be an object, or true or false".to_owned();
            return Err(InvalidSchema::Unusable { pointer: String::new(), reason });
        }
        let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
        // Payloads would decide which expressions are compiled.
        let options = options.should_validate_formats(true).with_format("regex", |_| true);
        let validator = options.build(&schema).map_err(|error| unusable(&schema, &error))?;
        let has_alternatives = has_any(&schema, &["anyOf", "oneOf"]);
        Ok(Self { compiled: Arc::new(Compiled { validator, has_alternatives }) })
    }

    /// Checks a payload. As for handlers, an empty one is null, and MessagePack is like JSON, with bytes as base64 text. No
    /// schema describes an [`Encoding::Raw`] payload. This takes time in proportion to the payload.
    ///
    /// # Errors
    ///
    /// [`InvalidPayload`], which names the values that do not fit.
    pub fn check(&self, payload: &[u8], encoding: Encoding) -> Result<(), InvalidPayload> {
        // A payload must never end the process or the slot that checks it.
        let checked = catch_unwind(AssertUnwindSafe(|| self.compiled.check(payload, encoding)));
        checked.unwrap_or_else(|_| Err(only(problem::whole("it cannot be checked: the check panicked"))))
    }
}

impl Compiled {
    fn check(&self, payload: &[u8], encoding: Encoding) -> Result<(), InvalidPayload> {
        let value = decoded::decode(payload, encoding).map_err(|why| only(problem::whole(&why)))?;
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        Err(self.explain(&value, payload.len()).unwrap_or_else(|| only(problem::whole("it does not fit"))))
    }

    /// Says what is wrong with a value that does not fit, in bounded memory: all problems are collected first, and those
    /// with alternatives have copies of the values.
    fn explain(&self, value: &Value, bytes: usize) -> Option<InvalidPayload> {
        if bytes > EXPLAINED_BYTES && self.has_alternatives {
            let why =
                format!("one of its values does not fit; of {bytes} bytes, it is too large to say which");
            return Some(only(problem::whole(&why)));
        }
        if bytes > EXPLAINED_BYTES {
            return self.validator.validate(value).err().map(|error| only(problem::of(&error)));
        }
        let mut found = self.validator.iter_errors(value);
        let problems: Vec<_> =
            found.by_ref().take(InvalidPayload::MAX_PROBLEMS).map(|error| problem::of(&error)).collect();
        let has_more = found.next().is_some();
        (!problems.is_empty()).then(|| InvalidPayload::new(problems, has_more))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Schema").finish_non_exhaustive()
    }
}

fn only(problem: PayloadProblem) -> InvalidPayload {
    InvalidPayload::new(vec![problem], false)
}

/// Words what is wrong with a schema.
fn unusable(schema: &Value, error: &ValidationError<'_>) -> InvalidSchema {
    if let ValidationErrorKind::Referencing(error) = error.kind() {
        return unresolved(schema, error);
    }
    // An error of the schema's own schema has its place in this one as a value, one of the compiler as a keyword.
    let places = [error.instance_path().as_str(), error.schema_path().as_str()];
    let known = places.into_iter().find(|place| !place.is_empty() && schema.pointer(place).is_some());
    let reason = if is_of_pattern(error.kind()) {
        "the pattern is not valid, too large, or has look-around or backreferences, which cannot run in linear time"
            .to_owned()
    } else {
        problem::reason(error)
    };
    InvalidSchema::Unusable { pointer: known.unwrap_or_default().to_owned(), reason }
}

fn is_of_pattern(error: &ValidationErrorKind) -> bool {
    if let ValidationErrorKind::PropertyNames { error } = error {
        return is_of_pattern(error.kind());
    }
    matches!(error, ValidationErrorKind::Format { format } if format == "regex")
}

/// Words that a reference leads nowhere, or outside of the schema.
#[expect(clippy::wildcard_enum_match_arm, reason = "the crate words every other error well enough")]
fn unresolved(schema: &Value, error: &ReferencingError) -> InvalidSchema {
    let (target, reason) = match error {
        ReferencingError::Unretrievable { uri, .. } => {
            let reason = format!(
                "refers to {uri}, which is outside of the schema, and nothing is fetched: copy it into $defs"
            );
            (uri.as_str(), reason)
        }
        ReferencingError::PointerToNowhere { pointer } => {
            (pointer.as_str(), format!("refers to {pointer}, which the schema does not have"))
        }
        ReferencingError::NoSuchAnchor { anchor } => {
            (anchor.as_str(), format!("refers to the anchor {anchor}, which the schema does not have"))
        }
        other => ("", other.to_string()),
    };
    let found = if target.is_empty() { None } else { reference_to(schema, target, "") };
    InvalidSchema::Unusable { pointer: found.unwrap_or_default(), reason }
}

/// Returns the place of a reference to this target: a URI, a pointer or an anchor.
fn reference_to(schema: &Value, target: &str, at: &str) -> Option<String> {
    let below = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    let is_meant = |reference: &str| {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let of_document = !document.is_empty() && target.split('#').next().unwrap_or("").ends_with(document);
        of_document || (!fragment.is_empty() && fragment == target)
    };
    match schema {
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let reference = value.as_str().filter(|_| REFERENCES.contains(&name.as_str()));
            match reference {
                Some(reference) => is_meant(reference).then(|| below(name)),
                None => reference_to(value, target, &below(name)),
            }
        }),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(nth, item)| reference_to(item, target, &format!("{at}/{nth}")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns true if an object in this value has one of these members.
fn has_any(value: &Value, names: &[&str]) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, value)| names.contains(&name.as_str()) || has_any(value, names))
        }
        Value::Array(items) => items.iter().any(|item| has_any(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
