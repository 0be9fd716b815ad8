//! A response whose body is read piece by piece, up to a limit.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::http::response::Parts;

use super::Error;

/// The head of a response, and what of its body has not been read yet.
pub struct Response {
    head: Parts,
    body: Incoming,
}

impl Response {
    pub(super) fn new(response: hyper::Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        Self { head, body }
    }

    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Returns the pause that the server asks for in seconds, but no longer than this.
    pub fn pause(&self, longest: Duration) -> Option<Duration> {
        let seconds: u64 = self.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds).min(longest))
    }

    /// Reads until `into` has `max` bytes or the body ends. The rest of a longer body is left, and the connection is
    /// closed with the response. After an error, `into` has what came before it.
    pub async fn read(&mut self, into: &mut Vec<u8>, max: usize) -> Result<(), Error> {
        while into.len() < max
            && let Some(frame) = self.body.frame().await
        {
            // What is not data is a trailer.
            if let Ok(piece) = frame.map_err(Error::Response)?.into_data() {
                into.extend_from_slice(&piece[..piece.len().min(max - into.len())]);
            }
        }
        Ok(())
    }
}
