//! The handler that sends a POST per job: the payload as the body, the outcome in the status.
//!
//! The configuration fixes the endpoint, and nothing in a job changes it. Redirects are not followed, bodies are read
//! up to a limit and not decompressed, and no proxy is taken from the environment.

mod config;
mod headers;
mod retry_after;

use std::path::Path;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use super::rule::Kind;
use super::verdict::{Answer, TEXT_BYTES, Verdicts};
use super::{Error, output};
use crate::http_client::{self, HttpClient, Response};
use crate::job::{Failure, FailureKind, Retry, RuleAction};
use crate::worker::MAX_RESULT_BYTES;
use crate::{Handler, JobContext, JobError, RawPayload};

pub use config::HttpConfig;

/// How much of an error response's body goes into the error.
const EXCERPT_BYTES: usize = 1024;
/// How long to wait for an error response's body. The status has already decided the outcome.
const EXCERPT_TIME: Duration = Duration::from_secs(1);

/// How long it may take to read a response that arrived before its attempt was cut short.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// Sends a POST per job: the payload as the body, the outcome in the status.
///
/// | answer | outcome |
/// |---|---|
/// | 2xx | done; the body is the result, as JSON if it parses, otherwise as text or base64; none is kept beyond 64 KiB |
/// | 408, 425, 429, 5xx | failed: retried according to the type's policy, not earlier than `Retry-After` |
/// | 502, 504 | the same, and unknown: a gateway lost the response |
/// | none, or an incomplete one | failed and unknown: retried according to the type's policy |
/// | no connection | failed: retried according to the type's policy |
/// | 3xx | fatal: redirects are never followed |
/// | other | fatal: the job is buried at once |
///
/// Unknown means that nobody knows whether the work was done. A step that must not run twice is then
/// [unknown](crate::job::StepState::Unknown); after any other failure it has failed. If no connection was made,
/// nothing was sent.
///
/// [`HttpConfig::rules`] are applied first. They can give statuses and the text of the body other meanings. If a rule
/// reads the body, a response whose body breaks off is incomplete.
///
/// A request has the headers `Content-Type` (by the job's encoding), `Idempotency-Key` (the job's id, or `<id>/<step>`
/// if the job is made of steps, and then also `X-Streamfleet-Step`), `X-Streamfleet-Job-Id`, `-Type`, `-Queue`,
/// `-Attempt` and `-Fence`, `X-Streamfleet-Redelivered`, `traceparent` if the job has one, and
/// `X-Streamfleet-Header-<name>` for each of the job's headers that HTTP allows. Ids are percent-encoded if they
/// contain anything but visible ASCII. Each `Http` has its own connection pool.
#[derive(Debug)]
pub struct Http {
    client: HttpClient,
    url: Url,
    headers: HeaderMap,
    bearer: Option<SecretString>,
    max_retry_after: Duration,
    verdicts: Verdicts,
}

impl Http {
    /// Creates a handler that posts to the configured endpoint. The token's file and the system's root certificates
    /// (for `https`; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others) are read now.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if [`HttpConfig::validate`] finds a problem, [`Error::Bearer`] and [`Error::Client`] if the
    /// files are missing or invalid. Whether the endpoint answers only shows with the first request.
    pub fn open(config: HttpConfig) -> Result<Self, Error> {
        Error::unless_valid(config.validate())?;
        let url = config.endpoint().map_err(Error::invalid)?;
        let fixed = config.headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
        });
        Ok(Self {
            client: HttpClient::open(&url, config.connect_timeout)
                .map_err(|error| Error::Client { source: error.into() })?,
            headers: fixed.collect(),
            bearer: config.bearer_file.as_deref().map(bearer).transpose()?,
            max_retry_after: config.max_retry_after,
            verdicts: Verdicts::new(Kind::Http, &config.rules)?,
            url,
        })
    }

    /// Returns the outcome if the endpoint did not accept the job.
    async fn refused(&self, mut response: Response) -> Result<Value, JobError> {
        let (status, mut body) = (response.status(), Vec::new());
        if self.verdicts.read_text() {
            response.read(&mut body, TEXT_BYTES).await.map_err(unanswered)?;
        } else {
            // Whatever ends the reading, the part that was read is used.
            tokio::time::timeout(EXCERPT_TIME, response.read(&mut body, EXCERPT_BYTES)).await.ok();
        }
        let then = self.verdicts.verdict(answer(status, &body)).unwrap_or_else(|| built_in(status));
        let kind = match then {
            RuleAction::Retry => Some(FailureKind::Error),
            RuleAction::Unknown => Some(FailureKind::Unknown),
            RuleAction::Fatal
            | RuleAction::RetryAfter(_)
            | RuleAction::Snooze(_)
            | RuleAction::Drop
            | RuleAction::Done => None,
        };
        // If the endpoint sends no date, only our own clock is left.
        if let Some(kind) = kind
            && let Some(pause) = retry_after::pause(response.headers(), jiff::Timestamp::now)
        {
            let retry = Retry::After(pause.min(self.max_retry_after));
            return Err(Failure::new(kind, refusal(&response, &body), retry).into());
        }
        then.error(|| refusal(&response, &body)).map_or_else(|| Ok(output::result(&body)), Err)
    }

    /// Returns the outcome of a success, which a rule may turn into something else.
    fn accepted(&self, response: &Response, body: &[u8]) -> Result<Value, JobError> {
        let then = self.verdicts.verdict(answer(response.status(), body)).unwrap_or(RuleAction::Done);
        then.error(|| refusal(response, body)).map_or_else(|| Ok(output::result(body)), Err)
    }
}

