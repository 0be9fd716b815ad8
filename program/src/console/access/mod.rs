//! Who asks, and what they may do.
//!
//! `Gatekeeper` finds out who asks: by a token, by the header of a trusted proxy, or by the cookie of a session (`session`),
//! which `login` begins. `accounts` has the people and tokens of a file. A change that a browser asks for must come from our own
//! pages (`origin`). `guard` then checks the rule of the route. `limiter` bounds how often anybody may try.

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
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use streamfleet::job::QueueName;
pub(super) use streamfleet_operations::Role;

pub(super) use self::accounts::{Accounts, InvalidAccounts, digest};
pub(super) use self::gatekeeper::Gatekeeper;
pub(super) use self::login::{
    MAX_FORM_BYTES, MAX_OPEN_FORM_BYTES, MAX_PAYLOAD_FORM_BYTES, NotLoggedIn, by_link, by_password,
    end_session, hash_password,
};
pub(super) use self::mask::{ABOUT_JOBS, CAUSES, CONTENT_HASH, Mask, without_values};
pub(super) use self::needs::Needs;
pub(super) use self::person::{Csrf, Grants, HasSession, Person};
pub(super) use self::session::random_text;
use super::api::announced;
use super::problem::Problem;
use super::routes::Routes;
use super::site::Site;

/// How long a form may take to arrive.
const FORM_WITHIN: Duration = Duration::from_secs(60);

/// How many copies of a form are in memory: as it arrives, in one piece, and as what its fields say.
const FORM_COPIES: usize = 3;

/// The routes to log in and out.
pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Method::GET, "/login", Needs::Nothing, login::page)
        .add(Method::POST, "/login", Needs::Nothing, login::log_in)
        .add(Method::POST, "/logout", Needs::Nothing, login::log_out)
}

/// Puts what every request must pass in front of the routes.
pub(super) fn protected(router: Router<Site>, site: &Site) -> Router<Site> {
    router.layer(from_fn_with_state(site.clone(), gatekeeper::identified))
}

/// Puts the rule of a route in front of it. `most` bounds the bytes of its form.
pub(super) fn guarded(needs: Needs, most: usize, answers: MethodRouter<Site>) -> MethodRouter<Site> {
    // Nothing else bounds the form of somebody who is not logged in.
    let answers: MethodRouter<Site> = answers.layer(DefaultBodyLimit::max(most));
    answers.route_layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        guard((needs, most), request, next)
    }))
}

/// Lets a request pass if the person who asks may do what the route needs, on the queue that its path names. Only then is a form read,
/// to see whether it is one of ours; the memory of one that has a large payload counts. What operators change goes on after a client is gone:
/// it would otherwise be done in part, or be missing in the audit.
async fn guard((needs, most): (Needs, usize), request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let queue = match queue_of(&mut parts).await {
        Ok(queue) => queue,
        Err(problem) => return problem.into_response(),
    };
    if let Err(problem) = may(parts.extensions.get::<Person>(), needs, queue.as_ref()) {
        return problem.into_response();
    }
    let is_safe = origin::is_safe(&parts.method);
    let site = parts.extensions.get::<Site>().filter(|_| !is_safe).cloned();
    let large = site.as_ref().filter(|_| most > MAX_FORM_BYTES);
    let bytes = announced(&parts.headers, most);
    if let Some(Err(problem)) = large.map(|site| site.desk().hold(FORM_COPIES * bytes)) {
        return problem.into_response();
    }
    let ours = login::from_our_page(Request::from_parts(parts, body), most);
    let ours = tokio::time::timeout(FORM_WITHIN, ours).await.unwrap_or_else(|_| Err(too_slow()));
    let answer = match ours {
        Ok(request) => next.run(request),
        Err(problem) => return problem.into_response(),
    };
    // Nothing has read the form of a token, or of somebody who is not logged in, so far: the route does.
    if needs == Needs::Nothing {
        return tokio::time::timeout(FORM_WITHIN, answer)
            .await
            .unwrap_or_else(|_| too_slow().into_response());
    }
    match site.filter(|_| needs >= Needs::Role(Role::Operator)) {
        Some(site) => site.desk().complete(answer).await.into_response(),
        None => answer.await,
    }
}

fn too_slow() -> Problem {
    let why = format!("the form did not arrive within {} s", FORM_WITHIN.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "the form is too slow", why)
}

fn may(person: Option<&Person>, needs: Needs, queue: Option<&QueueName>) -> Result<(), Problem> {
    let Needs::Role(role) = needs else { return Ok(()) };
    let Some(person) = person else {
        let why = "log in, or send a token: Authorization: Bearer <token>";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "not logged in", why));
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
