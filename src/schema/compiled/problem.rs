//! What the validator finds, in words: with the place of the value, and with a bounded part of it.

use std::fmt::{self, Write};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::job::{PayloadProblem, cut};

/// The longest place in bytes.
const MAX_POINTER_BYTES: usize = 200;

/// The longest text about one value in bytes.
const MAX_REASON_BYTES: usize = 300;

/// How many characters of a text are quoted.
const QUOTED_CHARACTERS: usize = 40;

/// Words one error about a payload.
pub(super) fn of(error: &ValidationError<'_>) -> PayloadProblem {
    let at = error.instance_path().as_str();
    if let ValidationErrorKind::Required { property: Value::String(name) } = error.kind() {
        let name = name.replace('~', "~0").replace('/', "~1");
        return problem(&format!("{at}/{name}"), "is required, but missing");
    }
    problem(at, &reason(error))
}

/// Words a problem with the payload as a whole.
pub(super) fn whole(reason: &str) -> PayloadProblem {
    problem("", reason)
}

fn problem(pointer: &str, reason: &str) -> PayloadProblem {
    PayloadProblem::new(
        cut(printable(pointer, MAX_POINTER_BYTES), MAX_POINTER_BYTES),
        cut(printable(reason, MAX_REASON_BYTES), MAX_REASON_BYTES),
    )
}

/// What an error says, with a bounded part of the value in question.
pub(super) fn reason(error: &ValidationError<'_>) -> String {
    let mut text = Bounded(String::new());
    // A text that is full ends the writing early: it may list a million names.
    let _is_complete = write!(text, "{}", error.masked_with(shown(error.instance()))).is_ok();
    let Bounded(mut text) = text;
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

/// A value as people recognize it. Only a short one is shown whole.
fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let start: String = text.chars().take(QUOTED_CHARACTERS).collect();
            let mark = if start.len() < text.len() { "…" } else { "" };
            Value::from(start + mark).to_string()
        }
        Value::Array(_) => "the array".to_owned(),
        Value::Object(_) => "the object".to_owned(),
    }
}

/// The text with escapes in place of control characters. What is far beyond `most` bytes is left out.
fn printable(text: &str, most: usize) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        if plain.len() > most {
            break;
        }
        if letter.is_control() {
            plain.extend(letter.escape_default());
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// A text that takes no more once it is long enough.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() > MAX_REASON_BYTES {
            return Err(fmt::Error);
        }
        // One more character than fits shows that the text was cut.
        self.0.extend(part.chars().take(MAX_REASON_BYTES + 1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn first(schema: &Value, payload: &Value) -> String {
        let validator = jsonschema::validator_for(schema).unwrap();
        let error = validator.iter_errors(payload).next().unwrap();
        of(&error).to_string()
    }

    #[test]
    fn a_problem_names_the_place_and_quotes_a_bounded_part_of_the_value() {
        let items = json!({"properties": {"items": {"items": {"properties": {"sku": {"type": "integer"}}}}}});
        assert_eq!(
            first(&items, &json!({"items": [{"sku": "x"}]})),
            r#"/items/0/sku: "x" is not of type "integer""#
        );
        let long = first(&items, &json!({"items": [{"sku": "é".repeat(1_000_000)}]}));
        assert!(long.contains(&format!("\"{}…\" is not of type", "é".repeat(40))), "{long}");
        let nested = first(&items, &json!({"items": [{"sku": [1, 2]}]}));
        assert_eq!(nested, r#"/items/0/sku: the array is not of type "integer""#);
    }

    #[test]
    fn a_missing_member_is_named_by_the_place_where_it_would_be() {
        let schema = json!({"required": ["a/b"]});
        assert_eq!(first(&schema, &json!({})), "/a~1b: is required, but missing");
    }

    #[test]
    fn a_text_is_bounded_and_printable_whatever_the_payload_names() {
        let closed = json!({
            "properties": {"a": {"properties": {"b": {}}, "additionalProperties": false}},
            "additionalProperties": {"type": "integer"},
        });
        let many: serde_json::Map<_, _> = (0..100_000).map(|nth| (nth.to_string(), json!(1))).collect();
        let text = first(&closed, &json!({ "a": many }));
        assert!(text.starts_with("/a: additional properties are not allowed ('0'"), "{text}");
        assert!(text.len() < MAX_REASON_BYTES + 10, "{text}");
        let name = format!("\u{1b}[31m{}", "x".repeat(1000));
        let text = first(&closed, &json!({ name: "a\u{7}" }));
        assert!(!text.contains(char::is_control) && text.len() < 600, "{text}");
    }
}
