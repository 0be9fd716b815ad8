//! Integration tests of the command line, and of the kit for tests of users.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod cli;
#[cfg(test)]
mod kit;
