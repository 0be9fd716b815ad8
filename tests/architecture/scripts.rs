//! The scripts: what each states in its first lines, and whether the names of its arguments are those that Rust fills.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{assert_none, files, root, sources};

#[test]
fn every_script_states_its_contract_and_is_used_by_a_neighbor() {
    let mut scripts = Vec::new();
    files(&root().join("crates/engine/src"), "lua", &mut scripts);
    let mut findings = Vec::new();
    for path in scripts {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        if !text.starts_with(&format!("-- {name}: ")) {
            findings.push(format!("{name}.lua does not begin with its name and purpose"));
        }
        if path.parent().unwrap().ends_with("client/prelude") {
            continue;
        }
        for part in ["KEYS", "-- returns {"] {
            if !text.contains(part) {
                findings.push(format!("{name}.lua does not contain {part:?}"));
            }
        }
        // The reports of `ask` name keys by their numbers.
        if !text.contains("ask(") && text.lines().any(uses_a_number) {
            findings.push(format!("{name}.lua uses a key or an argument that it has not named at its top"));
        }
        let mut neighbors = Vec::new();
        files(path.parent().unwrap(), "rs", &mut neighbors);
        let entry = format!("{} \"{name}\"", name.to_uppercase());
        if !neighbors.iter().any(|file| fs::read_to_string(file).unwrap().contains(&entry)) {
            findings.push(format!("no Rust file in the folder of {name}.lua uses it"));
        }
    }
    assert_none(findings);
}

/// Whether this line of a script uses a key or an argument by its number, other than to name it.
fn uses_a_number(line: &str) -> bool {
    let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let is_code = !line.starts_with("--") && !line.starts_with("local ");
    is_code && ["KEYS[", "ARGV["].into_iter().any(|list| line.split(list).skip(1).any(is_number))
}

/// Names of arguments, one after the other.
type Names = Vec<String>;

/// What a call of a script that handles several jobs begins with: `JobsCall` fills it.
const OF_EACH_CALL: [&str; 2] = ["consumer", "lane"];

#[test]
fn scripts_and_their_callers_name_the_same_arguments() {
    let mut filled = filled_arguments();
    let mut scripts = Vec::new();
    files(&root().join("crates/engine/src"), "lua", &mut scripts);
    let mut findings = Vec::new();
    for path in scripts.iter().filter(|path| !path.parent().unwrap().ends_with("client/prelude")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).unwrap();
        let mut named = named_arguments(&text);
        if text.contains("each_job(") || text.contains("settle_each(") {
            named.retain(|names| !names.iter().eq(OF_EACH_CALL.iter().take(names.len())));
        }
        let filled = filled.remove(&name).unwrap_or_default();
        if named != filled {
            findings.push(format!("{name}.lua names the arguments {named:?}, and its callers {filled:?}"));
        }
    }
    findings.extend(filled.into_keys().map(|name| format!("there is no script {name}.lua")));
    assert_none(findings);
}

#[test]
fn the_names_of_arguments_are_found() {
    let script = "local a, b = KEYS[1], f(ARGV[1])\nlocal c,\n  d = unpack(ARGV, 2)\nx.e = unpack(ARGV, 4)";
    let named = [vec!["b"], vec!["c", "d"], vec!["e"]];
    assert!(named_arguments(script).iter().eq(named.iter()));
    assert_eq!(items("id = f(\"[\", 2), count] + 1"), ["id = f(\"[\", 2)", " count"]);
}

/// Returns the arguments that a script names: those of each `… = unpack(ARGV…)`, those of a line with `ARGV[1]` and so on, and
/// those of a table `NAMES` if the script goes through it.
fn named_arguments(script: &str) -> BTreeSet<Names> {
    let is_code = |line: &&str| !line.starts_with("--");
    let lines: Vec<&str> = script.lines().map(str::trim).filter(is_code).collect();
    let code = lines.join(" ");
    let unpacked = code.match_indices("= unpack(ARGV").map(|(at, _)| names_before(&code[..at]));
    let numbered = lines.iter().map(|line| numbered_arguments(line)).filter(|names| !names.is_empty());
    let mut all: BTreeSet<Names> = unpacked.chain(numbered).collect();
    let mut places = code.split("ARGV[").skip(1).filter_map(|rest| rest.split(']').next());
    if places.any(|place| place.ends_with(" + nth - 1"))
        && let Some((_, rest)) = code.split_once("NAMES")
    {
        let table = rest.split(['{', '}']).nth(1).unwrap_or_default();
        all.insert(table.split('\'').skip(1).step_by(2).map(str::to_owned).collect());
    }
    all
}

/// Returns the names to which a value is assigned, from the text before the sign. Of `job.id`, the name is `id`.
fn names_before(code: &str) -> Names {
    let is_of_names = |c: char| c.is_ascii_alphanumeric() || "_., ".contains(c);
    let names = &code[code.trim_end_matches(is_of_names).len()..];
    let names = names.rsplit("local ").next().unwrap_or(names);
    names.split(',').map(|name| name.trim().rsplit('.').next().unwrap_or_default().to_owned()).collect()
}

/// Returns the arguments that a line names by their numbers, as in `local stream, most = KEYS[1], tonumber(ARGV[1])`.
fn numbered_arguments(line: &str) -> Names {
    let Some((names, values)) = line.strip_prefix("local ").and_then(|line| line.split_once(" = ")) else {
        return Names::new();
    };
    let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let pairs = names.split(", ").zip(items(values));
    let of_argv = pairs.filter(|(_, value)| value.split("ARGV[").skip(1).any(is_number));
    of_argv.map(|(name, _)| name.to_owned()).collect()
}

/// Returns the arguments that Rust names by `args![SCRIPT; name = value, …]`, by script.
fn filled_arguments() -> BTreeMap<String, BTreeSet<Names>> {
    let mut filled: BTreeMap<String, BTreeSet<Names>> = BTreeMap::new();
    for source in sources("crates/engine/src") {
        let lines = source.code().iter().map(String::as_str);
        let code: Vec<&str> = lines.filter(|line| !line.trim_start().starts_with("//")).collect();
        for call in code.join("\n").split("args![").skip(1) {
            let Some((scripts, values)) = call.split_once(';') else { continue };
            let name = |item: String| item.split(" = ").next().unwrap_or_default().trim().to_owned();
            let names: Names = items(values).into_iter().map(name).filter(|name| !name.is_empty()).collect();
            for script in scripts.split(", ") {
                filled.entry(script.to_lowercase()).or_default().insert(names.clone());
            }
        }
    }
    filled
}

/// Splits a list at its commas, up to the bracket that ends it.
fn items(list: &str) -> Vec<String> {
    let (mut items, mut depth, mut is_quoted) = (vec![String::new()], 0_usize, false);
    for c in list.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '(' | '[' | '{' if !is_quoted => depth += 1,
            ')' | ']' | '}' if !is_quoted => {
                let Some(outer) = depth.checked_sub(1) else { break };
                depth = outer;
            }
            ',' if !is_quoted && depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        items.last_mut().unwrap().push(c);
    }
    items
}
