//! What a person may see of jobs: without the right to see payloads, everything that came from a producer or a handler is
//! hidden. Fields whose names the configuration masks are hidden from everybody, or from those who are no operators.

use serde::Serialize;
use serde_json::{Map, Value};
use streamfleet::job::GateName;
use streamfleet_engine::admin::{Filter, Patch};

use super::{Call, Problem, ProblemKind};
use crate::console::access::{ABOUT_JOBS, CAUSES, Mask, without_values};
use crate::filter::Conditions;

/// What stands in place of a hidden text.
const HIDDEN: &str = "***";

/// The keys whose values come from producers or handlers.
const PRIVATE: [&str; 10] =
    ["payload", "headers", "result", "error", "errors", "example_error", "text", "note", "fields", "then"];

/// What the person who asks may see.
impl Call {
    /// Returns a shape as JSON, without what this person must not see.
    ///
    /// # Errors
    ///
    /// [`Problem`] if it is not JSON, which no shape of the API is.
    pub(super) fn value(&self, shape: &impl Serialize) -> Result<Value, Problem> {
        let mut value = serde_json::to_value(shape)
            .map_err(|error| Problem::new(ProblemKind::AnswerNotWritten, error.to_string()))?;
        if !self.sees_payloads() {
            hide(&mut value);
        }
        self.mask().apply(&mut value);
        Ok(value)
    }

    /// What this person sees of what an action was about.
    pub(super) fn about(&self, text: &str) -> String {
        let seen = if self.sees_payloads() { self.mask().about(text) } else { without_values(text) };
        seen.into_owned()
    }

    /// The mask of what this person does not see.
    pub(super) fn mask(&self) -> &Mask {
        self.app.mask_for(&self.person)
    }

    /// Returns true if this person sees payloads, except for what is masked.
    pub(super) fn sees_payloads(&self) -> bool {
        self.person.sees_payloads()
    }

    /// Returns true if nothing is hidden from this person.
    pub(super) fn sees_all(&self) -> bool {
        self.sees_payloads() && self.mask().is_empty()
    }

    /// Refuses conditions that would tell what is in payloads, headers or errors.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the condition.
    pub(super) fn check_conditions(&self, conditions: &Conditions) -> Result<(), Problem> {
        if let Some(name) = conditions.private().filter(|_| !self.sees_payloads()) {
            return Err(forbidden(&format!("the condition {name} looks into payloads, headers or errors")));
        }
        let mask = self.mask();
        // By asking often enough whether a value is greater than another one, a person would learn it.
        let looks_behind = |filter: Filter| filter.looks_at(|name| mask.hides(name));
        if !mask.is_empty() && conditions.filter().is_ok_and(looks_behind) {
            let why = "a condition may look at fields that are masked: leave it out";
            return Err(Problem::new(ProblemKind::NotAllowed, why));
        }
        Ok(())
    }

    /// Refuses to look for jobs at a gate whose name has a value that this person must not see.
    ///
    /// # Errors
    ///
    /// [`Problem`].
    pub(super) fn check_gate(&self, gate: &GateName) -> Result<(), Problem> {
        if self.about(gate.as_str()) == gate.as_str() {
            return Ok(());
        }
        Err(forbidden("the name of the gate has a value of jobs"))
    }

    /// Refuses to show a payload or a result as it is.
    ///
    /// # Errors
    ///
    /// [`Problem`].
    pub(super) fn check_payloads(&self) -> Result<(), Problem> {
        if self.sees_payloads() { Ok(()) } else { Err(forbidden("this shows a payload or a result")) }
    }

    /// Refuses changes of single values in a payload that this person must not see: whether it has such a place tells what is in
    /// it.
    ///
    /// # Errors
    ///
    /// [`Problem`].
    pub(super) fn check_places(&self, patches: &[Patch]) -> Result<(), Problem> {
        if !patches.is_empty() && !self.sees_payloads() {
            return Err(forbidden("set changes single values in a payload"));
        }
        if patches.iter().any(|patch| patch.looks_at(|name| self.mask().hides(name))) {
            let why = "set changes a value that is masked: replace the payload as a whole";
            return Err(Problem::new(ProblemKind::NotAllowed, why));
        }
        Ok(())
    }
}

