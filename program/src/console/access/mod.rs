//! Who asks, and what they may do.
//!
//! `Gatekeeper` finds out who asks: by a token, by the header of a trusted proxy, or by the cookie of a session (`session`),
//! which `login` begins. `accounts` has the people and tokens of a file. A change that a browser asks for must come from our own
//! pages (`origin`), and `guard` checks the rule of the route. `limiter` bounds how often anybody may try.

mod accounts;
mod gatekeeper;
mod headers;
mod limiter;
mod login;
mod mask;
mod needs;
mod origin;
mod person;
mod proxy;
mod session;

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts as _, RawPathParams, Request};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use streamfleet::job::QueueName;
pub(super) use streamfleet_operations::Role;

pub(super) use self::accounts::{Accounts, InvalidAccounts, digest};
pub(super) use self::gatekeeper::Gatekeeper;
pub(super) use self::login::{NotLoggedIn, by_link, by_password, end_session, hash_password};
pub(super) use self::mask::{ABOUT_JOBS, CAUSES, CONTENT_HASH, Mask, without_values};
pub(super) use self::needs::Needs;
pub(super) use self::person::{Csrf, Grants, HasSession, Person};
pub(super) use self::session::random_text;
use super::app_state::AppState;
use super::problem::Problem;
use super::problem_kind::ProblemKind;

/// The most bytes of a body of somebody who may be unknown: a name and a password.
const MAX_OPEN_BYTES: usize = 16 * 1024;

/// How long a request of somebody who may be unknown may take, with its body.
const OPEN_WITHIN: Duration = Duration::from_secs(60);

/// Puts what every request must pass in front of the routes.
pub(super) fn protected(router: Router<AppState>, app: &AppState) -> Router<AppState> {
    router.layer(from_fn_with_state(app.clone(), gatekeeper::identified))
}

/// Puts the rule of a route in front of it.
pub(super) fn guarded(needs: Needs, answers: MethodRouter<AppState>) -> MethodRouter<AppState> {
    // The routes for those who have a role read bodies with bounds of their own.
    let answers: MethodRouter<AppState> = answers.layer(DefaultBodyLimit::max(MAX_OPEN_BYTES));
    answers.route_layer(from_fn(move |request: Request, next: Next| guard(needs, request, next)))
}

/// Lets a request pass if the person who asks may do what the route needs, on the queue that its path names, and a change comes from our own
/// pages. What operators change goes on after a client is gone: it would otherwise be done in part, or be missing in the audit.
async fn guard(needs: Needs, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let queue = match queue_of(&mut parts).await {
        Ok(queue) => queue,
        Err(problem) => return problem.into_response(),
    };
    let may = may(parts.extensions.get::<Person>(), needs, queue.as_ref());
    if let Err(problem) = may.and_then(|()| login::from_our_page(&parts)) {
        return problem.into_response();
    }
    let app = parts.extensions.get::<AppState>().filter(|_| !origin::is_safe(&parts.method)).cloned();
    let answer = next.run(Request::from_parts(parts, body));
    if needs == Needs::Nothing {
        let answer = tokio::time::timeout(OPEN_WITHIN, answer).await;
        return answer.unwrap_or_else(|_| too_slow().into_response());
    }
    match app.filter(|_| needs >= Needs::Role(Role::Operator)) {
        Some(app) => app.work_limits.complete(answer).await.into_response(),
        None => answer.await,
    }
}

fn too_slow() -> Problem {
    let why = format!("the body did not arrive within {} s", OPEN_WITHIN.as_secs());
    Problem::new(ProblemKind::BodyTooSlow, why)
}

fn may(person: Option<&Person>, needs: Needs, queue: Option<&QueueName>) -> Result<(), Problem> {
    let Needs::Role(role) = needs else { return Ok(()) };
    let Some(person) = person else {
        let why = "log in, or send a token: Authorization: Bearer <token>";
        return Err(Problem::new(ProblemKind::NotLoggedIn, why));
    };
    person.check(role, queue)
}

/// The queue that the path names, if it names one.
async fn queue_of(parts: &mut Parts) -> Result<Option<QueueName>, Problem> {
    let Ok(parameters) = RawPathParams::from_request_parts(parts, &()).await else { return Ok(None) };
    let named = parameters.iter().find(|(name, _)| *name == "queue");
    let parsed = named.map(|(_, value)| value.parse::<QueueName>());
    parsed.transpose().map_err(|error| Problem::field("path.queue", error.to_string()))
}
