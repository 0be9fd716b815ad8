//! The pages, for people.

use std::time::Duration;

use axum::response::{Html, IntoResponse as _, Response};

use super::routes::Routes;

/// The routes of the pages.
pub(super) fn routes() -> Routes {
    Routes::default()
}

/// What the login page says above its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginRemark {
    /// Name or password were wrong.
    Wrong,
    /// There were too many attempts.
    Wait(Duration),
    /// Nobody has a password; the console printed a link.
    UseLink,
}

/// The page to log in, and then to go to `next`, a path of this console.
pub(super) fn login(next: &str, remark: Option<LoginRemark>) -> Response {
    Html(format!("{next} {remark:?}")).into_response()
}
