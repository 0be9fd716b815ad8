//! The body of a request: JSON of a bounded size that arrives in a bounded time.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::BytesMut;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use streamfleet::job::Encoding;

use super::weight::hold_decoded;
use super::work_limits::SMALL_BYTES;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::problem_kind::ProblemKind;

/// The most bytes of a body: the largest payload, and room for the rest of a job.
pub(super) const MAX_BYTES: usize = (8 << 20) + (1 << 20);

/// How many copies of a body are in memory while its request is answered: as it arrives, as a job, and as what is sent to Redis.
const COPIES: usize = 3;

/// How long a body may take to arrive.
const LONGEST: Duration = Duration::from_secs(60);

/// A body that is JSON of this shape. No body at all is an empty object.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(app, &parts.headers, body).await?;
        if bytes.is_empty() {
            return parse(b"{}").map(Self);
        }
        must_be_json(&parts.headers)?;
        // A payload in it may have to be decoded, for its schema or to become MessagePack.
        hold_decoded(&app.work_limits, (&bytes, Encoding::Json), 1)?;
        parse(&bytes).map(Self)
    }
}

/// Reads a body. The memory of a large one counts.
///
/// # Errors
///
/// [`Problem`] if it is too large or too slow, breaks off, or finds no memory.
pub(super) async fn read(app: &AppState, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let most = announced(headers, MAX_BYTES);
    tokio::time::timeout(LONGEST, collected(app, most, body)).await.unwrap_or_else(|_| {
        let why = format!("the body did not arrive within {} s", LONGEST.as_secs());
        Err(Problem::new(ProblemKind::BodyTooSlow, why))
    })
}

async fn collected(app: &AppState, most: usize, body: Body) -> Result<Bytes, Problem> {
    let (mut pieces, mut read, mut is_held) = (body.into_data_stream(), BytesMut::new(), false);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Problem::new(ProblemKind::BodyBrokeOff, error.to_string()))?;
        read.extend_from_slice(&piece);
        if read.len() > MAX_BYTES {
            let why = format!("the body has more than {MAX_BYTES} bytes");
            return Err(Problem::new(ProblemKind::BodyTooLarge, why));
        }
        if read.len() > SMALL_BYTES && !is_held {
            app.work_limits.hold(COPIES * most)?;
            is_held = true;
        }
    }
    Ok(read.freeze())
}

/// Refuses a body that does not say it is JSON. A form of another site cannot say so.
///
/// # Errors
///
/// [`Problem`].
pub(super) fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    if media_type(headers).is_some_and(|name| name == "application/json") {
        return Ok(());
    }
    let why = "send the body as JSON, with the header Content-Type: application/json";
    Err(Problem::new(ProblemKind::BodyNotJson, why))
}

/// How many bytes a body has, as far as its head tells.
fn announced(headers: &HeaderMap, most: usize) -> usize {
    let said = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    most.min(said.unwrap_or(most))
}

/// What the body is, without parameters such as a character set.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

/// Reads JSON of this shape.
///
/// # Errors
///
/// [`Problem`] that names the field.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let at = pointer(error.path());
        let inner = error.into_inner();
        let problem = Problem::field(at, plain(&inner.to_string()));
        if inner.is_data() { problem } else { problem.with_status(StatusCode::BAD_REQUEST) }
    })?;
    let end = json.end();
    end.map_err(|error| Problem::field("body", error.to_string()).with_status(StatusCode::BAD_REQUEST))?;
    Ok(parsed)
}

/// Reads a text of the body, which has it at this place, by the rule of a type.
///
/// # Errors
///
/// [`Problem`] that names the place.
pub(super) fn from_text<T: FromStr<Err: Display>>(at: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: T::Err| Problem::field(at, error.to_string()))
}

/// Reads a text that the body may leave out.
///
/// # Errors
///
/// The errors of [`from_text`].
pub(super) fn from_any_text<T: FromStr<Err: Display>>(
    at: &str,
    text: Option<&str>,
) -> Result<Option<T>, Problem> {
    text.map(|text| from_text(at, text)).transpose()
}

/// Words what is wrong with JSON without the types of this program.
fn plain(error: &str) -> String {
    let Some((found, rest)) = error.split_once(", expected ") else { return error.to_owned() };
    let (wanted, place) = rest.split_at(rest.find(" at line ").unwrap_or(rest.len()));
    let wanted = match wanted.split(' ').next().unwrap_or_default() {
        // What is found is a list with too few or too many elements, or is named.
        "struct" if found.starts_with("invalid length") => {
            return format!("expected an object, not a list{place}");
        }
        "struct" => "an object",
        "f64" => "a number",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        _ => wanted,
    };
    format!("{found}, expected {wanted}{place}")
}

/// The JSON pointer to a place in the body; `body` for all of it.
fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        let name = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
            Segment::Enum { .. } | Segment::Unknown => continue,
        };
        pointer += &format!("/{name}");
    }
    if pointer.is_empty() { "body".to_owned() } else { pointer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its shape matters")]
    struct Shape {
        #[serde(default)]
        counts: Vec<u8>,
    }

    #[test]
    fn what_is_wrong_with_json_is_said_in_plain_words() {
        for (error, want) in [
            (
                "invalid length 2, expected struct Replay with 10 elements at line 1 column 5",
                "expected an object, not a list at line 1 column 5",
            ),
            (
                "invalid type: string \"x\", expected struct Replay",
                "invalid type: string \"x\", expected an object",
            ),
            (
                "invalid type: string \"5\", expected f64 at line 1 column 9",
                "invalid type: string \"5\", expected a number at line 1 column 9",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "invalid value: integer `-1`, expected a whole number from 0",
            ),
            ("unknown field `a`, expected `b`", "unknown field `a`, expected `b`"),
            ("trailing characters", "trailing characters"),
        ] {
            assert_eq!(plain(error), want);
        }
    }

    #[test]
    fn a_wrong_field_is_named_by_a_json_pointer() {
        let refused = |text: &str| parse::<Shape>(text.as_bytes()).unwrap_err();
        assert!(refused(r#"{"counts": [1, 700]}"#).detail().starts_with("/counts/1: "));
        assert!(refused(r#"{"count": []}"#).detail().contains("unknown field `count`"));
        assert_eq!(refused(r#"{"counts": [1"#).status(), StatusCode::BAD_REQUEST);
        assert_eq!(refused("{} {}").status(), StatusCode::BAD_REQUEST);
        assert_eq!(refused("[1]").status(), StatusCode::UNPROCESSABLE_ENTITY);
    }
}
