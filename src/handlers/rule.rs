//! Rules: outcomes for exit codes, statuses and texts whose built-in meaning does not fit. They are part of the
//! configuration; `verdict` applies them.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use regex::{Regex, RegexBuilder};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::job::RuleAction;

/// The most rules of one handler.
const MAX_RULES: usize = 100;
/// The longest expression.
const MAX_PATTERN_BYTES: usize = 4096;
/// The memory that a compiled expression may take.
const MAX_COMPILED_BYTES: usize = 1024 * 1024;

/// One rule: if all of its conditions hold, the outcome is `then`.
///
/// `{ exit = [10, 20], matches = "(?i)quota", then = { snooze = "10m" } }`. A rule without codes applies only to
/// attempts that failed. To match a success, write `exit = 0` or `status = "2xx"`.
///
/// ```
/// use std::time::Duration;
///
/// use streamfleet::handlers::{Rule, RuleAction};
///
/// let rule = Rule::new(RuleAction::Snooze(Duration::from_secs(600))).exit([10, 20]).matches("(?i)quota");
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// The program's exit code, 0 to 255: one or a list. Only for `exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Codes>,
    /// The response's status, 200 to 999: a number, a class such as `"5xx"`, or a list of both. Only for `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Codes>,
    /// A regular expression that must match in the end of standard error, or in the beginning of the body. At most 64
    /// KiB are searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// The outcome.
    pub then: RuleAction,
}

/// Exit codes or statuses: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Codes(pub Vec<Code>);

/// An exit code, a status, or a class of statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// This one.
    One(i64),
    /// A hundred statuses with this first digit: 5 for `"5xx"`.
    Class(u8),
}

/// The handler that the rules belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Exec,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the handler `http` has it"))]
    Http,
}

impl Rule {
    /// Returns a rule with this outcome for every attempt that failed.
    pub fn new(then: RuleAction) -> Self {
        Self { exit: None, status: None, matches: None, then }
    }

    setters! {
        /// Sets the program's exit codes, of which one must match: at least one, each 0 to 255. Only for `exec`.
        exit: impl IntoIterator<Item = i64> => Some(Codes(exit.into_iter().map(Code::One).collect()));
        /// Sets the response's statuses, of which one must match: at least one, each 200 to 999. Only for `http`.
        status: impl IntoIterator<Item = Code> => Some(Codes(status.into_iter().collect()));
        /// Sets the regular expression that must match in the output: 1 to 4096 bytes.
        matches: impl Into<String> => Some(matches.into());
    }
}

impl Code {
    pub(super) fn range(self) -> RangeInclusive<i64> {
        match self {
            Self::One(code) => code..=code,
            Self::Class(digit) => i64::from(digit) * 100..=i64::from(digit) * 100 + 99,
        }
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let wrong = || format!("expected a number, or a class such as \"5xx\", not {value}");
        if let Some(number) = value.as_i64() {
            return Ok(Self::One(number));
        }
        match value.as_str().map(str::as_bytes) {
            Some([digit @ b'1'..=b'9', b'x', b'x']) => Ok(Self::Class(digit - b'0')),
            Some(_) | None => Err(wrong()),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(code) => write!(out, "{code}"),
            Self::Class(digit) => write!(out, "{digit}xx"),
        }
    }
}

