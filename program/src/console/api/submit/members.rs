//! The members of a batch, and the job that follows when all of them have succeeded.

use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;
use streamfleet::Submission;
use streamfleet::job::{BatchId, Timestamp};
use streamfleet_operations::submit::{self, Invalid, NewJob, Opened, read_draft};

use super::key::check_own_id;
use super::{check_chain, target_of};
use crate::console::access::Person;
use crate::console::api::failure::{redis, refused};
use crate::console::api::{Answer, Call, JsonBody, Problem};

/// The jobs of a batch.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBatch, examples(json!({"follow": {"type": "invoice.total"}, "members": [{"type": "invoice.send"}]})))]
pub(super) struct NewBatch {
    /// The job that follows when all members have succeeded. It cannot have a delay.
    #[schema(value_type = NewJob)]
    follow: Box<RawValue>,
    /// The members, at least one. Without an id of its own, a member gets that of the batch, a dot and its number.
    #[schema(value_type = Vec<NewJob>, min_items = 1)]
    members: Vec<Box<RawValue>>,
}

/// Opens a batch: submits its members, and when all of them have succeeded, the job that follows.
///
/// Repeat the request with the same members in the same order after an error: none is accepted twice.
#[utoipa::path(put, path = "/api/v1/queues/{queue}/batches/{batch}", tag = "jobs", request_body = NewBatch,
    responses((status = 200, description = "The members are submitted", body = Opened)))]
pub(super) async fn open_batch(
    call: Call,
    JsonBody(NewBatch { follow, members }): JsonBody<NewBatch>,
) -> Answer {
    let (queue, name) = (call.queue()?, call.path::<BatchId>("batch")?);
    if members.is_empty() {
        return Err(Problem::field("/members", "a batch needs a member"));
    }
    let read = Instant::now();
    let now = queue.clock().await.map_err(redis("failed to read the clock of Redis"))?;
    let target = target_of(&call.app, queue);
    let (person, most) = (&call.person, target.max_payload);
    let job = |text: &RawValue, at: &str| submission(text, at, person, (now.after(read.elapsed()), most));
    let follow = job(&follow, "/follow")?;
    let members = members.iter().enumerate().map(|(nth, member)| job(member, &format!("/members/{nth}")));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    let opened =
        submit::open_batch(&target, &name, follow, members).await.map_err(|error| refused(&error))?;
    call.answer(&opened)
}

/// Reads the job at a place of the body.
fn submission(
    text: &RawValue,
    at: &str,
    person: &Person,
    (now, max_payload): (Timestamp, usize),
) -> Result<Submission, Problem> {
    let wrong = |Invalid { key, why, .. }| {
        let field = key.map_or_else(|| at.to_owned(), |key| format!("{at}/{key}"));
        Problem::field(field, why)
    };
    let draft = read_draft(text.get().as_bytes(), now).map_err(wrong)?;
    check_own_id(draft.id.as_ref(), &format!("{at}/id"))?;
    check_chain(person, &draft)?;
    draft.submission(max_payload).map_err(|error| Problem::field(at, error.to_string()))
}
