//! The server that the tests start: the one that `STREAMFLEET_TEST_REDIS` names, or else `redis-server` or `valkey-server`
//! from the `PATH`. Sandboxes and commands of this crate that start a server take the same.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// Handed on to the programs that tests start.
pub(crate) const VARIABLE: &str = "STREAMFLEET_TEST_REDIS";

/// Where it is.
pub(crate) fn path() -> &'static PathBuf {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        let found = streamfleet::dev_server::program();
        found.unwrap_or_else(|error| panic!("these tests need a server: {error}"))
    });
    &PATH
}

/// To be given arguments. With `--sentinel` behind the file it is a sentinel, whatever its name.
pub(crate) fn command() -> Command {
    Command::new(path())
}

/// Says, also where the test passes, that this server lacks what the test is about.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    // The macros' output is shown only when a test fails.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "skip {}: {why}", thread.name().unwrap_or("a test")).unwrap();
}
