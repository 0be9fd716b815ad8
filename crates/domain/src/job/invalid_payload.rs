//! Why a payload does not fit the schema of its type, by its fields.

use std::fmt;

/// Why a payload does not fit the schema of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidPayload {
    /// What is wrong with it: at least one problem, and at most [`InvalidPayload::MAX_PROBLEMS`].
    pub problems: Vec<PayloadProblem>,
    /// True if more problems were found. Of a payload above 64 KiB, only the first problem is reported.
    pub has_more: bool,
}

/// What is wrong with one value of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadProblem {
    /// The place of the value as a JSON pointer, such as `/items/0/sku`; empty for the payload as a whole. A longer one than
    /// 200 bytes is cut.
    pub pointer: String,
    /// What is wrong with it, in at most 300 bytes. It quotes at most the first 40 characters of the value.
    pub reason: String,
}

impl PayloadProblem {
    /// Creates a problem with the value at `pointer`.
    #[doc(hidden)]
    pub fn new(pointer: String, reason: String) -> Self {
        Self { pointer, reason }
    }
}

impl InvalidPayload {
    /// Creates the reason of these problems, of which there must be at least one.
    #[doc(hidden)]
    pub fn new(problems: Vec<PayloadProblem>, has_more: bool) -> Self {
        Self { problems, has_more }
    }

    /// The most problems that are reported.
    pub const MAX_PROBLEMS: usize = 3;
}

impl fmt::Display for InvalidPayload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, problem) in self.problems.iter().enumerate() {
            let between = if nth == 0 { "" } else { "; " };
            write!(out, "{between}{problem}")?;
        }
        if self.has_more { out.write_str("; and more") } else { Ok(()) }
    }
}

impl std::error::Error for InvalidPayload {}

impl fmt::Display for PayloadProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => out.write_str(&self.reason),
            pointer => write!(out, "{pointer}: {}", self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_shown_with_its_place() {
        let problem = |pointer: &str, reason: &str| PayloadProblem {
            pointer: pointer.to_owned(),
            reason: reason.to_owned(),
        };
        let problems = vec![problem("", "it is too small"), problem("/to", "is required, but missing")];
        let mut invalid = InvalidPayload { problems, has_more: false };
        assert_eq!(invalid.to_string(), "it is too small; /to: is required, but missing");
        invalid.has_more = true;
        assert_eq!(invalid.to_string(), "it is too small; /to: is required, but missing; and more");
    }
}
