//! The API under `/api/v1`, for programs.
//!
//! A request is read by `call` (who asks, and its path), `query` (its query) and `json_body`, each of which names the field that is wrong.
//! The handlers call operations, or functions of the command line, and answer with their shapes, from which `privacy` hides what a
//! person must not see. `work_limits` bounds the work that goes on at once and the memory that it takes, which `weight` estimates. `names`
//! remembers the queues for a second. `link` has their addresses. `lines` answers while a search goes on. `feed` reads live events once for all clients, and
//! `figures` what all queues have. `everywhere` has lists over all queues. `document` describes all of it.

mod audit;
mod bulk;
mod bulk_letters;
mod call;
mod changes;
mod closed;
mod document;
mod emptying;
mod events;
mod everywhere;
mod failure;
mod feed;
mod figures;
mod fleet;
mod gates;
mod history;
mod incidents;
mod job;
mod job_stream;
mod jobs;
mod json_body;
mod letter_edits;
mod letter_export;
mod letter_groups;
mod letters;
mod lines;
mod link;
mod names;
mod pauses;
mod privacy;
mod prospects;
mod query;
mod queues;
mod recurring;
mod revision;
mod search;
mod selection;
mod servers;
mod session;
mod stats;
mod steps;
mod submit;
mod tasks;
mod weight;
mod work_limits;

use std::time::Duration;

use axum::http::Method;
use streamfleet_operations as operations;

use self::call::{Answer, Call};
use self::failure::done;
use self::json_body::{JsonBody, from_any_text, from_text};
pub(super) use self::query::only_described;
use self::query::{PageParams, QueryParams, QueuesParams};
pub(super) use self::session::SESSION_PATH;
pub(super) use self::work_limits::{WorkLimits, asked_by};
use super::access::Needs;
use super::problem::Problem;
use super::problem_kind::ProblemKind;
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
        .with(session::routes())
        .with(figures::routes())
        .with(search::routes())
        .with(everywhere::routes())
        .with(queues::routes())
        .with(stats::routes())
        .with(history::routes())
        .with(emptying::routes())
        .with(pauses::routes())
        .with(submit::routes())
        .with(jobs::routes())
        .with(job::routes())
        .with(prospects::routes())
        .with(changes::routes())
        .with(steps::routes())
        .with(bulk::routes())
        .with(bulk_letters::routes())
        .with(letters::routes())
        .with(letter_groups::routes())
        .with(letter_edits::routes())
        .with(letter_export::routes())
        .with(tasks::routes())
        .with(gates::routes())
        .with(recurring::routes())
        .with(incidents::routes())
        .with(events::routes())
        .with(fleet::routes())
        .with(audit::routes())
        .with(servers::routes())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
