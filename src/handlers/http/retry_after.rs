//! `Retry-After` (RFC 9110, 10.2.3): seconds, or a date.

use std::time::Duration;

use hyper::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Returns how long the endpoint asks to be left alone. A date is compared with the endpoint's own clock if the
/// response has one; `now` is only called otherwise. A date in the past is zero, and an invalid value is `None`.
pub(super) fn pause(headers: &HeaderMap, now: impl FnOnce() -> Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = date(headers, &RETRY_AFTER)?;
    let now = date(headers, &DATE).unwrap_or_else(now);
    Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(headers.get(name)?.to_str().ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const NOON: &str = "Sun, 06 Nov 1994 12:00:00 GMT";

    fn pause_of(retry_after: &str, date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(retry_after).unwrap());
        headers.extend(date.map(|date| (DATE, HeaderValue::from_str(date).unwrap())));
        pause(&headers, || "1994-11-06T11:59:00Z".parse().unwrap())
    }

    #[test]
    fn seconds_are_seconds_however_many() {
        assert_eq!(pause_of("120", None), Some(Duration::from_secs(120)));
        assert_eq!(pause_of("99999999999999999999999", None), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn a_date_is_compared_with_the_endpoints_clock_and_else_with_ours() {
        assert_eq!(pause_of(NOON, Some("Sun, 06 Nov 1994 11:59:30 GMT")), Some(Duration::from_secs(30)));
        assert_eq!(pause_of(NOON, None), Some(Duration::from_secs(60)));
        assert_eq!(pause_of(NOON, Some("yesterday")), Some(Duration::from_secs(60)));
        assert_eq!(pause_of(NOON, Some("Sun, 06 Nov 1994 12:00:01 GMT")), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_neither_seconds_nor_a_date_is_ignored() {
        for text in ["", "soon", "-5", "1.5", "Mon, 06 Nov 1994 12:00:00 GMT"] {
            assert_eq!(pause_of(text, None), None, "{text}");
        }
        assert_eq!(pause(&HeaderMap::new(), || unreachable!("no header, no clock")), None);
    }
}
