//! The program's Lua scripts, read from its sources.

#[path = "../../../../crates/engine/src/client/assemble.rs"]
mod assemble;
pub mod attempts;
mod calls;
pub mod keys;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use redis::Value;
use ring::digest;

pub use calls::Scripts;

use crate::redis_server::RedisServer;
use assemble::PRELUDE;

/// Each script with the whole prelude in front, by name.
static SOURCES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut found = BTreeMap::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/engine/src"), &mut found);
    assert!(!found.is_empty(), "no scripts were found");
    found
});

fn gather(folder: &Path, found: &mut BTreeMap<String, String>) {
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("client/prelude") {
                gather(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let own = fs::read_to_string(&path).unwrap();
            let before = found.insert(name, format!("{PRELUDE}{own}"));
            assert!(before.is_none(), "two scripts have the same name: {path:?}");
        }
    }
}

/// Returns the names of all scripts.
pub fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.keys().map(String::as_str)
}

/// Returns a script with the whole prelude in front: too long for Lua if the script itself has many names. See [`as_sent`].
pub fn source(name: &str) -> &'static str {
    &SOURCES[name]
}

/// Returns a script as the program sends it: with the parts of the prelude that it uses in front.
pub fn as_sent(source: &str) -> Arc<str> {
    /// What was returned before, since tests call few scripts often.
    static KNOWN: Mutex<BTreeMap<String, Arc<str>>> = Mutex::new(BTreeMap::new());
    if let Some(known) = KNOWN.lock().unwrap().get(source) {
        return Arc::clone(known);
    }
    let sent: Arc<str> = assemble::assemble(PRELUDE, source.strip_prefix(PRELUDE).unwrap_or(source)).into();
    KNOWN.lock().unwrap().insert(source.to_owned(), Arc::clone(&sent));
    sent
}

/// Loads a script, given with or without the prelude, and returns the hash by which the program calls it.
pub fn sha(server: &RedisServer, source: &str) -> String {
    let Value::BulkString(sha) = server.cmd(&["SCRIPT", "LOAD", &as_sent(source)]) else {
        panic!("SCRIPT LOAD returned no hash")
    };
    String::from_utf8(sha).unwrap()
}

/// Returns the hash by which Redis knows a script, given as it is sent.
pub fn sha1(sent: &str) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, sent.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Loads a script and calls it as the program does. Returns its reply.
pub fn reply(server: &RedisServer, source: &str, keys: &[&str], args: &[impl AsRef<[u8]>]) -> Value {
    let sent = as_sent(source);
    let mut both = redis::pipe();
    both.cmd("SCRIPT").arg("LOAD").arg(&*sent);
    both.cmd("EVALSHA").arg(sha1(&sent)).arg(keys.len()).arg(keys);
    for arg in args {
        both.arg(arg.as_ref());
    }
    let reply = server.try_pipe(&both).and_then(|mut replies| replies.remove(1).extract_error());
    reply.unwrap_or_else(|error| panic!("redis on port {} answered: {error}", server.port()))
}

/// Returns the status and the rest of an answer.
pub fn status_and_rest(answer: Value) -> (i64, Vec<Value>) {
    match answer {
        Value::Array(mut items) => match items.remove(0) {
            Value::Int(status) => (status, items),
            other => panic!("the answer begins with {other:?}"),
        },
        other => panic!("the answer is {other:?}"),
    }
}

/// Returns the arguments of a script that handles several jobs per call: the consumer and the lane, then the values of each
/// job, which begin with its entry and its generation.
pub fn jobs_args(consumer: &str, lane: &str, jobs: &[&[impl AsRef<[u8]>]]) -> Vec<Vec<u8>> {
    let mut args = Vec::from([consumer, lane].map(|text| text.as_bytes().to_vec()));
    for values in jobs {
        args.push(values.len().to_string().into_bytes());
        args.extend(values.iter().map(|value| value.as_ref().to_vec()));
    }
    args
}

/// Returns each job's answer in the reply of such a script.
pub fn answers(reply: Value) -> Vec<Value> {
    match status_and_rest(reply) {
        (1, mut rest) => match rest.pop() {
            Some(Value::Array(answers)) => answers,
            other => panic!("the answers are {other:?}"),
        },
        other => panic!("the answer is {other:?}"),
    }
}

/// Returns the status and the rest of the only one of these answers.
pub fn only_answer(mut answers: Vec<Value>) -> (i64, Vec<Value>) {
    assert_eq!(answers.len(), 1, "{answers:?}");
    match answers.remove(0) {
        Value::Int(status) => (status, Vec::new()),
        answer => status_and_rest(answer),
    }
}
