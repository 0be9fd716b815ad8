//! Answers line by line, while a search goes on: what it has found so far is never lost, and how far it is stays known.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, stream};
use serde::Serialize;

use super::Problem;

/// How long a search may take. Its last line says where to go on.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// The media type of the answer.
const LINES: &str = "application/x-ndjson";

/// A search whose answer a client reads line by line.
pub(super) trait Reading: Sized + Send + 'static {
    /// A line, which may say what went wrong.
    type Line: Serialize + From<Problem>;

    /// Adds the next lines to the text. Returns whether they are the last ones.
    ///
    /// # Errors
    ///
    /// [`Problem`], which is then the last line.
    fn look(&mut self, text: &mut Vec<u8>) -> impl Future<Output = Result<bool, Problem>> + Send;
}

/// Whether a client wants an answer line by line.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut names = accepted.flat_map(|value| value.split(',')).filter_map(|part| part.split(';').next());
    names.any(|name| name.trim().eq_ignore_ascii_case(LINES))
}

/// Answers with the lines of a search as it finds them.
pub(super) fn answer<R: Reading>(reading: R) -> Response {
    let lines = stream::unfold(Some(reading), |reading| async move {
        let (mut reading, mut text) = (reading?, Vec::new());
        let is_last = match reading.look(&mut text).await {
            Ok(is_last) => is_last,
            Err(problem) => {
                write(&mut text, &R::Line::from(problem));
                true
            }
        };
        Some((Ok::<_, Infallible>(Bytes::from(text)), (!is_last).then_some(reading)))
    });
    lines_of(lines)
}

/// An answer line by line.
pub(super) fn lines_of<E>(lines: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Response
where
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    ([(header::CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response()
}

/// Adds a line.
pub(super) fn write(text: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *text, line).expect("a line has only texts for keys");
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_client_that_names_the_type_gets_lines() {
        for (accepted, is_named) in [
            ("application/x-ndjson", true),
            ("text/html, Application/X-NDJSON;q=0.9", true),
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("application/x-ndjsonp", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
            assert_eq!(is_wanted(&headers), is_named, "{accepted}");
        }
    }
}
