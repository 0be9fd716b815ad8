//! Integration tests of what becomes of a job, on real servers: how it is submitted, its states, its record, and what follows its end.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod codecs;
#[cfg(test)]
mod cron;
#[cfg(test)]
mod generations;
#[cfg(test)]
mod history;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod submit;
#[cfg(test)]
mod unknown;
#[cfg(test)]
mod wire;
