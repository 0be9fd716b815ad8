//! The server that the tests start: the one that `STREAMFLEET_TEST_REDIS` names, otherwise `redis-server` or `valkey-server`
//! from the `PATH`. Sandboxes and commands of this crate that start a server use the same one.

use std::io::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The environment variable that names the server. Programs that tests start inherit it.
pub const VARIABLE: &str = "STREAMFLEET_TEST_REDIS";

/// Returns the path of the server. With `--sentinel` after its configuration file it is a sentinel, whatever its name.
pub fn path() -> &'static PathBuf {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        let found = streamfleet::dev_server::program();
        found.unwrap_or_else(|error| panic!("these tests need a server: {error}"))
    });
    &PATH
}

/// Prints, even if the test passes, that this server lacks a feature that the test needs.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    // The output of macros is shown only if a test fails.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "skip {}: {why}", thread.name().unwrap_or("a test")).unwrap();
}
