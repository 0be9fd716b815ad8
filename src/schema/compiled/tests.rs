//! What is a schema, and what fits one.

use serde_json::json;

use super::*;

fn schema(json: &Value) -> Schema {
    Schema::parse(json.to_string().as_bytes()).unwrap()
}

fn refused(json: &str) -> String {
    Schema::parse(json.as_bytes()).unwrap_err().to_string()
}

/// What is wrong with this payload.
fn wrong(schema: &Schema, payload: &Value) -> String {
    schema.check(payload.to_string().as_bytes(), Encoding::Json).unwrap_err().to_string()
}

fn mail() -> Schema {
    schema(&json!({
        "type": "object",
        "required": ["to"],
        "properties": {
            "to": {"type": "string", "format": "email"},
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        },
        "$defs": {"item": {"properties": {"sku": {"type": "integer"}}}},
    }))
}

#[test]
fn a_payload_fits_or_its_fields_are_named_whatever_its_encoding() {
    let (mail, good) = (mail(), json!({"to": "ann@example.com", "items": [{"sku": 7}]}));
    let bad = json!({"items": [{"sku": 1}, {"sku": "x"}]});
    for encode in [
        |value: &Value| (value.to_string().into_bytes(), Encoding::Json),
        |value: &Value| (rmp_serde::to_vec_named(value).unwrap(), Encoding::Msgpack),
    ] {
        let (payload, encoding) = encode(&good);
        assert_eq!(mail.check(&payload, encoding), Ok(()));
        let (payload, encoding) = encode(&bad);
        let invalid = mail.check(&payload, encoding).unwrap_err();
        let mut problems: Vec<_> = invalid.problems.iter().map(ToString::to_string).collect();
        problems.sort();
        let want = [r#"/items/1/sku: "x" is not of type "integer""#, "/to: is required, but missing"];
        assert_eq!((problems, invalid.has_more), (want.map(str::to_owned).to_vec(), false));
    }
    assert_eq!(wrong(&mail, &json!({"to": "ann"})), r#"/to: "ann" is not a "email""#);
    let raw = mail.check(b"{}", Encoding::Raw).unwrap_err().to_string();
    assert!(raw.contains("encoding is raw"), "{raw}");
    assert_eq!(mail.check(b"", Encoding::Json).unwrap_err().to_string(), "null is not of type \"object\"");
}

#[test]
fn at_most_three_problems_are_reported() {
    let numbers = schema(&json!({"items": {"type": "integer"}}));
    let invalid = numbers.check(br#"["a", "b", "c", "d"]"#, Encoding::Json).unwrap_err();
    assert_eq!((invalid.problems.len(), invalid.has_more), (3, true));
    assert!(invalid.to_string().ends_with("; and more"), "{invalid}");
}

#[test]
fn the_first_problem_of_a_large_payload_is_named_if_that_takes_little_memory() {
    let many = json!(vec!["x"; 30_000]);
    let plain = schema(&json!({"items": {"type": "integer"}}));
    assert_eq!(wrong(&plain, &many), r#"/0: "x" is not of type "integer""#);
    let either = schema(&json!({"anyOf": [{"items": {"type": "integer"}}, {"type": "object"}]}));
    assert!(wrong(&either, &many).contains("too large to say which"));
    let few = wrong(&either, &json!(["x"]));
    assert!(few.contains("not valid under any of the schemas"), "{few}");
}

#[test]
fn what_is_not_a_schema_is_refused_with_its_place() {
    assert!(refused("{").contains("is not JSON: EOF"), "{}", refused("{"));
    assert!(refused("[]").contains("must be an object"));
    let strange = refused(r#"{"properties": {"to": {"type": "strin"}}}"#);
    assert!(strange.starts_with("/properties/to/type: "), "{strange}");
    let dialect = refused(r#"{"$schema": "https://example.com/dialect"}"#);
    assert!(dialect.contains("https://example.com/dialect"), "{dialect}");
    let large = format!("{{\"title\": \"{}\"}}", "x".repeat(Schema::MAX_BYTES));
    assert_eq!(refused(&large), "has more than 1048576 bytes, the most that a schema may have");
    let deep = format!("{}1{}", r#"{"not":"#.repeat(200), "}".repeat(200));
    assert!(refused(&deep).contains("recursion limit"));
}

#[test]
fn nothing_is_fetched_or_read_for_a_reference() {
    for target in ["https://example.com/item.json", "file:///etc/passwd", "item.json"] {
        let text = format!(r#"{{"items": {{"$ref": "{target}#/a"}}}}"#);
        let error = refused(&text);
        assert!(error.starts_with("/items/$ref: refers to "), "{error}");
        assert!(error.contains(target) && error.contains("nothing is fetched"), "{error}");
    }
    let nowhere = refused(r##"{"items": {"$ref": "#/$defs/item"}}"##);
    assert!(nowhere.starts_with("/items/$ref: refers to /$defs/item"), "{nowhere}");
}

#[test]
fn a_recursive_schema_ends_with_the_payload() {
    let tree = schema(&json!({"properties": {"children": {"items": {"$ref": "#"}}}, "required": ["name"]}));
    let mut value = json!({"name": 0});
    for name in 1..50 {
        value = json!({"name": name, "children": [value]});
    }
    assert_eq!(tree.check(value.to_string().as_bytes(), Encoding::Json), Ok(()));
}

#[test]
fn patterns_run_in_linear_time() {
    let slow = schema(&json!({"pattern": "^(a+)+$"}));
    assert!(wrong(&slow, &json!(format!("{}b", "a".repeat(50_000)))).contains("does not match"));
    let behind = refused(r#"{"properties": {"a": {"pattern": "(a)\\1"}}}"#);
    assert!(behind.starts_with("/properties/a/pattern: the pattern is not valid"), "{behind}");
    let broken = refused(r#"{"patternProperties": {"(": {}}}"#);
    assert!(broken.contains("the pattern is not valid"), "{broken}");
    // The payload does not decide which expressions are compiled.
    let free = schema(&json!({"format": "regex"}));
    assert_eq!(free.check(br#""(((""#, Encoding::Json), Ok(()));
}

#[test]
fn any_value_may_fit_true_and_none_fits_false() {
    assert_eq!(schema(&json!(true)).check(b"1", Encoding::Json), Ok(()));
    assert!(schema(&json!(false)).check(b"1", Encoding::Json).is_err());
}
