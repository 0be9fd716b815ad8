//! What a handler gets of a request, and what it answers with. What a person may see of an answer is in `privacy`.

use std::fmt::Display;
use std::str::FromStr;

use axum::Json;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde::Serialize;
use serde_json::Value;
use streamfleet::Queue;
use streamfleet_engine::admin::Noted;
use streamfleet_operations::{Actor, Error, List};

use super::failure::done;
use super::{link, names};
use crate::console::access::Person;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::problem_kind::ProblemKind;

/// What most handlers answer with: JSON, as far as the person may see it.
pub(super) type Answer = Result<Json<Value>, Problem>;

/// A request to a handler: who asks, and what its path names.
pub(super) struct Call {
    pub(super) app: AppState,
    pub(super) person: Person,
    /// The parameters of the path, decoded.
    path: Vec<(String, String)>,
}

impl Call {
    /// The parameter of the path with this name.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter, if its value breaks the rule for it.
    pub(super) fn path<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Problem> {
        let value = self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
        link::meant(value)
            .parse()
            .map_err(|error: T::Err| Problem::field(format!("path.{name}"), error.to_string()))
    }

    /// The queue that the path names.
    ///
    /// # Errors
    ///
    /// The errors of [`Call::path`].
    pub(super) fn queue(&self) -> Result<Queue, Problem> {
        Ok(self.app.queue(self.path("queue")?))
    }

    /// The person who does something for this reason, for the audit.
    pub(super) fn actor(&self, reason: &str) -> Actor {
        Actor::new(self.person.name(), reason)
    }

    /// Answers with what this person may see of a shape.
    ///
    /// # Errors
    ///
    /// The errors of [`Call::value`].
    pub(super) fn answer(&self, shape: &impl Serialize) -> Answer {
        self.value(shape).map(Json)
    }

    /// Answers with what an operation has done.
    ///
    /// # Errors
    ///
    /// [`Problem`] if the operation failed, or that of [`Call::answer`].
    pub(super) fn done<T: Serialize>(&self, outcome: Result<Noted<T>, Error>) -> Answer {
        self.answer(&done(outcome)?)
    }

    /// Answers with a list of a queue. An empty one may be of a queue that does not exist.
    ///
    /// # Errors
    ///
    /// [`Problem`] if there is no such queue, or that of [`Call::answer`].
    pub(super) async fn list<T: Serialize, F: Serialize>(&self, queue: &Queue, page: &List<T, F>) -> Answer {
        if page.items.is_empty() {
            names::must_have(&self.app, queue.name()).await?;
        }
        self.answer(page)
    }
}

impl FromRequestParts<AppState> for Call {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let person = Person::from_request_parts(parts, app).await?;
        let raw = RawPathParams::from_request_parts(parts, app)
            .await
            .map_err(|error| Problem::new(ProblemKind::PathNotValid, error.body_text()))?;
        let path = raw.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Self { app: app.clone(), person, path })
    }
}
