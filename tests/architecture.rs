//! Checks what ARCHITECTURE.md and CONTRIBUTING.md say about the structure of the code, so that it stays true. Each
//! finding names the place and the rule.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources fails")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The most code lines of a file, without its tests.
const FILE_LINES: usize = 500;

/// The most lines of a function.
const FUNCTION_LINES: usize = 70;

/// File names that do not say what is inside.
const BANNED_NAMES: [&str; 8] = ["util", "utils", "common", "helpers", "misc", "types", "core", "manager"];

/// Which part of the library may import which: imports go down only.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("job", &[]),
    ("cron", &["job"]),
    ("event", &["job"]),
    ("sabotage", &[]),
    ("broker", &["job", "cron", "sabotage", "tls"]),
    ("tls", &[]),
    ("traces", &["job", "event", "tls"]),
    ("telemetry", &["job", "event", "broker", "traces"]),
    ("producer", &["job", "broker", "sabotage", "traces"]),
    ("health", &["job", "broker"]),
    ("worker", &["job", "event", "broker", "sabotage", "traces", "health"]),
    (
        "handlers",
        &["job", "event", "tls", "worker", "Handler", "JobContext", "JobError", "Payload", "RawPayload"],
    ),
    ("maintenance", &["job", "cron", "event", "broker", "sabotage", "health"]),
    ("hooks", &["job", "event", "broker"]),
    ("autoscale", &["job", "broker"]),
    ("shutdown", &[]),
    ("recycle", &["worker", "health"]),
    ("testing", &["job", "broker", "producer", "worker", "fleet", "shutdown", "dev_server"]),
    ("dev_server", &["handlers"]),
    (
        "config",
        &[
            "job",
            "cron",
            "broker",
            "worker",
            "handlers",
            "hooks",
            "telemetry",
            "fleet",
            "producer",
            "FleetConfig",
            "Fleet",
            "Builder",
        ],
    ),
    (
        "fleet",
        &[
            "job",
            "cron",
            "event",
            "broker",
            "worker",
            "hooks",
            "traces",
            "maintenance",
            "health",
            "recycle",
            "autoscale",
            "shutdown",
            "handlers",
        ],
    ),
    (
        "service",
        &["broker", "event", "traces", "telemetry", "health", "autoscale", "fleet", "shutdown", "config"],
    ),
];

struct Source {
    path: PathBuf,
    lines: Vec<String>,
}

impl Source {
    fn code(&self) -> &[String] {
        let tests =
            self.lines.iter().position(|line| line.trim() == "#[cfg(test)]" && !line.starts_with(' '));
        &self.lines[..tests.unwrap_or(self.lines.len())]
    }

    fn at(&self, line: usize, rule: &str) -> String {
        format!("{}:{}: {rule}", self.path.display(), line + 1)
    }

    fn is_test(&self) -> bool {
        self.path.starts_with("tests") || self.path.ends_with("tests.rs") || self.path.ends_with("fixture.rs")
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    files(&root().join(folder), "rs", &mut paths);
    paths.sort();
    let read = |path: PathBuf| Source {
        lines: fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect(),
        path: path.strip_prefix(root()).unwrap().to_owned(),
    };
    paths.into_iter().map(read).collect()
}

/// The sources of both packages and of their tests.
fn everything() -> impl Iterator<Item = Source> {
    ["src", "program/src", "tests"].into_iter().flat_map(sources)
}

fn assert_none(findings: Vec<String>) {
    let text = findings.iter().fold(String::new(), |mut text, finding| {
        writeln!(text, "  {finding}").unwrap();
        text
    });
    assert!(findings.is_empty(), "{} findings:\n{text}", findings.len());
}

/// Returns the part of the library that a file belongs to.
fn layer(path: &Path) -> String {
    let inside = path.strip_prefix("src").unwrap();
    let first = inside.iter().next().unwrap().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Returns what a line imports from this crate: the names after each `crate::`.
fn imports(line: &str) -> impl Iterator<Item = String> + '_ {
    line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with("pub(")).flat_map(|(at, found)| {
        let rest = &line[at + found.len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap().split(',').map(str::trim).collect(),
            None => vec![rest],
        };
        let name =
            |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        names.into_iter().map(name).filter(|name| !name.is_empty()).collect::<Vec<_>>()
    })
}

#[test]
fn imports_go_down_only() {
    let mut findings = Vec::new();
    for source in sources("src") {
        let layer = layer(&source.path);
        if layer == "lib" || source.is_test() {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == layer) else {
            findings.push(source.at(0, "this part is missing from the import table MAY_IMPORT"));
            continue;
        };
        for (at, line) in
            source.code().iter().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for import in imports(line) {
                if import != layer && !allowed.contains(&import.as_str()) {
                    findings.push(source.at(at, &format!("{layer} must not import {import}")));
                }
            }
        }
    }
    assert_none(findings);
}

