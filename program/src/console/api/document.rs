//! The description of the API: OpenAPI 3.1, from what the routes say about themselves. What all operations have in common
//! is added here: the parameters of their paths, who may use them, and how they fail.

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};
use utoipa::PartialSchema as _;

use super::Problem;
use super::closed::name_values;
use crate::console::access::Needs;
use crate::console::field_error::FieldError;
use crate::console::routes::Described;

/// What operations are about, in the order in which they are shown.
const TAGS: [(&str, &str); 13] = [
    ("queues", "How many jobs queues have; pausing, emptying and deleting them."),
    ("jobs", "Submitting jobs, finding them, waiting for them and changing them."),
    ("bulk", "Changing all jobs that a filter matches."),
    ("history", "Jobs that ended long ago, from a database."),
    ("dead letters", "Jobs that died: lists, groups, replaying, dropping and editing them."),
    ("tasks", "Work on many jobs or dead letters that goes on after the request that began it."),
    ("gates", "How many jobs may run or start."),
    ("recurring jobs", "Jobs that are submitted by a schedule."),
    ("incidents", "What is wrong with the fleet, who knows of it, and whether messages arrive."),
    ("workers", "The processes that run jobs."),
    ("events", "What happens, live."),
    ("audit", "What people did."),
    ("console", "The console itself."),
];

/// The parameters of paths: what they are, and an example.
const PARAMETERS: [(&str, &str, &str); 12] = [
    ("queue", "The name of the queue.", "mail"),
    ("id", "The id of the job, or the id of its stream entry.", "order-7"),
    ("step", "The name of the step.", "charge"),
    ("group", "The fingerprint of the group, or `other`.", "0123456789abcdef"),
    ("letter", "The id of the dead letter, or of its job.", "1700000000000-0"),
    ("task", "The id of the task.", "0b5ff109"),
    ("gate", "The gate: `queue`, `type:<type>`, `key:<field>` or `key:<field>=<value>`.", "type:mail.send"),
    ("name", "The name of the recurring job.", "report.nightly"),
    ("batch", "The name of the batch.", "invoices-2026-11"),
    ("incident", "The id of the incident.", "0b5ff109"),
    ("worker", "The name of the worker, as the list of workers has it.", "web-3-4711-0b5ff109"),
    ("sink", "The name of the sink, as in `[alerts.sinks.<name>]`.", "ops"),
];

/// What anybody may be told instead of an answer.
const FAILURES: [(&str, &str, &str); 5] = [
    ("401", "NotLoggedIn", "Nobody is logged in, or the token is not valid."),
    ("403", "NotAllowed", "The role of the person or token does not suffice."),
    ("404", "NotFound", "What the path names does not exist."),
    ("422", "NotValid", "A parameter or a field is not valid. `errors` says which."),
    (
        "default",
        "Failed",
        "The request failed: too many requests (429, with `Retry-After`), or Redis failed (503).",
    ),
];

/// Describes the operations.
pub(super) fn of(described: &Described) -> Value {
    let mut paths = Map::new();
    for (path, item, needs) in &described.operations {
        let item = serde_json::to_value(item).expect("a description of a path can be written as JSON");
        let known = paths.entry(path.clone()).or_insert_with(|| json!({}));
        for (method, operation) in item.as_object().into_iter().flatten() {
            known[method] = completed(operation.clone(), path, *needs);
        }
    }
    let mut schemas: Map<String, Value> = described
        .schemas
        .iter()
        .map(|(name, schema)| (name.clone(), serde_json::to_value(schema).expect("a schema is JSON")))
        .collect();
    for (name, schema) in [("Problem", Problem::schema()), ("FieldError", FieldError::schema())] {
        schemas.insert(name.to_owned(), serde_json::to_value(schema).expect("a schema is JSON"));
    }
    for (name, schema) in &mut schemas {
        allow_absence(schema);
        name_values(name, schema);
    }
    schemas["FieldError"]["x-values"] = json!(FieldError::values_of_codes());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "streamfleet",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Background jobs on Redis Streams: the API of `streamfleet console`.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            "contact": { "name": "streamfleet", "url": env!("CARGO_PKG_REPOSITORY") },
        },
        "servers": [{ "url": "/", "description": "This console" }],
        "security": [{ "token": [] }, { "session": [] }],
        "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
        "paths": paths,
        "components": { "schemas": schemas, "responses": failures(), "securitySchemes": schemes() },
    })
}

