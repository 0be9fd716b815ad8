//! The API under `/api/v1`, for programs.
//!
//! A request is read by `place` (its path), `query` (its query) and `sent` (its body), each of which names the field that is wrong.
//! The handlers call operations, or functions of the command line, and answer with their shapes, from which `privacy` hides what a
//! person must not see. `desk` bounds the work that goes on at once and the memory that it takes, which `weight` estimates. `names`
//! remembers the queues for a second. `feed` reads live events once for all clients. `document` describes all of it.

mod bulk;
mod bulk_letters;
mod changes;
mod desk;
mod document;
mod drains;
mod emptying;
mod events;
mod failure;
mod feed;
mod fleet;
mod gates;
mod incidents;
mod job;
mod job_stream;
mod jobs;
mod letter_edits;
mod letter_export;
mod letters;
mod names;
mod pauses;
mod place;
mod privacy;
mod query;
mod queues;
mod recurring;
mod revision;
mod selection;
mod sent;
mod session;
mod stats;
mod steps;
mod submit;
mod tasks;
mod weight;

use std::time::Duration;

use axum::http::Method;

pub(super) use self::changes::read_delayed;
pub(super) use self::desk::{Desk, Work, asked_by, within};
pub(super) use self::job::found;
pub(super) use self::query::only_described;
pub(super) use self::sent::announced;
pub(super) use self::submit::check_own_id;
pub(super) use self::tasks::carry_on;
pub(super) use self::weight::{heaviest, hold_decoded, hold_fields};
use super::access::Needs;
use super::routes::Routes;

/// How long a request may wait for the end of a job.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// How long a change of many jobs may take. Then it stops between two pages, and says so.
const CHANGE_FOR: Duration = Duration::from_secs(30);

/// The routes of the API.
pub(super) fn routes() -> Routes {
    let operations = operations();
    let document = document::of(operations.described());
    operations.add(Method::GET, "/api/v1/openapi.json", Needs::Nothing, document::serving(&document))
}

/// The operations, which describe themselves.
fn operations() -> Routes {
    Routes::default()
        .with(queues::routes())
        .with(stats::routes())
        .with(emptying::routes())
        .with(pauses::routes())
        .with(submit::routes())
        .with(jobs::routes())
        .with(job::routes())
        .with(changes::routes())
        .with(steps::routes())
        .with(bulk::routes())
        .with(bulk_letters::routes())
        .with(letters::routes())
        .with(letter_edits::routes())
        .with(letter_export::routes())
        .with(tasks::routes())
        .with(gates::routes())
        .with(recurring::routes())
        .with(incidents::routes())
        .with(events::routes())
        .with(fleet::routes())
        .with(session::routes())
        .with(drains::routes())
}
