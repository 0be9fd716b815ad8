//! Integration tests of what operators look at: the console, its API, and messages about incidents.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
#[cfg(feature = "alerts")]
mod alerts;
#[cfg(test)]
mod console;