#[test]
fn only_the_broker_names_the_redis_client() {
    let mut findings = Vec::new();
    for source in sources("src").iter().filter(|source| !source.path.starts_with("src/broker")) {
        for (at, line) in source.lines.iter().enumerate() {
            if line.contains("fred::") && !line.trim_start().starts_with("//") {
                findings.push(source.at(at, "uses the Redis client outside src/broker"));
            }
        }
    }
    assert_none(findings);
}

#[test]
fn the_domain_is_pure() {
    let impure = ["Instant::now", "SystemTime", "rand::", "tokio::", "std::fs", "std::net", "std::env"];
    let mut findings = Vec::new();
    for source in sources("src/job").into_iter().chain(sources("src/cron")) {
        for (at, line) in
            source.code().iter().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for word in impure.iter().filter(|word| line.contains(**word)) {
                findings.push(source.at(at, &format!("{word} in the domain")));
            }
        }
    }
    assert_none(findings);
}

#[test]
fn every_file_has_a_header() {
    let all = everything();
    let silent = all.filter(|source| !source.lines.first().is_some_and(|line| line.starts_with("//!")));
    assert_none(silent.map(|source| source.at(0, "has no //! header")).collect());
}

#[test]
fn no_file_and_no_function_is_too_long() {
    let mut findings = Vec::new();
    for source in everything() {
        let code = source.code();
        if code.len() > FILE_LINES {
            findings
                .push(source.at(0, &format!("{} lines, but at most {FILE_LINES} are allowed", code.len())));
        }
        for (from, to) in functions(&source.lines) {
            if to - from + 1 > FUNCTION_LINES {
                let lines = to - from + 1;
                findings.push(source.at(
                    from,
                    &format!("a function of {lines} lines, but at most {FUNCTION_LINES} are allowed"),
                ));
            }
        }
    }
    assert_none(findings);
}

/// Returns the first and last line of each function with a body, as rustfmt lays them out: the closing brace has the
/// indentation of the `fn`.
fn functions(lines: &[String]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (from, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let words: Vec<&str> = code.split_whitespace().take(5).collect();
        let is_fn =
            words.contains(&"fn") && !code.starts_with("//") && !code.ends_with(';') && !code.contains('"');
        if is_fn && let Some(length) = lines[from..].iter().position(|line| *line == format!("{indent}}}")) {
            found.push((from, from + length));
        }
    }
    found
}

#[test]
fn no_file_has_a_vague_name() {
    let all = everything();
    let named = all.filter(|source| {
        let stem = source.path.file_stem().unwrap().to_string_lossy().into_owned();
        BANNED_NAMES.contains(&stem.as_str())
    });
    assert_none(named.map(|source| source.at(0, "this file name does not say what is inside")).collect());
}

#[test]
fn every_script_states_its_contract_and_is_used_by_a_neighbor() {
    let mut scripts = Vec::new();
    files(&root().join("src/broker"), "lua", &mut scripts);
    let mut findings = Vec::new();
    for path in scripts {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        if !text.starts_with(&format!("-- {name}: ")) {
            findings.push(format!("{name}.lua does not begin with its name and purpose"));
        }
        if name == "prelude" {
            continue;
        }
        for part in ["-- KEYS ", "-- returns {"] {
            if !text.contains(part) {
                findings.push(format!("{name}.lua has no line that begins with {part:?}"));
            }
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

#[test]
fn no_unfinished_code_and_no_machine_specific_path() {
    let mut findings = Vec::new();
    // The words are assembled here, so that this file does not find itself.
    let marks = [
        ["todo", "!("].concat(),
        ["unimplemented", "!("].concat(),
        ["#[ig", "nore"].concat(),
        ["/ro", "ot/"].concat(),
    ];
    for source in everything() {
        for (at, line) in source.lines.iter().enumerate() {
            for mark in marks.iter().filter(|mark| line.contains(mark.as_str())) {
                findings.push(source.at(at, &format!("{mark} in the code")));
            }
        }
    }
    assert_none(findings);
}

/// The last cell of each row of `docs/coming-from-php.md` names a test.
#[test]
fn tests_named_in_documents_exist() {
    let page = fs::read_to_string(root().join("docs/coming-from-php.md")).unwrap();
    let rows = page.lines().filter(|line| {
        let head = line.strip_prefix("| ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        head.len() > 1 && head[1..].bytes().all(|byte| byte.is_ascii_digit())
    });
    let all: String = everything().flat_map(|source| source.lines).collect();
    let named: Vec<&str> = rows.map(|row| row.rsplit('`').nth(1).unwrap_or_default()).collect();
    assert!(named.len() >= 90, "only {} rows were found", named.len());
    let unknown = named.into_iter().filter(|name| !all.contains(&format!("fn {name}(")));
    assert_none(unknown.map(|name| format!("there is no test {name}")).collect());
}
