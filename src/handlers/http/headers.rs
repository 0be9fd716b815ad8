//! The headers that tell an endpoint about its job. Text from a producer can never add a header or end one.

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::JobContext;
use crate::handlers::attempt;
use crate::job::Encoding;

const OWN_PREFIX: &str = "x-streamfleet-";
const JOB_PREFIX: &str = "x-streamfleet-job-";
const CARRIED_PREFIX: &str = "x-streamfleet-header-";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const STEP: HeaderName = HeaderName::from_static("x-streamfleet-step");
const REDELIVERED: HeaderName = HeaderName::from_static("x-streamfleet-redelivered");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What is escaped in a header: everything that cannot be seen, and what begins an escape.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// What is escaped in an idempotency key.
const KEY_ESCAPED: &AsciiSet = &ESCAPED.add(b'/');

/// Returns true for a header that the configuration must not set: the handler's own headers, and those that frame a
/// request.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    let own = [
        IDEMPOTENCY_KEY,
        TRACEPARENT,
        TRACESTATE,
        CONTENT_TYPE,
        CONTENT_LENGTH,
        TRANSFER_ENCODING,
        CONNECTION,
    ];
    own.contains(name) || name.as_str().starts_with(OWN_PREFIX)
}

/// Returns the headers of one attempt.
pub(super) fn of(context: &JobContext) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in context.headers().filter(|(name, _)| !name.is_empty()) {
        // Names and values that HTTP does not allow are left out. A value may be any UTF-8 without control characters.
        // Of several equal names the first counts, as in the context.
        let name = HeaderName::from_bytes(format!("{CARRIED_PREFIX}{name}").as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.entry(name).or_insert(value);
        }
    }
    for (name, value) in attempt::facts(context) {
        let name = HeaderName::from_bytes(format!("{JOB_PREFIX}{name}").as_bytes());
        headers.insert(name.expect("a fact's name is made of letters"), escaped(&value));
    }
    headers.insert(IDEMPOTENCY_KEY, idempotency_key(context));
    if let Some(step) = context.step() {
        headers.insert(STEP, escaped(step.as_str()));
    }
    headers.insert(
        REDELIVERED,
        HeaderValue::from_static(if context.is_redelivered() { "true" } else { "false" }),
    );
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(context.encoding())));
    if let Some(traceparent) = attempt::traceparent(context) {
        headers.insert(TRACEPARENT, escaped(traceparent));
        // Visible ASCII and spaces, which need no escape.
        let state = context.tracestate().and_then(|state| HeaderValue::from_str(state).ok());
        headers.extend(state.map(|state| (TRACESTATE, state)));
    }
    headers
}

/// The key by which an endpoint recognizes a repeated request: the job's id, and the step's name if the job has steps. A slash in an
/// id is escaped, so that no job has the key of a step of another one.
fn idempotency_key(context: &JobContext) -> HeaderValue {
    let id = utf8_percent_encode(&context.id().to_string(), KEY_ESCAPED).to_string();
    let key = context.step().map_or_else(|| id.clone(), |step| format!("{id}/{step}"));
    HeaderValue::from_str(&key).expect("visible ASCII is valid in a header")
}

fn content_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "application/json",
        Encoding::Msgpack => "application/msgpack",
        Encoding::Raw => "application/octet-stream",
    }
}

