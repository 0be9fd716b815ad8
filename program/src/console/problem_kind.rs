//! The kinds of problems: what a client knows a problem by, whatever words it has for it.

use axum::http::StatusCode;

/// Declares the kinds: each with the status of its answers, its title and the end of its URN, which is the title with hyphens.
macro_rules! kinds {
    ($($kind:ident = $status:ident, $title:literal, $end:literal;)+) => {
        /// What kind of problem it is. A kind that was published stays as it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum ProblemKind {
            $(#[doc = $title] $kind,)+
        }

        impl ProblemKind {
            /// All of them.
            pub(super) const ALL: [Self; [$($title),+].len()] = [$(Self::$kind),+];

            /// The status of an answer, unless the problem has another one.
            pub(super) fn status(self) -> StatusCode {
                match self {
                    $(Self::$kind => StatusCode::$status,)+
                }
            }

            /// The kind in a few words.
            pub(super) fn title(self) -> &'static str {
                match self {
                    $(Self::$kind => $title,)+
                }
            }

            /// Its name for programs.
            pub(super) fn urn(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!("urn:streamfleet:problem:", $end),)+
                }
            }
        }
    };
}

kinds! {
    FieldNotValid = UNPROCESSABLE_ENTITY, "a field is not valid", "a-field-is-not-valid";
    RequestNotValid = UNPROCESSABLE_ENTITY, "the request is not valid", "the-request-is-not-valid";
    PathNotValid = BAD_REQUEST, "the path is not valid", "the-path-is-not-valid";
    MethodNotAllowed = METHOD_NOT_ALLOWED, "the method is not allowed", "the-method-is-not-allowed";
    JobNotValid = UNPROCESSABLE_ENTITY, "the job is not valid", "the-job-is-not-valid";
    BodyNotJson = UNSUPPORTED_MEDIA_TYPE, "the body is not JSON", "the-body-is-not-JSON";
    BodyNotReadable = BAD_REQUEST, "the body is not readable", "the-body-is-not-readable";
    BodyTooLarge = PAYLOAD_TOO_LARGE, "the body is too large", "the-body-is-too-large";
    BodyTooSlow = REQUEST_TIMEOUT, "the body is too slow", "the-body-is-too-slow";
    BodyBrokeOff = BAD_REQUEST, "the body broke off", "the-body-broke-off";
    NotLoggedIn = UNAUTHORIZED, "not logged in", "not-logged-in";
    TokenNotValid = UNAUTHORIZED, "the token is not valid", "the-token-is-not-valid";
    NotAllowed = FORBIDDEN, "not allowed", "not-allowed";
    NotFromHere = FORBIDDEN, "not from this console", "not-from-this-console";
    UnknownHost = MISDIRECTED_REQUEST, "unknown host", "unknown-host";
    NotFound = NOT_FOUND, "not found", "not-found";
    Conflict = CONFLICT, "conflict", "conflict";
    Changed = PRECONDITION_FAILED, "it has changed", "it-has-changed";
    TooManyRequests = TOO_MANY_REQUESTS, "too many requests", "too-many-requests";
    TooManyJobs = SERVICE_UNAVAILABLE, "too many jobs", "too-many-jobs";
    QueueFull = TOO_MANY_REQUESTS, "the queue is full", "the-queue-is-full";
    TooLarge = PAYLOAD_TOO_LARGE, "too large for the console", "too-large-for-the-console";
    NotConfirmed = GATEWAY_TIMEOUT, "the durability is not confirmed", "the-durability-is-not-confirmed";
    OutcomeUnknown = SERVICE_UNAVAILABLE, "the outcome is not known", "the-outcome-is-not-known";
    RedisFailed = SERVICE_UNAVAILABLE, "redis failed", "redis-failed";
    DatabaseFailed = SERVICE_UNAVAILABLE, "the database failed", "the-database-failed";
    AnswerNotWritten = INTERNAL_SERVER_ERROR, "the answer cannot be written", "the-answer-cannot-be-written";
    RequestFailed = INTERNAL_SERVER_ERROR, "the request failed", "the-request-failed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_its_title_for_a_name() {
        for kind in ProblemKind::ALL {
            let end = kind.title().replace(' ', "-");
            assert_eq!(kind.urn(), format!("urn:streamfleet:problem:{end}"));
        }
    }
}
