//! Applies a handler's rules to one answer. Pure: an exit code or a status and a text go in, and the outcome comes out.

use std::ops::RangeInclusive;

use regex::Regex;

use super::Error;
use super::rule::{Kind, Rule, compiled};
use crate::job::RuleAction;

/// How much of the output the rules see.
pub(super) const TEXT_BYTES: usize = 64 * 1024;

/// The rules of one handler, in order. The first match decides.
#[derive(Debug)]
pub(super) struct Verdicts {
    rules: Vec<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    /// `None` matches every failure.
    codes: Option<Vec<RangeInclusive<i64>>>,
    matches: Option<Regex>,
    then: RuleAction,
}

/// How an attempt ended, as far as rules can see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    /// The exit code or the status; `None` for a program that a signal killed.
    pub(super) code: Option<i64>,
    /// Whether it is a success unless a rule says otherwise.
    pub(super) succeeded: bool,
    /// The output, which need not be UTF-8.
    pub(super) text: &'a [u8],
}

impl Verdicts {
    /// Validates and compiles the rules.
    pub(super) fn new(kind: Kind, rules: &[Rule]) -> Result<Self, Error> {
        let compile = |rule: &Rule| {
            let codes = rule.exit.as_ref().or(rule.status.as_ref());
            Ok(Compiled {
                codes: codes.map(|codes| codes.0.iter().map(|code| code.range()).collect()),
                matches: rule.matches.as_deref().map(compiled).transpose()?,
                then: rule.then,
            })
        };
        Error::unless_valid(kind.validate(rules))?;
        let rules = rules.iter().map(compile).collect::<Result<_, String>>();
        Ok(Self { rules: rules.map_err(Error::invalid)? })
    }

    /// Returns true if any rule reads the output.
    pub(super) fn read_text(&self) -> bool {
        self.rules.iter().any(|rule| rule.matches.is_some())
    }

    /// Returns the outcome, or `None` if no rule matches and the built-in meaning applies.
    pub(super) fn verdict(&self, answer: Answer<'_>) -> Option<RuleAction> {
        if self.rules.is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(answer.text);
        let rule = self.rules.iter().find(|rule| rule.fits(answer, &text))?;
        Some(rule.then)
    }
}

impl Compiled {
    fn fits(&self, answer: Answer<'_>, text: &str) -> bool {
        let by_code = match &self.codes {
            Some(codes) => answer.code.is_some_and(|code| codes.iter().any(|range| range.contains(&code))),
            None => !answer.succeeded,
        };
        by_code && self.matches.as_ref().is_none_or(|matches| matches.is_match(text))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn verdicts(rules: Value) -> Verdicts {
        Verdicts::new(Kind::Exec, &serde_json::from_value::<Vec<Rule>>(rules).unwrap()).unwrap()
    }

    fn exit(code: i64, text: &str) -> Answer<'_> {
        Answer { code: Some(code), succeeded: code == 0, text: text.as_bytes() }
    }

    fn some_rules() -> Verdicts {
        verdicts(json!([
            { "exit": 75, "matches": "quota", "then": { "snooze": "10m" } },
            { "exit": [10, 20], "then": { "retry_after": "30s" } },
            { "exit": 0, "matches": "^WARN", "then": "retry" },
            { "matches": "(?i)duplicate order", "then": "drop" },
            { "exit": [3, 75], "then": "fatal" },
            { "exit": 1, "then": "done" },
        ]))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let cases = [
            (exit(75, "over quota"), Some(RuleAction::Snooze(Duration::from_secs(600)))),
            (exit(75, "other"), Some(RuleAction::Fatal)),
            (exit(20, "Duplicate Order 7"), Some(RuleAction::RetryAfter(Duration::from_secs(30)))),
            (exit(4, "a DUPLICATE ORDER"), Some(RuleAction::Drop)),
            (exit(1, ""), Some(RuleAction::Done)),
            (exit(2, ""), None),
            (exit(0, "WARN: half of it"), Some(RuleAction::Retry)),
        ];
        for (answer, want) in cases {
            assert_eq!(some_rules().verdict(answer), want, "{answer:?}");
        }
    }

    #[test]
    fn a_success_is_judged_only_by_rules_that_name_its_code() {
        assert_eq!(some_rules().verdict(exit(0, "duplicate order")), None);
        assert_eq!(verdicts(json!([{ "then": "fatal" }])).verdict(exit(0, "")), None);
        assert_eq!(verdicts(json!([{ "then": "fatal" }])).verdict(exit(9, "")), Some(RuleAction::Fatal));
    }

    #[test]
    fn a_killed_program_has_no_code_but_its_words_count() {
        let killed = Answer { code: None, succeeded: false, text: b"duplicate order \xff" };
        assert_eq!(some_rules().verdict(killed), Some(RuleAction::Drop));
        assert_eq!(verdicts(json!([{ "exit": [9, 137], "then": "fatal" }])).verdict(killed), None);
    }

    #[test]
    fn text_is_matched_by_characters_even_if_it_is_not_utf_8() {
        let rules = verdicts(json!([{ "matches": "^M.ller$", "then": "fatal" }]));
        let latin = Answer { code: Some(1), succeeded: false, text: b"M\xfcller" };
        assert_eq!(rules.verdict(latin), Some(RuleAction::Fatal));
    }

    #[test]
    fn an_expression_made_to_be_slow_is_not() {
        let rules = verdicts(json!([{ "matches": "(a*)*b$", "then": "fatal" }]));
        let text = "a".repeat(TEXT_BYTES);
        assert_eq!(rules.verdict(exit(1, &text)), None);
    }

    proptest! {
        #[test]
        fn only_the_first_matching_rule_gives_the_verdict(code in 0_i64..256, text in "[a-z ]{0,20}") {
            let all = some_rules();
            let answer = exit(code, &text);
            let alone = (0..all.rules.len()).find_map(|nth| {
                let rule = &all.rules[nth];
                rule.fits(answer, &text).then_some(rule.then)
            });
            prop_assert_eq!(all.verdict(answer), alone);
        }

        #[test]
        fn any_bytes_get_a_verdict_and_no_rules_have_none(code: Option<u8>, text: Vec<u8>) {
            let answer = Answer { code: code.map(i64::from), succeeded: code == Some(0), text: &text };
            let found = some_rules().verdict(answer);
            prop_assert!(code.is_some() || matches!(found, None | Some(RuleAction::Drop)), "{:?}", found);
            prop_assert_eq!(verdicts(json!([])).verdict(answer), None);
        }
    }
}
