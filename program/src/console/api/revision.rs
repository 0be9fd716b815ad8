//! Revisions of what can be edited: the header `ETag` of an answer, and the header `If-Match` of a change.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use streamfleet_engine::admin::{DeadLetter, DelayedJob};

use super::{Problem, ProblemKind};
use crate::console::app_state::AppState;

/// A revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Revision(String);

impl Revision {
    /// The revision of a delayed job. Those who may not see its fields cannot guess them by it.
    pub(super) fn of_job(job: &DelayedJob, app: &AppState) -> Self {
        Self(format!("\"{}\"", app.gatekeeper.revision(&job.revision())))
    }

    /// The revision of a letter. A letter never changes: an edited one is another entry.
    pub(super) fn of_letter(letter: &DeadLetter) -> Self {
        Self(format!("\"{}\"", letter.entry))
    }

    /// The value of the header `ETag`.
    pub(super) fn header(&self) -> HeaderValue {
        HeaderValue::try_from(&self.0).expect("Base64, ids of entries and quotes are allowed in headers")
    }
}

/// The revisions that a change may be based on.
pub(super) struct IfMatch(Option<String>);

impl IfMatch {
    /// Returns true if the request has the header.
    pub(super) fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses the change if it is based on another revision. Without the header, it is based on any.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 412.
    pub(super) fn check(&self, present: &Revision) -> Result<(), Problem> {
        let Some(wanted) = &self.0 else { return Ok(()) };
        let mut named = wanted.split(',').map(str::trim);
        // Weak revisions never match here.
        if named.any(|revision| revision == "*" || revision == present.0) { Ok(()) } else { Err(changed()) }
    }
}

/// What the change is based on has changed.
pub(super) fn changed() -> Problem {
    Problem::new(
        ProblemKind::Changed,
        "somebody else changed it since it was read: read it again, then send the change with the new ETag in If-Match",
    )
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut values = Vec::new();
        for value in parts.headers.get_all(header::IF_MATCH) {
            let text = value.to_str().map_err(|_| {
                Problem::field("header.If-Match", "it must have the ETag of an earlier answer")
            })?;
            values.push(text);
        }
        Ok(Self((!values.is_empty()).then(|| values.join(","))))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn a_change_must_be_based_on_the_present_revision() {
        let [old, new] = ["old", "new"].map(|name| Revision(format!("\"{name}\"")));
        let based = |text: &str| IfMatch(Some(text.to_owned())).check(&new);
        assert!(based(&new.0).is_ok() && based("*").is_ok());
        assert!(based(&format!("{}, {}", old.0, new.0)).is_ok());
        assert!(IfMatch(None).check(&new).is_ok());
        for other in [&old.0[..], "", &format!("W/{}", new.0)] {
            assert_eq!(based(other).unwrap_err().status(), StatusCode::PRECONDITION_FAILED, "{other}");
        }
    }
}
