//! Problems in a configuration, reported so that they can be fixed: the key, the reason, and where it was set.

use std::fmt;

use super::Effective;
use super::tree::Node;
use crate::job::bounds::dotted;
use crate::job::nearest;

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The key's full path, as the file would write it. Empty for a problem with a file as a whole.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
    /// Where the key was set: file and line, the variable's name, or the flag.
    pub origin: Option<String>,
}

impl Problem {
    pub(super) const NO_HANDLER: &str = "has no handler";

    /// Creates a problem with the key at `path`.
    pub(super) fn at(path: &[String], reason: impl Into<String>, tree: &Node) -> Self {
        // A missing node has no source. In that case the default is wrong.
        let origin = (1..=path.len()).rev().find_map(|depth| tree.get(&path[..depth]));
        let origin = origin.map(|node| node.origin.to_string()).filter(|origin| !origin.is_empty());
        Self { key: dotted(path), reason: reason.into(), origin }
    }

    /// Returns true if the problem is a type without a handler. A worker refuses to start with one; other commands
    /// ignore it.
    pub fn is_missing_handler(&self) -> bool {
        self.reason == Self::NO_HANDLER
    }

    /// Creates a problem with a source as a whole.
    pub(super) fn with(origin: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: String::new(), reason: reason.into(), origin: Some(origin.into()) }
    }
}

impl Effective {
    /// Creates a problem with a key of this configuration, such as `["console", "accounts_file"]`, with where it was set.
    pub fn problem(&self, key: &[&str], reason: &str) -> Problem {
        let path: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
        Problem::at(&path, reason, &self.tree)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.key, &self.origin) {
            ("", Some(origin)) => write!(out, "{origin}: {}", self.reason),
            (key, Some(origin)) => write!(out, "{key}: {} ({origin})", self.reason),
            (key, None) => write!(out, "{key}: {}", self.reason),
        }
    }
}

/// All problems of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Invalid {
    /// The problems; at least one.
    pub problems: Vec<Problem>,
}

impl Invalid {
    /// Returns these problems as an error, or `None` if there are none.
    pub fn from_problems(problems: Vec<Problem>) -> Option<Self> {
        Self::unless_none(problems).err()
    }

    /// Returns `Err` if there are problems, sorted and without duplicates.
    pub(super) fn unless_none(mut problems: Vec<Problem>) -> Result<(), Self> {
        problems.sort();
        problems.dedup();
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The packages of `sdk/` know by this beginning that the job is not to blame.
        match &*self.problems {
            [one] => write!(out, "the configuration has a problem: {one}"),
            many => {
                write!(out, "the configuration has {} problems:", many.len())?;
                many.iter().try_for_each(|problem| write!(out, "\n  {problem}"))
            }
        }
    }
}

/// Names that are not like the known ones that they mean.
const OTHER_NAMES: [(&str, &str); 1] = [("lark", "feishu")];

/// Rewrites serde's message in the terms of a configuration file, and suggests the nearest known key.
pub(super) fn reworded(reason: &str) -> String {
    let what = match () {
        () if reason.starts_with("unknown field") => "key",
        () if reason.starts_with("unknown variant") => "value",
        () if reason.starts_with("missing field") => {
            return format!("{} is missing", reason.split('`').nth(1).unwrap_or("something"));
        }
        () if reason.contains("expected newtype variant") || reason.contains("expected struct variant") => {
            return "must be a table with its own values".to_owned();
        }
        () if reason.contains("expected map with a single key") => {
            return "must name exactly one kind".to_owned();
        }
        () if reason.ends_with("expected a map") || reason.contains("expected struct") => {
            return "must be a table".to_owned();
        }
        () if reason.ends_with("expected a sequence") => return "must be a list".to_owned(),
        () if reason.ends_with("expected a string") => return "must be a string".to_owned(),
        () => return reason.to_owned(),
    };
    let mut quoted = reason.split('`').skip(1).step_by(2);
    let given = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    let other_name = OTHER_NAMES.into_iter().find(|(name, meant)| *name == given && known.contains(meant));
    match other_name.map(|(_, meant)| meant).or_else(|| nearest(given, known.iter().copied())) {
        Some(near) => format!("unknown {what}; did you mean {near:?}?"),
        None if known.is_empty() => format!("unknown {what}"),
        None => format!("unknown {what}; expected one of: {}", known.join(", ")),
    }
}

/// Returns the word among `known` that somebody most likely meant by `given`, if one is similar enough.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest::nearest(given, known)
}

/// Returns what is wrong with a handler, and why.
pub(super) fn with_cause(error: &streamfleet::handlers::Error) -> String {
    use std::error::Error as _;
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_suggested_or_else_all_known_ones() {
        let reason = "unknown field `lese`, expected one of `lease`, `prefetch`";
        assert_eq!(reworded(reason), "unknown key; did you mean \"lease\"?");
        let reason = "unknown field `zzzzzz`, expected `a` or `b`";
        assert_eq!(reworded(reason), "unknown key; expected one of: a, b");
        let reason = "unknown variant `lark`, expected one of `dingtalk`, `feishu`, `slack`";
        assert_eq!(reworded(reason), "unknown value; did you mean \"feishu\"?");
        assert_eq!(reworded("invalid type: map, expected struct WorkerSection"), "must be a table");
    }
}
