//! Editing a dead letter before it is replayed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use streamfleet::job::{JobId, JobType};
use streamfleet_engine::admin::{DeadLetter, LetterEdit, Patch};
use streamfleet_operations::Error;
use streamfleet_operations::dead::{self, Edited};
use utoipa_axum::routes;

use super::changes::encoded;
use super::revision::{IfMatch, Revision};
use super::weight::hold_fields;
use super::{Answer, Call, JsonBody, Problem, ProblemKind, Routes, from_text, operations};

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
async fn edit_letter(call: Call, based: IfMatch, JsonBody(sent): JsonBody<Edit>) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("letter")?);
    let letter = match call.app.work_limits.read(dead::find(queue.dead_letters(), &queue, &id)).await? {
        // What the change is based on is gone.
        Err(Error::NotFound(why)) if based.is_given() => return Err(gone(&why)),
        letter => letter?,
    };
    based.check(&Revision::of_letter(&letter))?;
    let mut changes = sent.edit(&letter)?;
    call.check_places(&changes.patches)?;
    // Single values are changed in the payload as it is decoded.
    hold_fields(&call.app.work_limits, &letter.fields, |_| false, usize::from(!changes.patches.is_empty()))?;
    if !call.sees_all() {
        changes = changes.blind();
    }
    let edit = dead::Edit { letter: &letter, changes: &changes, schemas: &call.app.schemas };
    let edited = dead::edit(&queue, &call.actor(&sent.reason), &edit).await;
    match edited {
        Ok(edited) => call.done(Ok(edited)),
        Err(error) => Err(refused(error, &call)),
    }
}

impl Edit {
    fn edit(&self, letter: &DeadLetter) -> Result<LetterEdit, Problem> {
        let mut edit = LetterEdit::default();
        if let Some(payload) = &self.payload {
            edit = edit.payload(encoded(payload, dead::encoding(letter))?);
        }
        if let Some(name) = &self.job_type {
            edit = edit.job_type(from_text::<JobType>("/type", name)?);
        }
        if self.set.len() > MAX_PATCHES {
            return Err(Problem::field("/set", format!("it may have at most {MAX_PATCHES} changes")));
        }
        for (at, patch) in self.set.iter().enumerate() {
            edit = edit.patch(from_text::<Patch>(&format!("/set/{at}"), patch)?);
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
    Problem::new(ProblemKind::Changed, detail)
}

fn refused(error: Error, call: &Call) -> Problem {
    if let Error::NotFound(why) = &error {
        return gone(why);
    }
    if let Error::Invalid { field, .. } = &error
        && (field == "body" || field.starts_with("payload"))
        && !call.sees_all()
    {
        // The error quotes what the letter has.
        let why = "the edited dead letter would not be a job: one of its fields is not valid";
        return Problem::field("body", why);
    }
    error.into()
}
