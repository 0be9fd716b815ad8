//! What went wrong, as a page.

use askama::Template;
use axum::extract::Request;
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::frame::Frame;
use super::login::Login;
use crate::console::problem::Problem;

/// The paths of programs: they get problems as JSON.
const FOR_PROGRAMS: [&str; 3] = ["/api/", "/assets/", "/healthz"];

#[derive(Template)]
#[template(path = "failure.html")]
struct Failure<'a> {
    frame: &'a Frame,
    title: &'a str,
    detail: &'a str,
    needs_login: bool,
}

/// Shows problems to people as pages. What a handler or a rule answered stays as it is otherwise.
pub(in crate::console) async fn readable(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if FOR_PROGRAMS.iter().any(|start| path.starts_with(start)) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let frame = Frame::of(&parts);
    let response = next.run(Request::from_parts(parts, body)).await;
    if let Some(login) = response.extensions().get::<Login>() {
        return like(&response, response.status(), login.page(&frame));
    }
    let Some(problem) = response.extensions().get::<Problem>() else { return response };
    let (status, title) = (problem.status(), named(&frame, problem.status()));
    let needs_login = status == StatusCode::UNAUTHORIZED;
    let failure = Failure { frame: &frame, title, detail: problem.detail(), needs_login };
    like(&response, status, frame.page(title, None, &failure))
}

/// A page in place of an answer. Whatever else the answer says, such as when to try again, the page says, too.
fn like(response: &Response, status: StatusCode, mut page: Response) -> Response {
    *page.status_mut() = status;
    let is_about_body = |name: &HeaderName| *name == header::CONTENT_TYPE || *name == header::CONTENT_LENGTH;
    for (name, value) in response.headers().iter().filter(|(name, _)| !is_about_body(name)) {
        page.headers_mut().append(name.clone(), value.clone());
    }
    page
}

/// Nothing has this address.
pub(in crate::console) async fn nowhere() -> Problem {
    Problem::not_found("no page has this address")
}

fn named(frame: &Frame, status: StatusCode) -> &'static str {
    frame.t(match status.as_u16() {
        401 => "failure.unknown",
        403 => "failure.forbidden",
        404 => "failure.missing",
        409 | 412 => "failure.changed",
        422 | 400 => "failure.invalid",
        503 => "failure.redis",
        _ => "failure.other",
    })
}
