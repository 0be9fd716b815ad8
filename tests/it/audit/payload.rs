//! The payloads of an audit's jobs: who they are, and what they are to do.

use streamfleet::Submission;
use streamfleet::job::{Encoding, Envelope};

use super::person::number;

/// What a job is to do. That of some is so large that it has a key of its own as soon as a script moves it.
fn payload(mark: &str, orders: &str) -> String {
    let is_large = number(mark).is_multiple_of(6) && orders != "ok";
    let padding =
        if is_large { format!("{}{LAST}", " ".repeat(2 * Envelope::LARGE_BYTES)) } else { String::new() };
    format!("@{mark} {orders}{padding}")
}

/// The last character of a large payload.
const LAST: char = '#';

/// Whether nothing is missing at its end.
pub(crate) fn is_whole(text: &str) -> bool {
    match text.strip_suffix(LAST) {
        Some(large) => large.len() > 2 * Envelope::LARGE_BYTES,
        None => text.len() < 1_000,
    }
}

/// The orders of a payload, which is whole.
pub(crate) fn orders_of(text: &str) -> &str {
    assert!(is_whole(text), "a payload has {} bytes", text.len());
    text.trim_end_matches(LAST).trim_end()
}

/// A job of the test's type that does this.
pub(crate) fn job(job_type: &str, mark: &str, orders: &str) -> Submission {
    let payload = payload(mark, orders);
    Submission::new(job_type).unwrap().payload(payload, Encoding::Raw).unwrap()
}

/// The same as [`job`], as fields of an entry.
pub(crate) fn fields(job_type: &str, mark: &str, orders: &str) -> Vec<(String, String)> {
    let own = |name: &str, value: String| (name.to_owned(), value);
    vec![
        own("type", job_type.to_owned()),
        own("payload", payload(mark, orders)),
        own("encoding", "raw".to_owned()),
    ]
}
