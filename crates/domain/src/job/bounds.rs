//! The bounds of the values of a configuration. Each component checks its own, and reports all that are wrong at once.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::format_duration;

/// A value of a configuration that is out of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct OutOfBounds {
    /// The keys down to the value, as the configuration file nests them.
    pub path: Vec<String>,
    /// What is wrong with it: what follows the key in a sentence.
    pub reason: String,
}

impl OutOfBounds {
    /// Creates a problem with one key.
    #[doc(hidden)]
    pub fn new(key: &str, reason: impl Into<String>) -> Self {
        Self::at(vec![key.to_owned()], reason)
    }

    /// Creates a problem with the value at this path.
    #[doc(hidden)]
    pub fn at(path: Vec<String>, reason: impl Into<String>) -> Self {
        Self { path, reason: reason.into() }
    }

    /// Moves the problem below these keys.
    #[doc(hidden)]
    #[must_use]
    pub fn below(self, keys: &[&str]) -> Self {
        let path = keys.iter().map(ToString::to_string).chain(self.path).collect();
        Self { path, ..self }
    }
}

impl Display for OutOfBounds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", dotted(&self.path), self.reason)
    }
}

/// Returns a path as a configuration file writes it: `types."report.generate".timeout`.
pub fn dotted(path: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let quoted = |key: &String| match key.is_empty() || !key.chars().all(plain) {
        true => format!("{key:?}"),
        false => key.clone(),
    };
    path.iter().map(quoted).collect::<Vec<_>>().join(".")
}

/// Checks a duration.
pub fn time(key: &str, value: Duration, allowed: &RangeInclusive<Duration>) -> Option<OutOfBounds> {
    let [is, least, most] = [value, *allowed.start(), *allowed.end()].map(format_duration);
    let reason = || format!("is {is}, but must be between {least} and {most}");
    (!allowed.contains(&value)).then(|| OutOfBounds::new(key, reason()))
}

/// Checks a number.
pub fn number<N: Display + PartialOrd>(
    key: &str,
    value: N,
    allowed: &RangeInclusive<N>,
) -> Option<OutOfBounds> {
    let (least, most) = (allowed.start(), allowed.end());
    let reason = || format!("is {value}, but must be between {least} and {most}");
    (!allowed.contains(&value)).then(|| OutOfBounds::new(key, reason()))
}

/// Checks a number that has only a lower bound: 1.
pub fn at_least_one(key: &str, value: impl Into<u64>) -> Option<OutOfBounds> {
    (value.into() == 0).then(|| OutOfBounds::new(key, "is 0, but must be at least 1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_problem_is_named_by_its_key_as_a_file_writes_it() {
        let wrong = at_least_one("concurrency", 0_u32).unwrap();
        let wrong = wrong.below(&["queues", "mail", "keys", "h.tenant"]);
        let want = r#"queues.mail.keys."h.tenant".concurrency: is 0, but must be at least 1"#;
        assert_eq!(wrong.to_string(), want);
    }

    #[test]
    fn both_ends_of_a_range_are_allowed() {
        let second = Duration::from_secs(1);
        let allowed = second..=second * 60;
        assert_eq!(time("lease", second, &allowed), None);
        assert_eq!(time("lease", second * 60, &allowed), None);
        let wrong = time("lease", Duration::ZERO, &allowed).unwrap();
        assert_eq!(wrong.to_string(), "lease: is 0s, but must be between 1s and 1m");
    }

    proptest! {
        #[test]
        fn exactly_the_numbers_outside_are_reported(value: u32, least in 0_u32..1000, more in 0_u32..1000) {
            let allowed = least..=least + more;
            prop_assert_eq!(number("n", value, &allowed).is_none(), allowed.contains(&value));
        }
    }
}
