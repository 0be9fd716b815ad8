//! The names of keys: only `keys.rs` of the engine builds them and, in scripts, `prelude/keys.lua`.

use std::collections::BTreeSet;
use std::fs;

use super::{CRATES, assert_none, files, root, sources};

/// Literals of scripts that look like parts of keys, but name a field of a record, waiting lists and a rule.
const NO_KEYS: [&str; 4] = ["dead:", "fair:", "fair:%s:#%d", "f:fair"];

/// The kinds of the keys that have the state of a gate.
const OF_GATES: [&str; 5] = ["rate", "held", "unstarted", "breaker", "claim"];

#[test]
fn only_one_file_of_rust_builds_keys() {
    let mut findings = Vec::new();
    for source in CRATES.into_iter().flat_map(sources) {
        if source.path.ends_with("client/keys.rs") {
            continue;
        }
        for (at, line) in source.code().iter().enumerate() {
            // What has `*` for its tag is a pattern.
            let has_tag = line.contains(":{{") && !line.contains(":{{*}}");
            // Redis may have said the name.
            let is_built = line.contains("Key::from(") && !line.contains("Key::from(decode::data(");
            if has_tag || is_built {
                findings.push(source.at(at, "only client/keys.rs builds keys"));
            }
        }
    }
    assert_none(findings);
}

#[test]
fn only_one_file_of_lua_builds_keys() {
    let words = key_words();
    let mut scripts = Vec::new();
    files(&root().join("crates/engine/src"), "lua", &mut scripts);
    let mut findings = Vec::new();
    for path in scripts.iter().filter(|path| !path.ends_with("prelude/keys.lua")) {
        for (at, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            for part in parts_of_keys(line, &words) {
                let rule = format!("{part:?} is part of a key, and only prelude/keys.lua builds keys");
                findings.push(format!("{}:{}: {rule}", path.display(), at + 1));
            }
        }
    }
    assert_none(findings);
}

#[test]
fn a_part_of_a_key_is_found() {
    let words = key_words();
    let spoiled =
        ["string.gsub(dead, 'dead$', '')", "dead .. ':letters'", "prefix .. 'endings'", "'job:' .. id"];
    for line in spoiled {
        assert_eq!(parts_of_keys(line, &words).len(), 1, "{line}");
    }
    let sound = ["-- 'job:' .. id", "redis.call('HGET', record, 'dead:' .. life)", "{ 'delayed', 5 }"];
    for line in sound {
        assert!(parts_of_keys(line, &words).is_empty(), "{line}");
    }
}

/// Returns the words in the names of keys.
fn key_words() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("crates/engine/src/client/keys.rs")).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let names = code.split("key(\"").skip(1).chain(code.split("\"{}:").skip(1));
    let names = names.filter_map(|rest| rest.split(['"', '{']).next());
    let words = names.flat_map(|name| name.split(':')).chain(OF_GATES);
    words.filter(|word| word.len() > 1).map(str::to_owned).collect()
}

/// Returns the literals in a line of Lua that are parts of keys: they have a word of a key, and a colon or the end of a pattern,
/// or something is appended to them or before them.
fn parts_of_keys<'a>(line: &'a str, words: &BTreeSet<String>) -> Vec<&'a str> {
    if line.trim_start().starts_with("--") {
        return Vec::new();
    }
    let parts: Vec<&str> = line.split('\'').collect();
    let is_part = |at: usize| {
        let (literal, after) = (parts[at], parts.get(at + 1).copied().unwrap_or_default());
        let is_joined = parts[at - 1].trim_end().ends_with("..") || after.trim_start().starts_with("..");
        let has_word = literal.split(|c: char| !c.is_ascii_lowercase()).any(|word| words.contains(word));
        let is_name = !literal.contains([' ', '(']) && !NO_KEYS.contains(&literal);
        is_name && has_word && (is_joined || literal.contains([':', '$']))
    };
    (1..parts.len()).step_by(2).filter(|at| is_part(*at)).map(|at| parts[at]).collect()
}
