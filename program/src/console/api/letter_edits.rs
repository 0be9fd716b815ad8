//! Editing a dead letter before it is replayed.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use streamfleet::job::{JobId, JobType};
use streamfleet_engine::admin::{DeadLetter, LetterEdit, Patch};
use streamfleet_operations::dead::{self, Edited};
use streamfleet_operations::{self as operations, Actor, Error};
use utoipa_axum::routes;

use super::changes::encoded;
use super::failure::done;
use super::json_body::JsonBody;
use super::path_params::PathParams;
use super::privacy::View;
use super::revision::{IfMatch, Revision};
use super::weight::hold_fields;
use crate::console::access::Person;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

/// The most changes of single values.
const MAX_PATCHES: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default().operation(&operations::DEAD_EDIT, routes!(edit_letter))
}

/// What to change in a dead letter.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LetterEdit, examples(json!({"set": ["payload.email=ann@example.com"], "reason": "the customer moved"})))]
struct Edit {
    /// The whole new payload, in the encoding that the dead letter has: JSON, which is converted for MessagePack, or a string for
    /// raw bytes.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// Changes of single values, such as `payload.email=ann@example.com` or `payload.items[0].count=3`.
    #[serde(default)]
    #[schema(max_items = 100)]
    set: Vec<String>,
    /// Another type.
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Other values of fields: headers (`h.tenant`), `max_attempts`, `timeout_ms` or `tracking`.
    #[serde(default)]
    fields: BTreeMap<String, String>,
    /// Take back all edits: every value becomes again what it was before the first edit. Nothing else works beside it.
    #[serde(default)]
    undo: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// Changes the payload, the type or other fields of a dead letter.
///
/// The edited dead letter takes the place of the other one, and has a new id. With `If-Match`, it is only changed if nobody has
/// edited it since its `ETag` was read. Those who may not see payloads can replace the payload, but not single values in it,
/// and nobody can set a single masked value.
#[utoipa::path(patch, path = "/api/v1/queues/{queue}/dead/{letter}", tag = "dead letters", request_body = Edit,
    params(("If-Match" = Option<String>, Header, description = "The ETag of the dead letter")),
    responses((status = 200, description = "The dead letter that took its place", body = Edited),
        (status = 412, description = "Somebody else edited, replayed or dropped the dead letter")))]
async fn edit_letter(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    based: IfMatch,
    JsonBody(sent): JsonBody<Edit>,
) -> Result<Json<Value>, Problem> {
    let (queue, id) = (path.queue(&app)?, path.get::<JobId>("letter")?);
    let letter = match app.work_limits().read(dead::find(queue.dead_letters(), &queue, &id)).await? {
        // What the change is based on is gone.
        Err(Error::NotFound(why)) if based.is_given() => return Err(gone(&why)),
        letter => letter?,
    };
    based.check(&Revision::of_letter(&letter))?;
    let view = View::of(&person, &app);
    let mut changes = sent.edit(&letter)?;
    view.check_places(&changes.patches)?;
    // Single values are changed in the payload as it is decoded.
    hold_fields(app.work_limits(), &letter.fields, |_| false, usize::from(!changes.patches.is_empty()))?;
    if !view.sees_all() {
        changes = changes.blind();
    }
    let edit = dead::Edit { letter: &letter, changes: &changes, schemas: app.schemas() };
    let edited = dead::edit(&queue, &Actor::new(person.name(), &sent.reason), &edit).await;
    match edited {
        Ok(edited) => view.json(&done(Ok(edited))?),
        Err(error) => Err(refused(error, &view)),
    }
}

impl Edit {
    fn edit(&self, letter: &DeadLetter) -> Result<LetterEdit, Problem> {
        let mut edit = LetterEdit::default();
        if let Some(payload) = &self.payload {
            edit = edit.payload(encoded(payload, dead::encoding(letter))?);
        }
        if let Some(name) = &self.job_type {
            let job_type = name.parse::<JobType>();
            edit = edit.job_type(job_type.map_err(|error| Problem::field("/type", error.to_string()))?);
        }
        if self.set.len() > MAX_PATCHES {
            return Err(Problem::field("/set", format!("it may have at most {MAX_PATCHES} changes")));
        }
        for (at, patch) in self.set.iter().enumerate() {
            let patch = patch.parse::<Patch>();
            let patch = patch.map_err(|error| Problem::field(format!("/set/{at}"), error.to_string()))?;
            edit = edit.patch(patch);
        }
        for (name, value) in &self.fields {
            edit = edit.field(name, value);
        }
        let is_none = edit == LetterEdit::default();
        match (is_none, self.undo) {
            (false, false) => Ok(edit),
            (true, true) => Ok(edit.undo()),
            (false, true) => Err(Problem::field("/undo", "it takes back all edits, and works alone")),
            (true, false) => {
                Err(Problem::field("body", "say what to change: payload, set, type, fields or undo"))
            }
        }
    }
}

fn gone(detail: &str) -> Problem {
    Problem::new(StatusCode::PRECONDITION_FAILED, "it has changed", detail)
}

fn refused(error: Error, view: &View<'_>) -> Problem {
    if let Error::NotFound(why) = &error {
        return gone(why);
    }
    if let Error::Invalid { field, .. } = &error
        && (field == "body" || field.starts_with("payload"))
        && !view.sees_all()
    {
        // The error quotes what the letter has.
        return Problem::field(
            "body",
            "the edited dead letter would not be a job: one of its fields is not valid",
        );
    }
    error.into()
}
