//! The fields of answers that have only certain values. Rust knows them as names; a client that is generated gets a type for each.

use serde_json::{Value, json};
use streamfleet::job::{DeadReason, Lane, State, StepKind, StepState, Verdict};
use streamfleet_engine::admin::{IncidentKind, TaskState};
use streamfleet_service::alerts::SinkKind;

use crate::console::access::Role;
use crate::console::field_error::FieldError;
use crate::console::problem_kind::ProblemKind;

/// A shape, one of its fields, and the values that the field may have, or that the items of its list or object may have.
type Closed = (&'static str, &'static str, fn() -> Vec<&'static str>);

/// All of them.
const FIELDS: [Closed; 40] = [
    ("Problem", "type", || ProblemKind::ALL.map(ProblemKind::urn).to_vec()),
    ("FieldError", "code", FieldError::codes),
    ("Job", "state", states),
    ("Job", "lane", lanes),
    ("JobRow", "state", states),
    ("JobRow", "lane", lanes),
    ("JobPlace", "state", states),
    ("BulkSample", "state", states),
    ("RecurringTick", "state", states),
    ("AwaitedMember", "state", || states().into_iter().chain(["unknown"]).collect()),
    ("QueueLane", "lane", lanes),
    ("UnlistedLane", "lane", lanes),
    ("RecurringJob", "lane", lanes),
    ("RecurringJob", "missed", || vec!["skip", "one", "all"]),
    ("RecurringJob", "source", || vec!["config", "command"]),
    ("EmptyIn", "state", || vec!["known", "stopped", "not_shrinking", "unsteady", "unknown"]),
    ("Cause", "kind", || {
        vec!["redis_full", "paused", "no_worker", "pool_down", "unserved_type", "held", "failing", "busy"]
    }),
    ("Cause", "hold", || vec!["paused", "tripped", "unreadable", "rate", "concurrency", "open"]),
    ("Gate", "state", || vec!["open", "paused", "tripped", "unreadable", "ignored", "shared"]),
    ("Gate", "source", || vec!["command", "config"]),
    ("GateChanged", "done", || vec!["set", "cleared"]),
    ("Paused", "done", || vec!["paused", "resumed"]),
    ("Incident", "kind", incidents),
    ("Incident", "state", || vec!["open", "resolved"]),
    ("Need", "code", needs),
    ("NeedParams", "kind", incidents),
    ("Task", "kind", || vec!["replay", "drop", "move", "cancel", "run-now", "purge"]),
    ("Task", "state", || TaskState::ALL.map(TaskState::as_str).to_vec()),
    ("DeadGroup", "reason", || DeadReason::ALL.map(DeadReason::as_str).to_vec()),
    ("PastJob", "returns_as", || vec!["letter", "new_job"]),
    ("LetterField", "form", || vec!["utf8", "hex", "unseen"]),
    ("JobStep", "kind", || vec![StepKind::Auto.as_str(), StepKind::Once.as_str()]),
    ("JobStep", "state", || StepState::ALL.into_iter().map(StepState::as_str).chain(["skipped"]).collect()),
    ("JobStep", "verdicts", verdicts),
    ("StepDecision", "verdict", verdicts),
    ("Session", "way_in", || vec!["link", "password", "proxy"]),
    ("SessionPerson", "role", roles),
    ("SessionPerson", "queues", roles),
    ("Server", "persistence", || vec!["aof", "snapshots", "none"]),
    ("AlertSink", "kind", || SinkKind::ALL.map(SinkKind::as_str).to_vec()),
];

fn states() -> Vec<&'static str> {
    State::ALL.map(State::as_str).to_vec()
}

fn lanes() -> Vec<&'static str> {
    Lane::ALL.map(Lane::as_str).to_vec()
}

fn incidents() -> Vec<&'static str> {
    IncidentKind::ALL.map(IncidentKind::as_str).to_vec()
}

fn verdicts() -> Vec<&'static str> {
    Verdict::ALL.map(Verdict::as_str).to_vec()
}

fn roles() -> Vec<&'static str> {
    Role::ALL.map(Role::as_str).to_vec()
}

fn needs() -> Vec<&'static str> {
    vec![
        "incident",
        "incidents_unreadable",
        "decisions",
        "unserved_type",
        "no_leader",
        "paused",
        "gate_paused",
        "gate_tripped",
        "gate_unreadable",
        "more_gates",
        "key_unreadable",
    ]
}

/// Names the values of a shape's fields.
pub(super) fn name_values(shape: &str, schema: &mut Value) {
    for (_, field, values) in FIELDS.iter().filter(|(known, ..)| *known == shape) {
        if let Some(property) = property(schema, field) {
            close(property, values());
        }
    }
}

/// The description of a field, wherever it is in that of a shape.
fn property<'a>(schema: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    if schema.pointer(&format!("/properties/{name}")).is_some() {
        return schema.pointer_mut(&format!("/properties/{name}"));
    }
    let parts = schema.get_mut("allOf")?.as_array_mut()?;
    parts.iter_mut().find_map(|part| part.pointer_mut(&format!("/properties/{name}")))
}

/// Names the values of a field, or of what its list or object has.
fn close(property: &mut Value, values: Vec<&'static str>) {
    let inner = ["items", "additionalProperties"].into_iter().find(|inner| property.get(inner).is_some());
    let property = match inner {
        Some(inner) => &mut property[inner],
        None => property,
    };
    let is_nullable = property["type"].as_array().is_some_and(|types| types.iter().any(|one| one == "null"));
    if !is_nullable {
        property["enum"] = json!(values);
    } else if let Some(property) = property.as_object_mut() {
        property.remove("type");
        let choices = json!([{ "type": "null" }, { "type": "string", "enum": values }]);
        property.insert("oneOf".to_owned(), choices);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_with_certain_values_exists_and_is_a_text() {
        let routes = crate::console::api::operations();
        for (shape, field, values) in FIELDS {
            let schema = routes.described().schemas.iter().find(|(name, _)| name == shape);
            let (_, schema) = schema.unwrap_or_else(|| panic!("there is no shape {shape}"));
            let mut schema = serde_json::to_value(schema).unwrap();
            name_values(shape, &mut schema);
            let property = property(&mut schema, field);
            let text = property.unwrap_or_else(|| panic!("{shape} has no field {field}")).to_string();
            let first = values()[0];
            assert!(text.contains("\"enum\"") && text.contains(first), "{shape}.{field}: {text}");
            assert!(text.contains("\"string\""), "{shape}.{field}: {text}");
        }
    }
}
