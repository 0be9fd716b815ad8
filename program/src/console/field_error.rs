//! What is wrong with one field of a request: in words, and for programs as a code with values.
//!
//! Rules of fields are in many places, from the domain to the validator of schemas, and each says in English what it refuses. Their texts
//! stand here once more, each under a code. A text that does not has no code, and clients show it as it is.

use std::collections::BTreeMap;

use serde::Serialize;

/// The codes, each with the texts that it stands for. In `{name}` stands a value, in `{}` what a code leaves out. The first text that fits
/// counts. A code that was published stays, and so do its values.
const RULES: &[(&str, &[&str])] = &[
    ("name", &["{} \"{text}\" is not valid: {} must match {pattern}"]),
    (
        "word",
        &[
            "{} \"{}\" is not valid: {} must have {least} to {most} bytes of UTF-8 without white space or control characters",
        ],
    ),
    (
        "line",
        &["{} \"{}\" is not valid: {} must have {least} to {most} bytes of UTF-8 without control characters"],
    ),
    ("short_word", &["it must be a short word"]),
    ("required", &["is required, but missing", "missing field `{}`{}"]),
    ("empty", &["the condition \"{}\" is empty: give it a value, or leave it out"]),
    (
        "unknown",
        &["there is no such condition", "this request has no such parameter{}", "unknown field `{}`{}"],
    ),
    ("once", &["it must be given only once"]),
    ("exclusive", &["{one} and {other} cannot be used together"]),
    ("masked", &["names a field that is masked"]),
    (
        "range",
        &[
            "it must be a number from {least} to {most}",
            "it must be a percentage from {least} to {most}",
            "{} is not valid: a priority must be a whole number from {least} (lowest) to {most} (highest)",
            "a burst must be {least} to {most} jobs",
            "a timeout must be between {least} and {most}",
        ],
    ),
    (
        "at_least",
        &[
            "it must be at least {least}; {}",
            "it must be at least {least}",
            "{} is less than the minimum of {least}",
        ],
    ),
    (
        "at_most",
        &[
            "it must be at most {most}",
            "it may have at most {most} changes",
            "a filter may have at most {most} conditions",
            "it has more than {most} parameters",
            "{} is greater than the maximum of {most}",
        ],
    ),
    ("more_than", &["{} is less than or equal to the minimum of {than}"]),
    ("less_than", &["{} is greater than or equal to the maximum of {than}"]),
    (
        "duration",
        &[
            "a duration must be a number with a unit, such as 500ms, 10s, 1h30m or 2d, and must not be negative",
            "a duration must be a number of milliseconds, or text such as \"10s\"{}",
            "it must be a duration, such as 1h30m or 2d",
        ],
    ),
    (
        "instant",
        &[
            "an instant must have a date, a time and a zone, such as {}",
            "it must have a date, a time and a zone, such as {}",
        ],
    ),
    ("before_1970", &["an instant must not be before 1970"]),
    (
        "rate",
        &[
            "\"{}\" is not a rate such as 100/s, 600/10m or 10/s burst 5",
            "a rate must be a number per time, such as 50/s, 300/m or 10/h, from 1/h to 10000/s",
            "it must be a number of jobs per second, or a text such as 50/s, 300/m or 10/h{}",
            "it must be more than 0 and at most 10000 jobs per second",
        ],
    ),
    ("rate_too_low", &["a rate must be at least 1 job in 1 ms to 1 day"]),
    ("rate_too_high", &["a rate must be at most {most} jobs per second"]),
    ("breaker", &["expected a share, a number of attempts and two times, such as 50%/20/1m/30s"]),
    ("breaker_share", &["a breaker needs a ratio above 0 and at most 1, of 1 to 1000000 attempts"]),
    ("breaker_times", &["a breaker's window and cooldown must be 1 s to 1 day"]),
    (
        "gate_value",
        &["{}; expected a field and a value of at most {most} bytes, such as h.tenant=9 or limit_key=a"],
    ),
    (
        "schedule_field",
        &[
            "{} is not a cron expression: the {} \"{text}\" (column {column}): {}; allowed: {allowed}\n{}",
            "{} is not a cron expression: the {} \"{text}\" (column {column}): {}; allowed: {allowed}",
        ],
    ),
    ("schedule_fields", &["{} is not a cron expression: it has {count} fields, but needs 5 {}"]),
    ("schedule_nickname", &["{} is not a cron expression: the nicknames are {}"]),
    ("schedule_never", &["{} is not a cron expression: no day ever matches it"]),
    ("schedule", &["{} is not a cron expression: {why}"]),
    ("timezone", &["\"{name}\" is not a known time zone; use a name such as Europe/Berlin or UTC"]),
    (
        "condition",
        &[
            "{}; it must be like payload.customer=9, payload.items[0].sku!=x, payload.total>100 or h.tenant~acme",
            "it must be like payload.customer=9, payload.items[0].sku!=x, payload.total>100 or h.tenant~acme",
        ],
    ),
    ("type_filter", &["it must be a type, such as mail.send, or the beginning of types, such as mail.*"]),
    (
        "nothing_selected",
        &[
            "select something by a filter, or set all to true",
            "select dead letters by a filter, or set all to true",
            "select jobs by a filter, or say `all` for all jobs of the queue",
        ],
    ),
    ("nothing_to_change", &["say what to change: {}"]),
    ("nothing_to_empty", &["say what to empty: {}"]),
    ("no_limit", &["set concurrency, rate or breaker; to remove all limits, DELETE the gate"]),
    ("say_why", &["say why, for those who look at the incident"]),
    ("queue_name", &["it must be the name of the queue, {queue}, because this cannot be undone"]),
    ("same_queue", &["the jobs are already in the queue {queue}"]),
    (
        "not_json",
        &[
            "the payload is not JSON: {why} (to send other bytes, use --encoding raw)",
            "the payload is neither JSON ({why}) nor MessagePack",
            "not JSON: {why}",
        ],
    ),
    ("raw_text", &["with the encoding raw, it must be a string, whose UTF-8 bytes are {}"]),
    (
        "too_many_bytes",
        &[
            "the payload has {bytes} bytes, but at most {most} are allowed",
            "the new payload has {bytes} bytes, but at most {most} are allowed",
            "the follow-up jobs have {bytes} bytes in total, but at most {most} are allowed: let them fetch their data",
        ],
    ),
    (
        "too_many_fields",
        &[
            "the job {} has {count} fields, including those that submitting adds, but at most {most} are allowed: put headers into the payload",
        ],
    ),
    ("too_many_jobs", &["the chain has {count} jobs; a chain may have at most {most}"]),
    ("header", &["the header \"{name}\" is invalid: a name must have 1 to 128 bytes, a value at most 8192"]),
    (
        "derived_id",
        &[
            "the id {} looks like one that the fleet gives to jobs without an id: use another format",
            "{} are the id of a job with an Idempotency-Key: choose another id",
        ],
    ),
    ("place", &["\"{}\" is not a change of a payload, such as payload.email=ann@example.com: {}"]),
    ("no_place", &["the payload has no payload{place}"]),
    // What schemas say.
    ("too_long", &["{} is longer than {most} character{}"]),
    ("too_short", &["{} is shorter than {least} character{}"]),
    ("pattern", &["{} does not match \"{pattern}\""]),
    (
        "type",
        &[
            "invalid {}, expected {type} at line {} column {}",
            "invalid {}, expected {type}",
            "{} is not of type \"{type}\"",
        ],
    ),
    (
        "one_of",
        &[
            "it must be one of {names}",
            "a kind must be one of {names}",
            "an encoding must be {names}",
            "a mode must be {names}",
            "a scope must be {names}",
            "a verdict must be {names}",
            "a durability must be {names}",
            "it cannot be {} here, only {names}",
            "{} is not valid: a lane must be {names}",
            "{} is not one of {names}",
        ],
    ),
];

