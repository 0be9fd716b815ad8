//! Rules by the class of an error: which exceptions of a program are fatal, and which are not failures at all.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::RuleAction;

/// What follows from an error, by the names of its class and of the classes that it descends from.
///
/// A name ends in `*` to stand for all names that begin with what is before it; `*` alone stands for every class. The
/// nearest class decides: its own name, or else the longest name with a `*` that fits it, or else the same for its parent,
/// and so on. `*` alone is asked last.
///
/// ```
/// # use streamfleet_domain as streamfleet;
/// use streamfleet::job::{ErrorRules, RuleAction};
///
/// let rules = ErrorRules::new([("LookupError", RuleAction::Drop), ("*", RuleAction::Fatal)]);
/// assert_eq!(rules.decide(&["KeyError", "LookupError", "Exception"]), Some(("LookupError", RuleAction::Drop)));
/// assert_eq!(rules.decide(&["ValueError", "Exception"]), Some(("*", RuleAction::Fatal)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct ErrorRules {
    by_name: BTreeMap<String, RuleAction>,
}

impl ErrorRules {
    /// The most names.
    pub const MAX_NAMES: usize = 100;
    /// The longest name in bytes, and the longest class that is looked at.
    pub const MAX_NAME_BYTES: usize = 200;
    /// How many classes of an error are looked at.
    pub const MAX_CLASSES: usize = 32;

