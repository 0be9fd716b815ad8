//! Integration tests of what operators look at: the console, its API, and messages about incidents.
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod alerts;
#[cfg(test)]
mod console;
