//! A schema, a payload that fits it, and one that does not.

/// The schema of the type `test`: an object with a text `to`, and perhaps `items` with whole numbers `sku`.
pub const TEXT: &str = r#"{
    "type": "object",
    "required": ["to"],
    "properties": {
        "to": {"type": "string"},
        "items": {"items": {"properties": {"sku": {"type": "integer"}}}}
    }
}"#;

/// What is wrong with [`BAD`].
pub const WRONG: &str =
    r#"the payload does not fit the schema of test: /items/0/sku: "x" is not of type "integer""#;

pub const GOOD: &str = r#"{"to":"ann","items":[{"sku":7}]}"#;
pub const BAD: &str = r#"{"to":"ann","items":[{"sku":"x"}]}"#;