/// serde leaves out a flattened value that is absent, but utoipa says that it is null.
fn allow_absence(schema: &mut Value) {
    let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        let choices = part.get("oneOf").and_then(Value::as_array);
        let Some(present) = choices.and_then(|choices| match &choices[..] {
            [present, absent] if absent["type"] == "null" => Some(present.clone()),
            _ => None,
        }) else {
            continue;
        };
        *part = json!({ "anyOf": [present, { "type": "object" }] });
    }
}

/// Adds what an operation has in common with others.
fn completed(mut operation: Value, path: &str, needs: Needs) -> Value {
    let mut parameters = parameters_of(path);
    if let Some(own) = operation["parameters"].as_array() {
        parameters.extend(own.iter().cloned());
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    match needs {
        Needs::Nothing => operation["security"] = json!([]),
        Needs::Role(role) => operation["x-role"] = role.as_str().into(),
    }
    let has_place = path.contains('{');
    let is_open = needs == Needs::Nothing;
    for (status, name, _) in FAILURES {
        let applies = match status {
            "401" | "403" | "422" => !is_open,
            "404" => has_place,
            _ => true,
        };
        if applies {
            operation["responses"][status] = json!({ "$ref": format!("#/components/responses/{name}") });
        }
    }
    for (status, answer) in operation["responses"].as_object_mut().into_iter().flatten() {
        // Statuses that an operation names without a body have the body of all problems.
        if status.starts_with('4') && answer.get("$ref").is_none() && answer.get("content").is_none() {
            answer["content"] = problem();
        }
    }
    operation
}

fn parameters_of(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let known = names.filter_map(|name| PARAMETERS.iter().find(|(known, _, _)| *known == name));
    let parameter = |(name, description, example): &(&str, &str, &str)| {
        json!({
            "name": name, "in": "path", "required": true, "description": description,
            "schema": { "type": "string" }, "example": example,
        })
    };
    known.map(parameter).collect()
}

fn problem() -> Value {
    json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } })
}

fn failures() -> Value {
    let answer = |(_, name, description): (&str, &str, &str)| {
        (name.to_owned(), json!({ "description": description, "content": problem() }))
    };
    FAILURES.into_iter().map(answer).collect::<Map<_, _>>().into()
}

fn schemes() -> Value {
    json!({
        "token": {
            "type": "http", "scheme": "bearer",
            "description": "A token of the accounts file. `streamfleet console token` prints one.",
        },
        "session": {
            "type": "apiKey", "in": "cookie", "name": "streamfleet",
            "description": "The session of a browser. Changes also need the header `X-CSRF-Token`. Over HTTPS, the cookie is `__Host-streamfleet`.",
        },
    })
}