    /// Returns rules with these names.
    pub fn new(rules: impl IntoIterator<Item = (impl Into<String>, RuleAction)>) -> Self {
        Self { by_name: rules.into_iter().map(|(name, then)| (name.into(), then)).collect() }
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns these rules and those of `defaults` whose names they do not have.
    #[must_use]
    pub fn over(&self, defaults: &Self) -> Self {
        let mut by_name = defaults.by_name.clone();
        by_name.extend(self.by_name.iter().map(|(name, then)| (name.clone(), *then)));
        Self { by_name }
    }

    /// Returns the name that decides about an error of these classes, the nearest first, and what follows; `None` if no
    /// name fits, or if the classes are not known.
    pub fn decide(&self, classes: &[impl AsRef<str>]) -> Option<(&str, RuleAction)> {
        if self.is_empty() || classes.is_empty() {
            return None;
        }
        let looked_at = classes.iter().take(Self::MAX_CLASSES).map(|class| -> &str { class.as_ref() });
        let mut named = looked_at.filter(|class| class.len() <= Self::MAX_NAME_BYTES);
        named.find_map(|class| self.of(class)).or_else(|| self.entry("*"))
    }

    /// Returns what is wrong with each name, and why.
    pub fn validate(&self) -> Vec<(String, String)> {
        let mut wrong: Vec<_> = self
            .by_name
            .iter()
            .filter_map(|(name, then)| Some((name.clone(), reason(name, *then)?)))
            .collect();
        if self.by_name.len() > Self::MAX_NAMES {
            let reason = format!(
                "is one of {} classes, but at most {} are allowed",
                self.by_name.len(),
                Self::MAX_NAMES
            );
            wrong.extend(self.by_name.keys().next_back().map(|name| (name.clone(), reason)));
        }
        wrong
    }

    fn of(&self, class: &str) -> Option<(&str, RuleAction)> {
        self.entry(class).or_else(|| {
            let fits = |name: &&str| {
                name.strip_suffix('*').is_some_and(|prefix| !prefix.is_empty() && class.starts_with(prefix))
            };
            let longest = self.by_name.keys().map(String::as_str).filter(fits).max_by_key(|name| name.len());
            longest.and_then(|name| self.entry(name))
        })
    }

    fn entry(&self, name: &str) -> Option<(&str, RuleAction)> {
        self.by_name.get_key_value(name).map(|(name, then)| (name.as_str(), *then))
    }
}

/// Returns why a name can never fit, or why its action is not possible.
fn reason(name: &str, then: RuleAction) -> Option<String> {
    if !(1..=ErrorRules::MAX_NAME_BYTES).contains(&name.len()) {
        let longest = ErrorRules::MAX_NAME_BYTES;
        return Some(format!("the name has {} bytes; 1 to {longest} are allowed", name.len()));
    }
    if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("can never match: a class has no spaces in its name".to_owned());
    }
    if let Some(bare) = name.strip_prefix('\\') {
        return Some(format!(
            "can never match: classes are reported without a leading backslash; did you mean {bare:?}?"
        ));
    }
    if name.strip_suffix('*').unwrap_or(name).contains('*') {
        return Some("can never match: a * stands only at the end".to_owned());
    }
    then.wrong().map(|(action, reason)| format!("{action} {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    type Named = (&'static str, RuleAction);

    const DECLINED: [&str; 4] = [r"App\Pay\Declined", r"App\Pay\Failure", "RuntimeException", "Exception"];

    #[test]
    fn the_nearest_class_decides() {
        let (fatal, drop, retry) = (RuleAction::Fatal, RuleAction::Drop, RuleAction::Retry);
        let cases: [(&[Named], Option<Named>); 8] = [
            (&[], None),
            (&[("LogicException", fatal)], None),
            (&[("Exception", fatal)], Some(("Exception", fatal))),
            (&[("Exception", fatal), ("RuntimeException", drop)], Some(("RuntimeException", drop))),
            (&[(r"App\Pay\Declined", retry), (r"App\*", fatal)], Some((r"App\Pay\Declined", retry))),
            (&[(r"App\*", fatal), (r"App\Pay\*", drop)], Some((r"App\Pay\*", drop))),
            (&[(r"App\*", fatal), (r"App\Pay\Failure", drop)], Some((r"App\*", fatal))),
            (&[("*", fatal), ("Exception", drop)], Some(("Exception", drop))),
        ];
        for (rules, want) in cases {
            assert_eq!(ErrorRules::new(rules.iter().copied()).decide(&DECLINED), want, "{rules:?}");
        }
    }

    #[test]
    fn every_class_is_one_that_is_known() {
        let rules = ErrorRules::new([("*", RuleAction::Fatal)]);
        assert_eq!(rules.decide(&["Anything"]), Some(("*", RuleAction::Fatal)));
        assert_eq!(rules.decide(&[""; 0]), None, "a program that reports no classes");
    }

    #[test]
    fn the_rules_of_a_type_replace_those_of_its_pool_by_name() {
        let of_pool =
            ErrorRules::new([("Exception", RuleAction::Retry), ("LogicException", RuleAction::Fatal)]);
        let both = ErrorRules::new([("Exception", RuleAction::Drop)]).over(&of_pool);
        assert_eq!(both.decide(&["Exception"]), Some(("Exception", RuleAction::Drop)));
        assert_eq!(both.decide(&["LogicException"]), Some(("LogicException", RuleAction::Fatal)));
    }

    #[test]
    fn a_name_that_can_never_fit_is_refused() {
        let long = "x".repeat(201);
        for (name, want) in [
            ("", "1 to 200"),
            (&*long, "1 to 200"),
            ("Value Error", "no spaces"),
            (r"\App\Gone", r#"did you mean "App\\Gone"?"#),
            (r"App\*\Gone", "only at the end"),
            ("**", "only at the end"),
        ] {
            let wrong = ErrorRules::new([(name, RuleAction::Fatal)]).validate();
            assert!(wrong.len() == 1 && wrong[0].1.contains(want), "{name}: {wrong:?}");
        }
        let paused = ErrorRules::new([("A", RuleAction::RetryAfter(Duration::ZERO))]).validate();
        assert_eq!(paused, [("A".to_owned(), "retry_after must be greater than zero".to_owned())]);
        let many = ErrorRules::new((0..101).map(|nth| (format!("E{nth}"), RuleAction::Fatal)));
        assert_eq!(many.validate().len(), 1);
        let sound = ErrorRules::new([(r"App\*", RuleAction::Fatal), ("é.é", RuleAction::Done)]);
        assert!(sound.validate().is_empty(), "{:?}", sound.validate());
    }

    fn action() -> impl Strategy<Value = RuleAction> {
        prop_oneof![Just(RuleAction::Fatal), Just(RuleAction::Retry), Just(RuleAction::Drop)]
    }

    proptest! {
        #[test]
        fn a_decision_is_a_rule_that_fits_and_no_nearer_class_has_one(
            rules in proptest::collection::btree_map("[ab]{1,3}[*]?|[*]", action(), 0..6),
            classes in proptest::collection::vec("[ab]{1,4}", 0..5),
        ) {
            let fits = |name: &str, class: &str| name == class
                || name.strip_suffix('*').is_some_and(|prefix| class.starts_with(prefix));
            let all = ErrorRules::new(rules.clone());
            let nearer = match all.decide(&classes) {
                None => {
                    prop_assert!(classes.is_empty() || !rules.contains_key("*"));
                    classes.len()
                }
                Some((name, then)) => {
                    prop_assert_eq!(rules.get(name), Some(&then));
                    let at = classes.iter().position(|class| fits(name, class)).unwrap();
                    if name == "*" { classes.len() } else { at }
                }
            };
            let has_own = |class: &String| rules.keys().any(|rule| rule != "*" && fits(rule, class));
            prop_assert!(!classes[..nearer].iter().any(has_own));
        }

        #[test]
        fn any_names_and_classes_get_an_answer(name: String, classes: Vec<String>) {
            let rules = ErrorRules::new([(name, RuleAction::Fatal)]);
            let is_decided = rules.decide(&classes).is_some();
            prop_assert!(!is_decided || rules.validate().len() <= 1);
        }
    }
}