impl<'de> Deserialize<'de> for Codes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let codes = match value.as_array() {
            Some(values) => values.iter().map(Code::parse).collect(),
            None => Code::parse(&value).map(|code| vec![code]),
        };
        codes.map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for Codes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|code| match code {
            Code::One(code) => Value::from(*code),
            Code::Class(_) => Value::from(code.to_string()),
        }))
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Http => "http",
        }
    }

    /// Returns the possible codes of this handler, and the key that names them.
    fn codes(self) -> (RangeInclusive<i64>, &'static str) {
        match self {
            Self::Exec => (0..=255, "exit"),
            Self::Http => (200..=999, "status"),
        }
    }

    /// Returns the rule's codes for this handler, and why any codes of another kind can never match.
    fn split(self, rule: &Rule) -> (Option<&Codes>, Option<&'static str>) {
        match self {
            Self::Exec => (rule.exit.as_ref(), rule.status.is_some().then_some("a program has no status")),
            Self::Http => {
                (rule.status.as_ref(), rule.exit.is_some().then_some("an endpoint has no exit code"))
            }
        }
    }

    /// Returns everything that is wrong with these rules, as `<kind>.rules: rule <number>: reason`.
    pub(super) fn validate(self, rules: &[Rule]) -> Vec<String> {
        let (mut problems, mut decided) = (Vec::new(), Decided::default());
        if rules.len() > MAX_RULES {
            problems.push(format!(
                "{}.rules: {} rules, but at most {MAX_RULES} are allowed",
                self.name(),
                rules.len()
            ));
        }
        for (nth, rule) in rules.iter().take(MAX_RULES).enumerate() {
            let mut wrong = self.wrong(rule);
            let codes = self.split(rule).0;
            if wrong.is_empty() && decided.covers(codes) {
                wrong.push("can never match: earlier rules cover all of its cases".to_owned());
            }
            if rule.matches.is_none() {
                decided.add(codes);
            }
            let located = |reason| format!("{}.rules: rule {}: {reason}", self.name(), nth + 1);
            problems.extend(wrong.into_iter().map(located));
        }
        problems
    }

    fn wrong(self, rule: &Rule) -> Vec<String> {
        let (codes, foreign) = self.split(rule);
        let mut wrong: Vec<String> =
            foreign.map(|why| format!("can never match: {why}")).into_iter().collect();
        let (allowed, name) = self.codes();
        if codes.is_some_and(|codes| codes.0.is_empty()) {
            wrong.push(format!("{name} lists no code"));
        }
        let whole = allowed.start() % 100 == 0 && *allowed.start() > 0;
        for code in codes.into_iter().flat_map(|codes| &codes.0) {
            let fits = match code {
                Code::One(code) => allowed.contains(code),
                Code::Class(_) => whole && allowed.contains(code.range().start()),
            };
            if !fits {
                wrong.push(format!(
                    "{name} {code} can never match: it must be {} to {}",
                    allowed.start(),
                    allowed.end()
                ));
            }
        }
        wrong.extend(rule.matches.as_deref().and_then(|pattern| compiled(pattern).err()));
        wrong.extend(rule.then.wrong().map(|(action, reason)| format!("then.{action} {reason}")));
        wrong
    }
}

/// The codes that rules without an expression have already decided.
#[derive(Default)]
struct Decided {
    codes: BTreeSet<i64>,
    all_failures: bool,
}

impl Decided {
    fn add(&mut self, codes: Option<&Codes>) {
        match codes {
            Some(codes) => self.codes.extend(codes.0.iter().flat_map(|code| code.range())),
            None => self.all_failures = true,
        }
    }

    fn covers(&self, codes: Option<&Codes>) -> bool {
        let is_success = |code: i64| code == 0 || (200..300).contains(&code);
        let is_decided = |code: i64| self.codes.contains(&code) || (self.all_failures && !is_success(code));
        match codes {
            Some(codes) => codes.0.iter().flat_map(|code| code.range()).all(is_decided),
            None => self.all_failures,
        }
    }
}

/// Compiles the expression, or returns what is wrong with it and where. Searching takes time proportional to the text,
/// whatever the expression.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("matches has {} bytes; 1 to {MAX_PATTERN_BYTES} are allowed", pattern.len()));
    }
    if let Err(error) = regex_syntax::Parser::new().parse(pattern) {
        let (what, at) = match &error {
            regex_syntax::Error::Parse(error) => (error.kind().to_string(), Some(error.span().start)),
            regex_syntax::Error::Translate(error) => (error.kind().to_string(), Some(error.span().start)),
            _ => (error.to_string(), None),
        };
        let at = at.map_or_else(String::new, |at| format!(" at character {}", character(pattern, at.offset)));
        return Err(format!("matches is not a regular expression: {what}{at}"));
    }
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
    builder.build().map_err(|_too_large| "matches is too large once compiled".to_owned())
}

