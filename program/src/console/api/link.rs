//! Addresses of what an answer tells about. Only this file builds them, so that nothing from Redis changes where a link leads.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What may stand in a segment as it is: the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The address of the API with these segments.
///
/// Clients remove a segment `.` or `..`, even if it is encoded. It gets a space at its end, which no name has; [`meant`] takes it
/// away again.
pub(super) fn to(segments: &[&str]) -> String {
    let mut address = "/api/v1".to_owned();
    for segment in segments {
        let end = if matches!(*segment, "." | "..") { "%20" } else { "" };
        address += &format!("/{}{end}", utf8_percent_encode(segment, SEGMENT));
    }
    address
}

/// The name that a decoded segment of an address stands for; see [`to`].
pub(super) fn meant(segment: &str) -> &str {
    match segment {
        ". " => ".",
        ".. " => "..",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_segment_changes_the_address() {
        let address = |id| to(&["queues", "mail", "jobs", id]);
        assert_eq!(address("a/../b?c#d\"<é"), "/api/v1/queues/mail/jobs/a%2F..%2Fb%3Fc%23d%22%3C%C3%A9");
        for (id, written) in [(".", ".%20"), ("..", "..%20")] {
            assert_eq!(address(id), format!("/api/v1/queues/mail/jobs/{written}"));
            assert_eq!(meant(&format!("{id} ")), id);
        }
        assert_eq!(["order-7", "..."].map(meant), ["order-7", "..."]);
    }
}
