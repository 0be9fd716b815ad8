//! Who asks, and what they may do.

mod person;
mod role;

use axum::Router;
use axum::extract::{RawPathParams, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use streamfleet::job::QueueName;

pub(super) use self::person::{Grants, Person};
pub(super) use self::role::{Needs, Role};
use super::problem::Problem;
use super::routes::Routes;
use super::site::Site;

/// The routes to log in and out.
pub(super) fn routes() -> Routes {
    Routes::default()
}

/// Puts what every request must pass in front of the routes.
pub(super) fn protected(router: Router<Site>, site: &Site) -> Router<Site> {
    router.layer(from_fn_with_state(site.clone(), identified))
}

/// Finds out who asks. Handlers get the `Person` from the request's extensions.
async fn identified(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Person::local());
    next.run(request).await
}

/// Lets a request pass if the person who asks may do what the route needs, on the queue that its path names.
pub(super) async fn guard(needs: Needs, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let queue = match queue_of(&mut parts).await {
        Ok(queue) => queue,
        Err(problem) => return problem.into_response(),
    };
    let person = parts.extensions.get::<Person>();
    match may(person, needs, queue.as_ref()) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    }
}

fn may(person: Option<&Person>, needs: Needs, queue: Option<&QueueName>) -> Result<(), Problem> {
    let Needs::Role(role) = needs else { return Ok(()) };
    let Some(person) = person else {
        let why = "log in, or send a token in the header Authorization";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "not logged in", why));
    };
    person.check(role, queue)
}

/// The queue that the path names, if it names one.
async fn queue_of(parts: &mut axum::http::request::Parts) -> Result<Option<QueueName>, Problem> {
    use axum::extract::FromRequestParts as _;
    let Ok(parameters) = RawPathParams::from_request_parts(parts, &()).await else { return Ok(None) };
    let named = parameters.iter().find(|(name, _)| *name == "queue");
    let parsed = named.map(|(_, value)| value.parse::<QueueName>());
    parsed.transpose().map_err(|error| Problem::field("path.queue", error.to_string()))
}