/// Percent-encodes everything that is not visible ASCII, and the percent sign, so that different texts stay different.
fn escaped(text: &str) -> HeaderValue {
    let value = utf8_percent_encode(text, ESCAPED).to_string();
    HeaderValue::from_str(&value).expect("visible ASCII is valid in a header")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context;
    use proptest::prelude::*;

    fn sent(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        let text = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
        of(&context(fields)).iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    fn value(fields: &[(&str, &str)], name: &str) -> Option<String> {
        sent(fields).into_iter().find(|(header, _)| header == name).map(|(_, value)| value)
    }

    #[test]
    fn a_plain_job_has_exactly_these_headers() {
        let mut headers = sent(&[]);
        headers.sort();
        let expected = [
            ("content-type", "application/json"),
            ("idempotency-key", "1700-3"),
            ("x-streamfleet-job-attempt", "1"),
            ("x-streamfleet-job-fence", "1700-3"),
            ("x-streamfleet-job-id", "1700-3"),
            ("x-streamfleet-job-queue", "mail"),
            ("x-streamfleet-job-type", "report"),
            ("x-streamfleet-redelivered", "false"),
        ];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn each_step_of_a_job_has_an_idempotency_key_of_its_own() {
        let headers = of(&context(&[]).with_step("charge"));
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(
            (text("idempotency-key"), text("x-streamfleet-step")),
            (Some("1700-3/charge"), Some("charge"))
        );
    }

    #[test]
    fn no_job_has_the_idempotency_key_of_a_step_of_another_one() {
        let fields = [("id", "1700-3/charge")];
        assert_eq!(value(&fields, "idempotency-key").unwrap(), "1700-3%2Fcharge");
        assert_eq!(value(&fields, "x-streamfleet-job-id").unwrap(), "1700-3/charge");
    }

    #[test]
    fn the_content_type_follows_the_encoding() {
        let of = |encoding| value(&[("encoding", encoding)], "content-type").unwrap();
        assert_eq!(
            ["json", "msgpack", "raw"].map(of),
            ["application/json", "application/msgpack", "application/octet-stream"]
        );
    }

    #[test]
    fn job_ids_of_any_letters_are_percent_encoded_and_stay_different() {
        assert_eq!(value(&[("id", "ü%1")], "idempotency-key").unwrap(), "%C3%BC%251");
        assert_eq!(value(&[("id", "%C3%BC%1")], "idempotency-key").unwrap(), "%25C3%25BC%251");
    }

    #[test]
    fn valid_headers_of_the_job_are_sent() {
        let fields = [
            ("h.tenant", "acme"),
            ("h.tenant", "second"),
            ("h.a b", "x"),
            ("h.", "empty name"),
            ("h.x\r\ny", "x"),
            ("h.split", "x\r\nx-admin: 1"),
            ("h.nul", "a\0b"),
            ("h.del", "\x7f"),
            ("h.name", "Müller"),
            ("traceparent", "00-\r\nx: y"),
        ];
        let headers = sent(&fields);
        let carried = headers
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(CARRIED_PREFIX)?, value.as_str())));
        assert_eq!(carried.collect::<Vec<_>>(), [("tenant", "acme"), ("name", "Müller")]);
        assert!(headers.iter().all(|(name, value)| name != "traceparent" && !value.contains(['\r', '\n'])));
    }

    #[test]
    fn a_repeated_job_is_marked_in_the_headers() {
        assert_eq!(value(&[("lost", "1")], "x-streamfleet-redelivered").unwrap(), "true");
        assert_eq!(value(&[("traceparent", "00-ab-cd-01")], "traceparent").unwrap(), "00-ab-cd-01");
    }

    #[test]
    fn a_tracestate_is_sent_beside_a_valid_traceparent_if_it_keeps_the_standard() {
        let parent = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let sent = |fields: &[(&str, &str)]| value(fields, "tracestate");
        assert_eq!(sent(&[parent, ("h.tracestate", "a=x y,b=2")]).as_deref(), Some("a=x y,b=2"));
        for fields in [[parent, ("h.tracestate", "a=1\r\nx: y")], [("a", "b"), ("h.tracestate", "a=1")]] {
            assert_eq!(sent(&fields), None, "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn no_field_of_a_producer_ever_breaks_the_headers(name: String, text: String) {
            let name = format!("h.{name}");
            prop_assert!(sent(&[(&name, &text), ("traceparent", &text)]).len() <= 10);
        }
    }
}
