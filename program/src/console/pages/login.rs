//! The page to log in. `access` decides; this only shows.

use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};

use super::frame::Frame;
use crate::times::short;

/// What the login page says above its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) enum LoginRemark {
    /// Name or password were wrong.
    Wrong,
    /// There were too many attempts.
    Wait(Duration),
    /// Nobody has a password; the console printed a link.
    UseLink,
}

/// What the page shows. It travels in the extensions of an answer, until the language of the page is known.
#[derive(Debug, Clone)]
pub(super) struct Login {
    next: String,
    remark: Option<LoginRemark>,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    frame: &'a Frame,
    next: &'a str,
    remark: Option<String>,
    has_form: bool,
}

/// The page to log in, and then to go to `next`, a path of this console.
pub(in crate::console) fn login(next: &str, remark: Option<LoginRemark>) -> Response {
    let mut response = StatusCode::OK.into_response();
    response.extensions_mut().insert(Login { next: next.to_owned(), remark });
    response
}

impl Login {
    /// Renders the page.
    pub(super) fn page(&self, frame: &Frame) -> Response {
        let remark = self.remark.map(|remark| match remark {
            LoginRemark::Wrong => frame.t("login.wrong").to_owned(),
            LoginRemark::Wait(time) => frame.fill("login.wait", &[("time", &short(time))]),
            LoginRemark::UseLink => frame.t("login.use_link").to_owned(),
        });
        let has_form = self.remark != Some(LoginRemark::UseLink);
        frame.page(frame.t("login.title"), None, &LoginPage { frame, next: &self.next, remark, has_form })
    }
}