/// Returns the number, from 1, of the character that begins at this byte.
fn character(text: &str, offset: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < offset).count() + 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use serde_json::json;

    fn rules(json: Value) -> Vec<Rule> {
        serde_json::from_value(json).unwrap()
    }

    fn wrong_for_exec(json: Value) -> Vec<String> {
        Kind::Exec.validate(&rules(json))
    }

    #[test]
    fn codes_are_one_or_a_list_and_classes_are_for_statuses() {
        let read = rules(json!([
            { "exit": 3, "then": "fatal" },
            { "exit": [10, 20], "then": { "retry_after": "30s" } },
            { "status": "5xx", "then": "retry" },
            { "status": [409, "4xx"], "then": "drop" },
            { "matches": "quota", "then": { "snooze": "10m" } },
        ]));
        assert_eq!(read[0].exit, Some(Codes(vec![Code::One(3)])));
        assert_eq!(read[1].then, RuleAction::RetryAfter(Duration::from_secs(30)));
        assert_eq!(read[2].status, Some(Codes(vec![Code::Class(5)])));
        assert_eq!(read[3].status, Some(Codes(vec![Code::One(409), Code::Class(4)])));
        assert_eq!(read[4].then, RuleAction::Snooze(Duration::from_secs(600)));
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(rules(written), read);
    }

    #[test]
    fn invalid_codes_and_actions_are_refused() {
        let wrong = [
            json!({ "exit": "many", "then": "fatal" }),
            json!({ "exit": 3.5, "then": "fatal" }),
            json!({ "status": "0xx", "then": "fatal" }),
            json!({ "status": "5x", "then": "fatal" }),
            json!({ "exit": 3, "then": "explode" }),
            json!({ "exit": 3, "then": { "snooze": "soon" } }),
            json!({ "exit": 3 }),
            json!({ "exits": 3, "then": "fatal" }),
        ];
        for json in wrong {
            assert!(serde_json::from_value::<Rule>(json.clone()).is_err(), "{json}");
        }
    }

    #[test]
    fn a_rule_that_can_never_match_is_refused_with_its_number() {
        let cases = [
            (json!({ "status": 500, "then": "fatal" }), "can never match: a program has no status"),
            (json!({ "exit": 256, "then": "fatal" }), "exit 256 can never match: it must be 0 to 255"),
            (json!({ "exit": [3, -1], "then": "fatal" }), "exit -1 can never match: it must be 0 to 255"),
            (json!({ "exit": "5xx", "then": "fatal" }), "exit 5xx can never match: it must be 0 to 255"),
            (json!({ "exit": [], "then": "fatal" }), "exit lists no code"),
            (json!({ "exit": 7, "matches": "x", "then": "fatal" }), "cover all of its cases"),
            (json!({ "exit": 3, "then": { "snooze": "0s" } }), "then.snooze must be greater than zero"),
            (
                json!({ "exit": 3, "then": { "retry_after": "9000h" } }),
                "then.retry_after must be at most 365 days",
            ),
            (json!({ "matches": "", "then": "fatal" }), "matches has 0 bytes"),
        ];
        for (json, want) in cases {
            let found = wrong_for_exec(json!([{ "exit": [7, 8], "then": "retry" }, json.clone()]));
            assert_eq!(found.len(), 1, "{json}: {found:?}");
            assert!(
                found[0].starts_with("exec.rules: rule 2: ") && found[0].ends_with(want)
                    || found[0].contains(want),
                "{found:?}"
            );
        }
    }

    #[test]
    fn an_endpoints_rules_are_bounded_by_what_an_endpoint_can_answer() {
        let wrong = |json| Kind::Http.validate(&rules(json!([json])));
        assert_eq!(wrong(json!({ "status": ["5xx", 404, "2xx"], "then": "retry" })), Vec::<String>::new());
        let exit = wrong(json!({ "exit": 3, "then": "retry" }));
        assert_eq!(exit, ["http.rules: rule 1: can never match: an endpoint has no exit code"]);
        let early = wrong(json!({ "status": [100, "1xx"], "then": "retry" }));
        assert_eq!(early.len(), 2, "{early:?}");
    }

    #[test]
    fn a_rule_after_a_catch_all_is_refused_unless_it_matches_successes() {
        let all = json!({ "then": "fatal" });
        assert_eq!(wrong_for_exec(json!([{ "exit": 3, "then": "drop" }, all])), Vec::<String>::new());
        assert_eq!(wrong_for_exec(json!([all, { "exit": 3, "then": "drop" }])).len(), 1);
        assert_eq!(wrong_for_exec(json!([all, all])).len(), 1);
        let success = json!({ "exit": 0, "matches": "WARN", "then": "retry" });
        assert_eq!(wrong_for_exec(json!([all, success])), Vec::<String>::new());
    }

    #[test]
    fn a_bad_expression_is_reported_with_its_character_position() {
        let said = |pattern: &str| compiled(pattern).unwrap_err();
        assert_eq!(said("(?i)dup("), "matches is not a regular expression: unclosed group at character 8");
        assert_eq!(said("é*("), "matches is not a regular expression: unclosed group at character 3");
        assert!(said("a(?=b)").contains("look-around"), "{}", said("a(?=b)"));
        assert!(said(r"\p{Nonsense}").ends_with("at character 1"), "{}", said(r"\p{Nonsense}"));
        assert_eq!(said(r"(\w{500}){50}"), "matches is too large once compiled");
        assert!(said(&"x".repeat(5000)).contains("1 to 4096"));
    }

    #[test]
    fn too_many_rules_are_refused() {
        let many: Vec<Value> = (0..101).map(|_| json!({ "matches": "x", "then": "fatal" })).collect();
        assert_eq!(wrong_for_exec(many.into()), ["exec.rules: 101 rules, but at most 100 are allowed"]);
    }
}