fn answer(status: StatusCode, body: &[u8]) -> Answer<'_> {
    Answer { code: Some(status.as_u16().into()), succeeded: status.is_success(), text: body }
}

/// Builds an error text: the status, and the beginning of the body with its line breaks.
fn refusal(response: &Response, body: &[u8]) -> String {
    let status = response.status();
    if status.is_redirection() {
        let target = response.headers().get(LOCATION).map_or(b"nowhere" as &[u8], HeaderValue::as_bytes);
        let target = output::line(&target[..target.len().min(EXCERPT_BYTES)]);
        return format!("the endpoint answered {status} to {target}; redirects are not followed");
    }
    match output::lines(&body[..body.len().min(EXCERPT_BYTES)]).as_str() {
        "" => format!("the endpoint answered {status}"),
        text => format!("the endpoint answered {status}: {text}"),
    }
}

impl Handler for Http {
    type Payload = RawPayload;
    type Output = Value;

    // An attempt that is cut short is dropped after its grace, which closes the connection.
    async fn run(&self, RawPayload(payload): RawPayload, context: JobContext) -> Result<Value, JobError> {
        let mut headers = self.headers.clone();
        headers.extend(headers::of(&context));
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, authorization(bearer)?);
        }
        let mut response = self.client.post(&self.url, headers, payload).await.map_err(unanswered)?;
        if !response.status().is_success() {
            return self.refused(response).await;
        }
        let mut body = Vec::new();
        response.read(&mut body, MAX_RESULT_BYTES).await.map_err(unanswered)?;
        self.accepted(&response, &body)
    }

    /// A response that is on its way when the attempt is cut short is still read: this process may have been
    /// frozen while the response arrived.
    fn grace(&self) -> Duration {
        ON_ITS_WAY
    }
}

/// Returns the outcome of an error response that no rule matches.
fn built_in(status: StatusCode) -> RuleAction {
    match status {
        // The server behind the gateway may have done the work.
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => RuleAction::Unknown,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            RuleAction::Retry
        }
        _ if status.is_server_error() => RuleAction::Retry,
        _ => RuleAction::Fatal,
    }
}

/// Builds the error for a missing or incomplete response. Unless nothing was sent, nobody knows what the endpoint did.
fn unanswered(error: http_client::Error) -> JobError {
    let sent_nothing = error.sent_nothing();
    let failure = JobError::from(error);
    if sent_nothing { failure } else { failure.and_unknown() }
}

fn bearer(path: &Path) -> Result<SecretString, Error> {
    let failed = |source| Error::Bearer { path: path.display().to_string(), source };
    let token = std::fs::read_to_string(path).map_err(failed)?;
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(failed(std::io::Error::other(
            "the file must hold one token of visible ASCII characters",
        )));
    }
    Ok(SecretString::from(token))
}

fn authorization(bearer: &SecretString) -> Result<HeaderValue, JobError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", bearer.expose_secret()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
