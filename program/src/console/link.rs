//! Addresses of pages. Only this file builds them, so that nothing from Redis changes where a link leads.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What may stand in a segment as it is: the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What may stand in a name or a value of the query as it is.
const QUERY: &AsciiSet = &SEGMENT.remove(b'/');

/// An address on this server: a path, and perhaps a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::console) struct Link(String);

impl Link {
    /// The address with these segments.
    ///
    /// Clients remove a segment `.` or `..`, even if it is encoded. It gets a space at its end, which no name has; [`meant`] takes it
    /// away again.
    pub(in crate::console) fn to(segments: &[&str]) -> Self {
        if segments.is_empty() {
            return Self("/".to_owned());
        }
        let written = |segment: &&str| {
            let end = if matches!(*segment, "." | "..") { "%20" } else { "" };
            format!("/{}{end}", utf8_percent_encode(segment, SEGMENT))
        };
        Self(segments.iter().map(written).collect())
    }

    /// A page of a queue.
    pub(in crate::console) fn queue(queue: &str, more: &[&str]) -> Self {
        Self::to(&[&["queues", queue], more].concat())
    }

    /// A job.
    pub(in crate::console) fn job(queue: &str, id: &str) -> Self {
        Self::queue(queue, &["jobs", id])
    }

    /// Adds a parameter to the query.
    pub(in crate::console) fn with(self, name: &str, value: &str) -> Self {
        let sign = if self.0.contains('?') { '&' } else { '?' };
        let (name, value) = (utf8_percent_encode(name, QUERY), utf8_percent_encode(value, QUERY));
        Self(format!("{}{sign}{name}={value}", self.0))
    }

    /// Adds parameters, but those without a value.
    pub(in crate::console) fn with_all(self, pairs: &[(String, String)]) -> Self {
        let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
        pairs.fold(self, |link, (name, value)| link.with(name, value))
    }

    /// The address that a form or a query names, if it is one on this server: a browser must not be sent elsewhere. Browsers
    /// take `//host` and `/\host` for another site.
    pub(in crate::console) fn back(text: &str) -> Option<Self> {
        let is_local = text.starts_with('/') && !text.starts_with("//");
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        (is_local && is_plain && text.len() <= 2000).then(|| Self(text.to_owned()))
    }

    pub(in crate::console) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name that a decoded segment of an address stands for; see [`Link::to`].
pub(in crate::console) fn meant(segment: &str) -> &str {
    match segment {
        ". " => ".",
        ".. " => "..",
        name => name,
    }
}

impl fmt::Display for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_segment_or_value_changes_the_address() {
        let link = Link::job("mail", "a/../b?c#d\"<").with("x", "1&y=2").with("é", "");
        assert_eq!(link.as_str(), "/queues/mail/jobs/a%2F..%2Fb%3Fc%23d%22%3C?x=1%26y%3D2&%C3%A9=");
        assert_eq!(Link::to(&[]).as_str(), "/");
        for (id, address) in [(".", "/queues/mail/jobs/.%20"), ("..", "/queues/mail/jobs/..%20")] {
            assert_eq!(Link::job("mail", id).as_str(), address);
            assert_eq!(meant(&format!("{id} ")), id);
        }
        assert_eq!(["order-7", "..."].map(meant), ["order-7", "..."]);
    }

    #[test]
    fn a_form_leads_back_to_this_server_only() {
        assert!(Link::back("/queues/mail?tab=dead").is_some());
        for elsewhere in ["", "x", "//evil", "/\\evil", "https://evil", "/a\r\nb", "/a b", "/é"] {
            assert_eq!(Link::back(elsewhere), None, "{elsewhere:?}");
        }
    }
}
