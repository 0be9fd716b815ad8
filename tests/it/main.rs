//! Integration tests: the library and the real binary against real servers.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
#[cfg(feature = "alerts")]
mod alerts;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod bulk;
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod concurrency;
#[cfg(test)]
mod console;
#[cfg(test)]
mod cron;
#[cfg(test)]
mod dead;
#[cfg(test)]
mod exec;
#[cfg(test)]
mod failpoints;
#[cfg(test)]
mod gates;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod input;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod kit;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod model;
#[cfg(test)]
mod pools;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod program;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod recycle;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod rolling;
#[cfg(test)]
mod running;
#[cfg(test)]
#[cfg(all(feature = "sabotage", debug_assertions))]
mod sabotage;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod selftest;
#[cfg(test)]
mod sentinel;
#[cfg(test)]
mod size;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod submit;
#[cfg(test)]
mod tls;
#[cfg(test)]
#[cfg(feature = "otlp")]
mod traces;
#[cfg(test)]
mod traps;
#[cfg(test)]
mod unknown;
#[cfg(test)]
mod wire;
