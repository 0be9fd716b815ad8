//! Another payload, type or setting for one dead letter, before it is replayed.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::InvalidPayload;
use streamfleet::schema::Schemas;
use streamfleet_engine::admin::{DeadLetter, EditError, LetterEdit, Noted};

use crate::{Actor, DEAD_EDIT, Error};

/// What to change in which letter.
#[derive(Debug)]
pub struct Edit<'a> {
    /// The letter as it was read.
    pub letter: &'a DeadLetter,
    /// What to change.
    pub changes: &'a LetterEdit,
    /// The schemas of types, which the new payload must fit.
    pub schemas: &'a Schemas,
}

/// An edited letter.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = LetterEdited)]
#[non_exhaustive]
pub struct Edited {
    /// The letter that took the place of the other one.
    pub letter: String,
    /// The letter that was edited.
    pub former: String,
    /// The id of the job.
    pub id: String,
    /// The queue.
    pub queue: String,
}

/// Edits a letter. The script notes it in the audit.
///
/// # Errors
///
/// [`Error::NotFound`] if somebody else edited, replayed or dropped the letter meanwhile; [`Error::Conflict`] if nothing would
/// change, or the letter cannot be edited at all; [`Error::Invalid`], with `body` if a field of the letter would not be valid;
/// [`Error::Redis`].
pub async fn edit(queue: &Queue, actor: &Actor, input: &Edit<'_>) -> Result<Noted<Edited>, Error> {
    let Edit { letter, changes, .. } = *input;
    check_schema(input)?;
    let edited = queue.dead_letters().edit(letter, changes, &actor.action(&DEAD_EDIT)).await;
    Ok(edited.map_err(refused)?.map(|edited| Edited {
        letter: edited.to_string(),
        former: letter.entry.to_string(),
        id: letter.job().to_string(),
        queue: queue.name().to_string(),
    }))
}

/// Refuses an edit after which the payload does not fit the schema of its type.
fn check_schema(Edit { letter, changes, schemas }: &Edit<'_>) -> Result<(), Error> {
    // Carrying out the edit reports what else is wrong with it.
    let Some(job) = changes.job(letter).ok().filter(|_| changes.changes_payload()) else { return Ok(()) };
    let refused = |invalid: InvalidPayload| {
        let pointer = invalid.problems.first().map_or("", |problem| &*problem.pointer);
        let why = format!("the payload does not fit the schema of {}: {invalid}", job.job_type);
        Error::invalid(format!("payload{pointer}"), why)
    };
    schemas.check(&job.job_type, &job.payload, job.encoding).map_err(refused)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other error is about the letter as a whole")]
fn refused(error: EditError) -> Error {
    let text = error.to_string();
    match error {
        EditError::Redis(error) => Error::unsure("the dead letter may or may not be edited")(error),
        EditError::Gone(_) | EditError::Edited(_) => Error::NotFound(text),
        EditError::Unchanged
        | EditError::NotEdited
        | EditError::NotKept(_)
        | EditError::Lost
        | EditError::Packed
        | EditError::Encoded(_) => Error::Conflict(text),
        EditError::Field(name) => Error::invalid(format!("fields/{name}"), text),
        EditError::Patch(_) => Error::invalid("set", text),
        EditError::Encoding(_) | EditError::TooLarge(_) => Error::invalid("payload", text),
        _ => Error::invalid("body", text),
    }
}
