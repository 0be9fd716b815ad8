//! The program's Lua scripts, read from its sources.

#[path = "../../../src/broker/client/assemble.rs"]
mod assemble;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use redis::Value;

use super::redis_server::RedisServer;

const PRELUDE: &str = include_str!("../../../src/broker/client/prelude.lua");

/// Each script with the whole prelude in front, by name.
static SOURCES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut found = BTreeMap::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/broker"), &mut found);
    assert!(!found.is_empty(), "no scripts were found");
    found
});

fn gather(folder: &Path, found: &mut BTreeMap<String, String>) {
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let own = fs::read_to_string(&path).unwrap();
            if own != PRELUDE {
                assert!(
                    found.insert(name, format!("{PRELUDE}{own}")).is_none(),
                    "two scripts have the same name: {path:?}"
                );
            }
        }
    }
}

/// Returns the names of all scripts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.keys().map(String::as_str)
}

/// Returns a script with the whole prelude in front.
pub(crate) fn source(name: &str) -> &'static str {
    &SOURCES[name]
}

/// Returns a script as the program sends it: with the parts of the prelude that it uses in front.
pub(crate) fn as_sent(source: &str) -> String {
    assemble::assemble(PRELUDE, source.strip_prefix(PRELUDE).unwrap_or(source))
}

/// Loads a script, given with or without the prelude, and returns the hash by which the program calls it.
pub(crate) fn sha(server: &RedisServer, source: &str) -> String {
    let Value::BulkString(sha) = server.cmd(&["SCRIPT", "LOAD", &as_sent(source)]) else {
        panic!("SCRIPT LOAD returned no hash")
    };
    String::from_utf8(sha).unwrap()
}