fn forbidden(what: &str) -> Problem {
    let why = format!("{what}, which you may not see: ask for the right to see payloads");
    Problem::new(ProblemKind::NotAllowed, why)
}

/// Hides the values of private keys, wherever they are. Each keeps its type, so that it still has the shape that OpenAPI
/// describes.
pub(super) fn hide(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(members) => hide_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn hide_members(members: &mut Map<String, Value>) {
    for (name, value) in members {
        if name == "payload" || name == "result" {
            // A null would say that there is none.
            if !value.is_null() {
                *value = HIDDEN.into();
            }
        } else if ABOUT_JOBS.contains(&name.as_str()) {
            hide_values(value);
        } else if CAUSES.contains(&name.as_str()) {
            hide_in_cause(value);
        } else if !PRIVATE.contains(&name.as_str()) {
            hide(value);
        } else {
            match value {
                Value::Array(items) => items.clear(),
                Value::Object(members) => members.clear(),
                Value::String(text) if !text.is_empty() => HIDDEN.clone_into(text),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }
}

/// Why jobs wait is for everybody, but not the value of a gate, nor what a program wrote.
fn hide_in_cause(cause: &mut Value) {
    if let Value::Array(items) = cause {
        items.iter_mut().for_each(hide_in_cause);
        return;
    }
    let quotes_program = cause["kind"] == "pool_down";
    let text = cause.get_mut("text").map(Value::take);
    hide(cause);
    if let (Some(mut text), Value::Object(members)) = (text, cause) {
        if quotes_program {
            text = HIDDEN.into()
        } else {
            hide_values(&mut text)
        }
        members.insert("text".to_owned(), text);
    }
}

fn hide_values(text: &mut Value) {
    if let Value::String(text) = text {
        *text = without_values(text).into_owned();
    } else {
        hide(text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn why_jobs_wait_is_shown_without_values_and_words_of_programs() {
        let text = "5 held by key:h.email=ann (2/s): 2s";
        let held = json!({"kind": "held", "text": text, "gate": "key:h.email=ann"});
        let text = "pool php cannot start: no ann";
        let down = json!({"kind": "pool_down", "text": text, "error": "no ann", "pool": "php"});
        let mut queues = json!([{"cause": held, "causes": [held]}, {"queue_cause": down}, {"cause": null}]);
        hide(&mut queues);
        let shown = json!({"kind": "held", "text": "5 held by key:h.email=***", "gate": "key:h.email=***"});
        let want = json!([
            {"cause": shown, "causes": [shown]},
            {"queue_cause": {"kind": "pool_down", "text": "***", "error": "***", "pool": "php"}},
            {"cause": null},
        ]);
        assert_eq!(queues, want);
        let mut masked = json!({"cause": held, "causes": [held]});
        Mask::new(["email"]).apply(&mut masked);
        assert_eq!(masked["cause"]["text"], "5 held by key:h.email=***");
        assert_eq!(masked["causes"][0], masked["cause"]);
    }

    #[test]
    fn what_came_from_a_producer_or_a_handler_is_hidden() {
        let mut job = json!({
            "id": "order-7", "payload": {"to": "ann"}, "headers": {"tenant": "9"}, "result": 7, "error": "no ann",
            "attempts": [{"worker": "w", "error": "no ann"}], "log": [{"text": "ann", "at_ms": 1}],
            "progress": {"percent": 40, "note": "ann"}, "fields": [{"name": "payload", "value": "ann"}],
            "gate": "key:h.email=ann@example.com", "filter": "--type a --where payload.to=ann",
        });
        hide(&mut job);
        let want = json!({
            "id": "order-7", "payload": "***", "headers": {}, "result": "***", "error": "***",
            "attempts": [{"worker": "w", "error": "***"}], "log": [{"text": "***", "at_ms": 1}],
            "progress": {"percent": 40, "note": "***"}, "fields": [], "gate": "key:h.email=***",
            "filter": "--type a --where ***",
        });
        assert_eq!(job, want);
    }
}
