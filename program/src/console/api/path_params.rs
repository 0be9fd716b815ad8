//! The parameters of a request's path.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use streamfleet::Queue;

use super::link;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;

/// The parameters of a request's path, decoded.
pub(super) struct PathParams(Vec<(String, String)>);

impl PathParams {
    /// The parameter of this name.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter, if its value breaks the rule for it.
    pub(super) fn get<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Problem> {
        let value = self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
        link::meant(value)
            .parse()
            .map_err(|error: T::Err| Problem::field(format!("path.{name}"), error.to_string()))
    }

    /// The queue.
    ///
    /// # Errors
    ///
    /// The errors of [`PathParams::get`].
    pub(super) fn queue(&self, app: &AppState) -> Result<Queue, Problem> {
        Ok(app.queue(self.get("queue")?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let raw = RawPathParams::from_request_parts(parts, state).await.map_err(|error| {
            Problem::new(StatusCode::BAD_REQUEST, "the path is not valid", error.body_text())
        })?;
        Ok(Self(raw.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }
}