/// What a condition of a filter says around the rule that its value breaks.
const OF_CONDITION: &str = "{} is not a valid value of the condition {}: {why}";

/// What is wrong with one field of a request.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(super) struct FieldError {
    /// Where the field is: `query.limit`, `path.queue`, `body` or a JSON pointer into the body, such as `/payload/to`.
    at: String,
    /// What is wrong with it, for programs. It never changes for a rule. Null if only the text says it.
    code: Option<&'static str>,
    /// The values in the text. Which of them there are depends on the code, as `x-values` lists them.
    #[schema(value_type = BTreeMap<String, String>)]
    values: Values,
    /// What is wrong with it, in English.
    detail: String,
}

type Values = BTreeMap<&'static str, String>;

impl FieldError {
    /// A field with what is wrong with it, in the words of the rule that it breaks.
    pub(super) fn new(at: impl Into<String>, detail: impl Into<String>) -> Self {
        let (at, detail) = (at.into(), detail.into());
        // Some rules repeat the name of the field.
        let name = at.rsplit('/').next().unwrap_or_default();
        let rule = detail.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&detail);
        let (code, values) = coded(rule).unzip();
        Self { code, values: values.unwrap_or_default(), at, detail }
    }

    /// Where it is and what is wrong, in one line.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.at, self.detail)
    }

    /// All codes.
    pub(super) fn codes() -> Vec<&'static str> {
        RULES.iter().map(|(code, _)| *code).collect()
    }

    /// The values of each code that has some.
    pub(super) fn values_of_codes() -> BTreeMap<&'static str, Vec<&'static str>> {
        let of =
            |(code, texts): &(&'static str, &[&'static str])| (*code, names(texts[0]).collect::<Vec<_>>());
        RULES.iter().map(of).filter(|(_, names)| !names.is_empty()).collect()
    }
}

