//! The payloads of an audit's jobs: which job it is, and what its handler does.

use streamfleet::Submission;
use streamfleet::job::{Encoding, Envelope};

use super::person::number;

/// Returns the payload of a job. Some are so large that they get their own key as soon as a script moves them.
fn payload(mark: &str, orders: &str) -> String {
    let is_large = number(mark).is_multiple_of(6) && orders != "ok";
    let padding =
        if is_large { format!("{}{LAST}", " ".repeat(2 * Envelope::LARGE_BYTES)) } else { String::new() };
    format!("@{mark} {orders}{padding}")
}

/// The last character of a large payload.
const LAST: char = '#';

/// Whether a payload is complete.
pub(crate) fn is_whole(text: &str) -> bool {
    match text.strip_suffix(LAST) {
        Some(large) => large.len() > 2 * Envelope::LARGE_BYTES,
        None => text.len() < 1_000,
    }
}

/// Returns the orders of a payload. Panics if the payload is not complete.
pub(crate) fn orders_of(text: &str) -> &str {
    assert!(is_whole(text), "a payload of {} bytes is incomplete", text.len());
    text.trim_end_matches(LAST).trim_end()
}

/// Returns a job of this type that follows these orders.
pub(crate) fn job(job_type: &str, mark: &str, orders: &str) -> Submission {
    let payload = payload(mark, orders);
    Submission::new(job_type).unwrap().payload(payload, Encoding::Raw).unwrap()
}

/// Returns the fields of an entry with a [`job`].
pub(crate) fn fields(job_type: &str, mark: &str, orders: &str) -> Vec<(String, String)> {
    let own = |name: &str, value: String| (name.to_owned(), value);
    vec![
        own("type", job_type.to_owned()),
        own("payload", payload(mark, orders)),
        own("encoding", "raw".to_owned()),
    ]
}
