//! Checks what ARCHITECTURE.md and CONTRIBUTING.md say about the structure of the code, so that it stays true. Each
//! finding names the place and the rule.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources fails")]

mod dependencies;
mod keys;
mod packages;
mod scripts;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The most code lines of a file, without its tests.
const FILE_LINES: usize = 500;

/// The most lines of a function.
const FUNCTION_LINES: usize = 70;

/// File names that do not say what is inside.
const BANNED_NAMES: [&str; 8] = ["util", "utils", "common", "helpers", "misc", "types", "core", "manager"];

/// Phrases that the authors once used among themselves, or that nobody says. The plain words are in ARCHITECTURE.md.
const BANNED_PHRASES: [&str; 5] = ["told of", "cannot be had", "whoever", "anew", "stood still"];

/// The sources of all crates, without the tests.
const CRATES: [&str; 8] = [
    "src",
    "crates/domain/src",
    "crates/engine/src",
    "crates/operations/src",
    "crates/service/src",
    "crates/sql/src",
    "program/src",
    "program/demo/src",
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

/// The sources of all packages and of their tests.
fn everything() -> impl Iterator<Item = Source> {
    CRATES.into_iter().chain(["tests"]).flat_map(sources)
}

fn assert_none(findings: Vec<String>) {
    let text = findings.iter().fold(String::new(), |mut text, finding| {
        writeln!(text, "  {finding}").unwrap();
        text
    });
    assert!(findings.is_empty(), "{} findings:\n{text}", findings.len());
}

/// Returns the path of a file's module from the root of its crate.
fn module(file: &Path) -> Vec<String> {
    let text = file.to_string_lossy();
    let inside = text.split_once("src/").unwrap().1.trim_end_matches(".rs");
    let mut names: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// Returns the name that a line declares: `mod name;`, or a file that takes the place of one, `path = "name.rs"`.
fn declaration(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let instead = line.split_once("path = \"").and_then(|(_, rest)| rest.split_once(".rs\""));
    let (before, name) = match instead {
        Some((name, _)) => ("", name),
        None => line.split_once("mod ").and_then(|(before, rest)| Some((before, rest.strip_suffix(';')?)))?,
    };
    (!before.contains("//")).then_some(name)
}

/// Returns the files of a crate that no line declares: the compiler never sees them.
fn undeclared(sources: &[Source]) -> Vec<String> {
    let mut declared: BTreeSet<Vec<String>> = BTreeSet::from([Vec::new()]);
    for source in sources {
        let names = source.lines.iter().filter_map(|line| declaration(line));
        declared.extend(names.map(|name| [module(&source.path), vec![name.to_owned()]].concat()));
    }
    let strays = sources.iter().filter(|source| !declared.contains(&module(&source.path)));
    strays.map(|source| source.at(0, "no `mod` declares this file")).collect()
}

#[test]
fn every_file_belongs_to_its_crate() {
    let findings = CRATES.into_iter().flat_map(|folder| undeclared(&sources(folder)));
    assert_none(findings.collect());
    let stray = Source { path: "src/broker.rs".into(), lines: vec![] };
    let lib = Source { path: "src/lib.rs".into(), lines: vec!["pub mod job;".to_owned()] };
    assert_eq!(undeclared(&[lib, stray]).len(), 1);
}

#[test]
fn the_domain_is_pure() {
    let impure = ["Instant::now", "SystemTime", "rand::", "tokio::", "std::fs", "std::net", "std::env"];
    let mut findings = Vec::new();
    for source in sources("crates/domain/src") {
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
fn documentation_stands_alone() {
    let leans =
        |line: &&str| ["The same", "Does the same", "As ["].iter().any(|start| line.starts_with(start));
    let mut findings = Vec::new();
    for source in everything() {
        for (at, line) in source.lines.iter().enumerate() {
            let doc = line.trim_start().strip_prefix("/// ");
            let begins = at == 0 || !source.lines[at - 1].trim_start().starts_with("///");
            if begins && doc.filter(leans).is_some() {
                findings.push(
                    source.at(at, "a doc comment says what the item is or does, without the one above"),
                );
            }
        }
    }
    assert_none(findings);
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

/// Returns the files that users read, and the sources of what programs show to them.
fn read_by_users() -> Vec<PathBuf> {
    let folders = [
        ("src", "rs"),
        ("src", "lua"),
        ("crates", "rs"),
        ("crates", "lua"),
        ("program", "rs"),
        ("docs", "md"),
        ("deploy", "md"),
        ("deploy", "yaml"),
        ("deploy", "sh"),
        ("deploy", "conf"),
        ("config", "toml"),
        ("grafana/source", "py"),
    ];
    let mut found = vec![root().join("README.md")];
    for (folder, ending) in folders {
        files(&root().join(folder), ending, &mut found);
    }
    found.sort();
    found
}

/// Returns each banned phrase in a text, with its line, counted from 0. A line break may split a phrase.
fn banned_phrases(text: &str) -> Vec<(usize, &'static str)> {
    let words = text.lines().enumerate().flat_map(|(at, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(move |word| (at, word.to_lowercase()))
    });
    let words: Vec<(usize, String)> = words.collect();
    let mut found = Vec::new();
    for phrase in BANNED_PHRASES {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        for place in words.windows(wanted.len()) {
            if place.iter().map(|(_, word)| word.as_str()).eq(wanted.iter().copied()) {
                found.push((place[0].0, phrase));
            }
        }
    }
    found
}

#[test]
fn nothing_that_users_read_has_a_banned_phrase() {
    let mut findings = Vec::new();
    for path in read_by_users() {
        let text = fs::read_to_string(&path).unwrap();
        let place = path.strip_prefix(root()).unwrap().display();
        for (line, phrase) in banned_phrases(&text) {
            findings.push(format!("{place}:{}: use plain words instead of {phrase:?}", line + 1));
        }
    }
    assert_none(findings);
}

#[test]
fn a_banned_phrase_is_found_in_names_and_across_lines() {
    let spoiled = "/// A queue that cannot be\n/// had.\nlet told_of = 1; // Whoever asks.\n";
    assert_eq!(banned_phrases(spoiled), [(2, "told of"), (0, "cannot be had"), (2, "whoever")]);
    let sound = "/// The job that a hook was told about cannot be lost. It had a lease.\n";
    assert!(banned_phrases(sound).is_empty());
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

/// The last cell of each row of `docs/source-systems.md` names a test.
#[test]
fn tests_named_in_documents_exist() {
    let page = fs::read_to_string(root().join("docs/source-systems.md")).unwrap();
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
