//! What went wrong, as a problem document of [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457).

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use streamfleet::RedisError;

use super::field_error::FieldError;
use super::problem_kind::ProblemKind;

/// What went wrong with a request.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(examples(json!({
    "type": "urn:streamfleet:problem:a-field-is-not-valid",
    "title": "a field is not valid",
    "status": 422,
    "detail": "query.limit: it must be a number from 1 to 500",
    "errors": [{
        "at": "query.limit", "code": "range", "values": {"least": "1", "most": "500"},
        "detail": "it must be a number from 1 to 500",
    }]
})))]
pub(super) struct Problem {
    /// Names the kind of problem. It never changes.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status of the answer.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = u16, minimum = 400, maximum = 599)]
    status: StatusCode,
    /// What kind of problem it is, in a few words that never change.
    title: &'static str,
    /// What was wrong in this request, and what to do.
    detail: String,
    /// The fields that were wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// After how many seconds to try again.
    #[serde(skip)]
    retry_after: Option<u64>,
}

impl Problem {
    /// A problem of this kind.
    pub(super) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let (status, kind, title) = (kind.status(), kind.urn(), kind.title());
        Self { kind, status, title, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    /// One field of the request is wrong.
    pub(super) fn field(at: impl Into<String>, detail: impl Into<String>) -> Self {
        let error = FieldError::new(at, detail);
        let line = error.line();
        Self::fields(vec![error], line)
    }

    /// Several fields of the request are wrong.
    pub(super) fn fields(errors: Vec<FieldError>, detail: impl Into<String>) -> Self {
        let problem = Self::new(ProblemKind::FieldNotValid, detail);
        Self { errors, ..problem }
    }

    /// Sets the status.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Sets after how many seconds the request may be sent again.
    pub(super) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// There is too much to do right now. Nothing was done.
    pub(super) fn busy(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::TooManyRequests, detail).retry_after(1)
    }

    /// Something changed in the meantime, or is not in the state that the request needs. Nothing was done.
    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Conflict, detail)
    }

    /// What was asked for does not exist.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::NotFound, detail)
    }

    /// Redis is unreachable, or refused the request. What was asked may or may not have been done.
    pub(super) fn redis(what: &str, error: &RedisError) -> Self {
        tracing::warn!(what, %error, "redis did not do what the console asked for");
        Self::new(ProblemKind::RedisFailed, format!("{what}: {error}"))
    }

    /// The database is unreachable, or refused the request.
    pub(super) fn database(what: &str, error: &streamfleet_sql::Error) -> Self {
        tracing::warn!(what, %error, "a database did not do what the console asked for");
        let detail = format!("{what}: {error}");
        Self::new(ProblemKind::DatabaseFailed, detail)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, Json(&self)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn as_number<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}
