//! The schemas of types: producers and commands refuse what does not fit, and workers bury it.

mod commands;
mod configured;
mod producers;
mod worker;

use std::time::Duration;

use streamfleet::schema::{Schema, Schemas};

const SOON: Duration = Duration::from_secs(30);
const STREAM: &str = "sf:{default}:jobs";

/// The schema of the type `test`: an object with a text `to`, and perhaps `items` with whole numbers `sku`.
const TEXT: &str = r#"{
    "type": "object",
    "required": ["to"],
    "properties": {
        "to": {"type": "string"},
        "items": {"items": {"properties": {"sku": {"type": "integer"}}}}
    }
}"#;

/// What is wrong with [`BAD`].
const WRONG: &str =
    r#"the payload does not fit the schema of test: /items/0/sku: "x" is not of type "integer""#;

const GOOD: &str = r#"{"to":"ann","items":[{"sku":7}]}"#;
const BAD: &str = r#"{"to":"ann","items":[{"sku":"x"}]}"#;

fn schemas() -> Schemas {
    Schemas::default().with("test", Schema::parse(TEXT.as_bytes()).unwrap()).unwrap()
}