/// The code of a text, with its values.
fn coded(text: &str) -> Option<(&'static str, Values)> {
    let inner = read(OF_CONDITION, text).and_then(|mut values| values.remove("why"));
    let text = inner.as_deref().unwrap_or(text);
    RULES.iter().find_map(|(code, texts)| Some((*code, texts.iter().find_map(|one| read(one, text))?)))
}

/// What stands before the first place of a value, and each place: its name, and what follows it.
fn places(pattern: &'static str) -> (&'static str, impl Iterator<Item = (&'static str, &'static str)>) {
    let (start, rest) = pattern.split_once('{').unwrap_or((pattern, ""));
    (start, rest.split('{').filter_map(|place| place.split_once('}')))
}

/// The names of the values in a text.
fn names(pattern: &'static str) -> impl Iterator<Item = &'static str> {
    places(pattern).1.map(|(name, _)| name).filter(|name| !name.is_empty())
}

/// Reads the values of a text that is written like this.
fn read(pattern: &'static str, text: &str) -> Option<Values> {
    let (start, places) = places(pattern);
    let (mut rest, mut places) = (text.strip_prefix(start)?, places.peekable());
    let mut values = Values::new();
    while let Some((name, follows)) = places.next() {
        // The last value reaches as far as it can.
        let end =
            if places.peek().is_some() { rest.find(follows)? } else { rest.strip_suffix(follows)?.len() };
        if !name.is_empty() {
            values.insert(name, rest[..end].to_owned());
        }
        rest = &rest[end + follows.len()..];
    }
    rest.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use streamfleet::job::{JobId, JobType, Lane, Priority, Rate, UniqueKey, Verdict};
    use streamfleet_engine::admin::{Filter, Patch};
    use streamfleet_operations::gates::{BreakerText, value_gate};
    use streamfleet_operations::{submit, times};

    use super::*;
    use crate::tasks::rate;

    /// The code and the values of what refuses something.
    #[track_caller]
    fn of<T>(refused: Result<T, impl ToString>) -> (&'static str, serde_json::Value) {
        let text = refused.err().expect("it is refused").to_string();
        let error = FieldError::new("/field", text);
        (error.code.unwrap_or_else(|| panic!("no code: {error:?}")), json!(error.values))
    }

    #[test]
    fn what_rules_say_has_a_code_and_its_values() {
        let filter = |name: &str, value: &str| Filter::new().and(name, value);
        for ((code, values), want, wanted) in [
            (
                of("A".parse::<JobType>()),
                "name",
                json!({"text": "A", "pattern": "[a-z0-9][a-z0-9._-]{0,127}"}),
            ),
            (of("a b".parse::<JobId>()), "word", json!({"least": "1", "most": "128"})),
            (of("a\nb".parse::<UniqueKey>()), "line", json!({"least": "1", "most": "128"})),
            (of("11".parse::<Priority>()), "range", json!({"least": "1", "most": "10"})),
            (of("top".parse::<Lane>()), "one_of", json!({"names": "high, normal or low"})),
            (of("no".parse::<Verdict>()), "one_of", json!({"names": "done, run or give-up"})),
            (of(times::duration("10")), "duration", json!({})),
            (of(times::instant("tomorrow")), "instant", json!({})),
            (of(times::instant("1969-01-01T00:00:00Z")), "before_1970", json!({})),
            (of("fast".parse::<Rate>()), "rate", json!({})),
            (of("20000/s".parse::<Rate>()), "rate_too_high", json!({"most": "10000"})),
            (of("1/2d".parse::<Rate>()), "rate_too_low", json!({})),
            (of("1/s burst 0".parse::<Rate>()), "range", json!({"least": "1", "most": "1000000"})),
            (of(rate("5/d")), "rate", json!({})),
            (of("50%".parse::<BreakerText>()), "breaker", json!({})),
            (of("150%/20/1m/30s".parse::<BreakerText>()), "breaker_share", json!({})),
            (of("50%/20/1ms/30s".parse::<BreakerText>()), "breaker_times", json!({})),
            (of(value_gate("tenant!")), "gate_value", json!({"most": "128"})),
            (of("email=a".parse::<Patch>()), "place", json!({})),
            (of(filter("where", "x=1")), "condition", json!({})),
            (of(filter("where", "payload.a")), "condition", json!({})),
            (of(filter("type", "A")), "type_filter", json!({})),
            (
                of(filter("state", "new")),
                "one_of",
                json!({"names": "waiting, running, scheduled, retrying, done, dead, cancelled"}),
            ),
            (of(filter("since", "yesterday")), "instant", json!({})),
            (of(filter("older-than", "1")), "duration", json!({})),
            (of(filter("id-prefix", "a b")), "word", json!({"least": "1", "most": "128"})),
            (of(filter("text", " ")), "empty", json!({})),
            (of(submit::mode("drop")), "one_of", json!({"names": "reject, replace or debounce"})),
            (
                of(submit::timeout_in_bounds(std::time::Duration::ZERO)),
                "range",
                json!({"least": "1ms", "most": "7d"}),
            ),
        ] {
            assert_eq!((code, values), (want, wanted));
        }
    }

    #[test]
    fn a_code_is_there_once_and_each_of_its_texts_has_its_values() {
        let codes: BTreeSet<_> = FieldError::codes().into_iter().collect();
        assert_eq!(codes.len(), RULES.len());
        for (code, texts) in RULES {
            let of_first: BTreeSet<_> = names(texts[0]).collect();
            for text in *texts {
                assert_eq!(names(text).collect::<BTreeSet<_>>(), of_first, "{code}: {text}");
                let written = text.replace(['{', '}'], "");
                let found = coded(&written).map(|(code, _)| code);
                assert_eq!(found, Some(*code), "another code has this text: {text}");
            }
        }
    }

    #[test]
    fn the_name_of_the_field_may_precede_the_rule_and_other_texts_have_no_code() {
        let error = FieldError::new("/delay", "delay: it must be at most 60s");
        assert_eq!((error.code, &*error.values["most"]), (Some("at_most"), "60s"));
        assert_eq!(error.line(), "/delay: delay: it must be at most 60s");
        let error = FieldError::new("body", "nobody knows this text");
        assert_eq!((error.code, error.values.len()), (None, 0));
    }
}
