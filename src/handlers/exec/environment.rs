//! The variables that tell a program about its job. Text from a producer can set no other variable.

use std::collections::BTreeMap;

use crate::JobContext;
use crate::handlers::attempt;

/// The variable with the payload's length.
pub(super) const PAYLOAD_BYTES: &str = "STREAMFLEET_PAYLOAD_BYTES";

/// The variable with the step's name.
const STEP: &str = "STREAMFLEET_STEP";

const JOB_PREFIX: &str = "STREAMFLEET_JOB_";
const HEADER_PREFIX: &str = "STREAMFLEET_HEADER_";

/// The most bytes of all headers together. The system limits what a program gets, and a job must not fail because of
/// that.
const HEADERS_BYTES: usize = 64 * 1024;

/// Returns why the configuration must not set this variable, if it must not.
pub(super) fn reserved(name: &str) -> Option<String> {
    let own = name == STEP || name == PAYLOAD_BYTES;
    let is_reserved = own || [JOB_PREFIX, HEADER_PREFIX].iter().any(|prefix| name.starts_with(prefix));
    is_reserved.then(|| {
        format!(
            "is reserved, as {STEP}, {PAYLOAD_BYTES} and all that start with {JOB_PREFIX} or {HEADER_PREFIX} are"
        )
    })
}

/// Returns the variables of one attempt, except for the payload's length.
pub(super) fn of(context: &JobContext) -> BTreeMap<String, String> {
    let mut variables = headers(context);
    for (name, value) in attempt::facts(context) {
        variables.insert(format!("{JOB_PREFIX}{}", name.to_ascii_uppercase()), value);
    }
    variables.insert(format!("{JOB_PREFIX}ENCODING"), context.encoding().as_str().to_owned());
    if let Some(step) = context.step() {
        variables.insert(STEP.to_owned(), step.to_string());
    }
    if let Some(traceparent) = attempt::traceparent(context) {
        variables.insert("TRACEPARENT".to_owned(), traceparent.to_owned());
        let state = context.tracestate().map(|state| ("TRACESTATE".to_owned(), state.to_owned()));
        variables.extend(state);
    }
    variables
}

/// Returns the job's headers as variables: `tenant-id` becomes `STREAMFLEET_HEADER_TENANT_ID`. Names with other
/// characters than letters, digits, `-`, `_` and `.`, values with a NUL byte, and what exceeds [`HEADERS_BYTES`] are left
/// out. Of several equal names the first counts, as in the context.
fn headers(context: &JobContext) -> BTreeMap<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let usable = context
        .headers()
        .filter(|(name, value)| !name.is_empty() && name.chars().all(is_plain) && !value.contains('\0'));
    let (mut variables, mut bytes) = (BTreeMap::new(), 0);
    for (name, value) in usable {
        bytes += name.len() + value.len();
        if bytes > HEADERS_BYTES {
            break;
        }
        let name = format!("{HEADER_PREFIX}{}", name.to_ascii_uppercase().replace(['-', '.'], "_"));
        variables.entry(name).or_insert_with(|| value.to_owned());
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context;
    use proptest::prelude::*;

    fn headers_of(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        headers(&context(fields)).into_iter().collect()
    }

    #[test]
    fn headers_become_variables_and_the_first_of_equal_names_counts() {
        let fields = [
            ("h.tenant-id", "acme"),
            ("h.tenant.id", "second"),
            ("h.", "no name"),
            ("h.a b", "x"),
            ("h.a=b", "x"),
            ("h.nul", "a\0b"),
            ("h.name", "Müller\n"),
        ];
        let want = [("STREAMFLEET_HEADER_NAME", "Müller\n"), ("STREAMFLEET_HEADER_TENANT_ID", "acme")];
        assert_eq!(headers_of(&fields), want.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn headers_are_limited_in_bytes() {
        let large = "x".repeat(HEADERS_BYTES - 1);
        assert_eq!(headers_of(&[("h.a", &large), ("h.b", "y")]).len(), 1);
        assert!(headers_of(&[("h.ab", &large)]).is_empty());
    }

    #[test]
    fn the_encoding_is_among_the_facts() {
        let of_encoding = |fields: &[(&str, &str)]| of(&context(fields))["STREAMFLEET_JOB_ENCODING"].clone();
        assert_eq!(
            [of_encoding(&[]), of_encoding(&[("encoding", "msgpack")])],
            ["json", "msgpack"].map(str::to_owned)
        );
    }

    proptest! {
        #[test]
        fn no_header_sets_a_variable_without_the_prefix(name: String, value: String) {
            let name = format!("h.{name}");
            for (name, value) in headers_of(&[(&name, &value)]) {
                prop_assert!(name.starts_with(HEADER_PREFIX) && !name.contains(['=', '\0']) && !value.contains('\0'));
            }
        }
    }
}