/// Returns a handler that answers with the description.
pub(super) fn serving(
    document: &Value,
) -> impl Fn() -> std::future::Ready<Response> + Clone + Send + 'static + use<> {
    let text = Bytes::from(document.to_string());
    let kind = [(header::CONTENT_TYPE, "application/json")];
    move || std::future::ready((kind.clone(), text.clone()).into_response())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn document() -> Value {
        of(crate::console::api::operations().described())
    }

    fn operations(document: &Value) -> Vec<(String, &Value)> {
        let paths = document["paths"].as_object().unwrap();
        let of_path = |(path, item): (&String, &'static str)| format!("{item} {path}");
        let mut all = Vec::new();
        for (path, item) in paths {
            for method in ["get", "put", "post", "delete", "patch"] {
                if let Some(operation) = item.get(method) {
                    all.push((of_path((path, method)), operation));
                }
            }
        }
        all
    }

    /// Every value of `$ref` in the document.
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_operation_is_described_completely() {
        let document = document();
        let all = operations(&document);
        assert!(all.len() >= 45, "{} operations", all.len());
        let mut ids = BTreeSet::new();
        let tags: BTreeSet<&str> = TAGS.iter().map(|(name, _)| *name).collect();
        for (name, operation) in all {
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{name} has no id"));
            assert!(ids.insert(id.to_owned()), "{name}: the id {id} is used twice");
            assert!(operation["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{name}: summary");
            let own: Vec<&str> =
                operation["tags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(own.len() == 1 && tags.contains(own[0]), "{name}: {own:?}");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{name}: no success");
            assert!(answers.contains_key("default"), "{name}: no failure");
            let placed = name.matches('{').count();
            let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, placed, "{name}: parameters of the path");
            for parameter in parameters {
                assert!(parameter["description"].is_string(), "{name}: {}", parameter["name"]);
            }
        }
    }

    #[test]
    fn the_answer_to_a_submission_has_what_each_kind_of_answer_has() {
        let document = document();
        let properties =
            |name: &str| document["components"]["schemas"][name]["properties"].as_object().unwrap();
        for (name, _) in ["Submitted", "JobOutcome"].into_iter().flat_map(properties) {
            assert!(properties("SubmitAnswer").contains_key(name), "{name}");
        }
    }

    #[test]
    fn every_reference_leads_to_something() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 30, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    /// Adds the names of a shape's keys. A time in milliseconds stands beside one in words.
    fn keys<'a>(schema: &'a Value, document: &'a Value, found: &mut BTreeSet<&'a str>) {
        found.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
        for part in ["allOf", "anyOf", "oneOf"].iter().filter_map(|of| schema[of].as_array()).flatten() {
            let named = part["$ref"].as_str().and_then(|reference| document.pointer(&reference[1..]));
            keys(named.unwrap_or(part), document, found);
        }
    }

    #[test]
    fn the_page_about_json_names_every_key_of_the_shapes_that_it_shares() {
        const PAGE: &str = include_str!("../../../../docs/cli-json.md");
        const SHARED: [(&str, &str); 23] = [
            ("Queue", "### queues"),
            ("QueueLane", "### queues"),
            ("UnservedType", "### queues"),
            ("JobRow", "### jobs"),
            ("Worker", "### workers"),
            ("StaleConsumer", "### workers"),
            ("UnlistedLane", "### workers"),
            ("Gate", "### gates list"),
            ("DeadLetter", "### dead list"),
            ("LetterField", "### dead list"),
            ("DeadGroup", "### dead groups"),
            ("Incident", "### alerts"),
            ("Task", "### tasks"),
            ("AuditNote", "### audit"),
            ("RecurringJob", "### cron list"),
            ("Job", "## One object"),
            ("Attempt", "### status"),
            ("Progress", "### status"),
            ("LogLine", "### status"),
            ("JobStep", "### steps"),
            ("StepError", "### steps"),
            ("StepDecision", "### steps"),
            ("AwaitedMember", "### batch"),
        ];
        let document = document();
        let mut missing = Vec::new();
        for (shape, heading) in SHARED {
            let schema = &document["components"]["schemas"][shape];
            let mut names = BTreeSet::new();
            keys(schema, &document, &mut names);
            assert!(!names.is_empty(), "{shape} has no keys");
            let (_, section) = PAGE.split_once(&format!("\n{heading}\n")).expect(heading);
            let section = section.split("\n#").next().unwrap();
            let is_told = |name: &str| section.contains(&format!("`{name}`"));
            let in_words = |name: &str| name.strip_suffix("_ms").is_some_and(|name| names.contains(name));
            missing.extend(
                names
                    .iter()
                    .filter(|name| !is_told(name) && !in_words(name))
                    .map(|name| format!("{shape}.{name}")),
            );
        }
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn no_two_shapes_have_the_same_name() {
        let routes = crate::console::api::operations();
        let mut known = std::collections::BTreeMap::new();
        for (name, schema) in &routes.described().schemas {
            let schema = serde_json::to_value(schema).unwrap();
            let other = known.insert(name.clone(), schema.clone());
            assert!(other.is_none_or(|other| other == schema), "{name}");
        }
    }
}
