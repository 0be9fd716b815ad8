//! Every command in a block of README.md and docs/*.md is one that the program has, with flags and values that it accepts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::on_call_page::words;
use harness::process::run;

/// Where the words of a command end and those of the shell begin.
const SHELL: [&str; 8] = ["|", ">", "<", "&&", "||", ";", "&", "2>"];

/// Returns the pages.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.chain([root.join("README.md")]).collect()
}

/// Returns the commands in the blocks of a page, each as its words after `streamfleet`.
fn commands(page: &str) -> Vec<Vec<String>> {
    let page = page.replace("\\\n", " ");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.trim_start().strip_prefix("streamfleet "));
    lines
        .map(|line| words(line).0.into_iter().take_while(|word| !SHELL.contains(&word.as_str())).collect())
        .collect()
}

#[test]
fn every_command_of_every_page_is_known() {
    let mut all = BTreeSet::new();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        all.extend(
            commands(&fs::read_to_string(&page).unwrap()).into_iter().map(|words| (name.clone(), words)),
        );
    }
    assert!(all.len() > 80, "{} commands", all.len());
    let mut refused = Vec::new();
    for (page, words) in all {
        // An id, in any of the forms in which pages write it.
        let id = |word: &String| if word.starts_with('<') { "1-1".to_owned() } else { word.clone() };
        let words: Vec<String> = words.iter().map(id).collect();
        // The words before `--help` are judged, and nothing is done.
        let args: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let output = run(&args, b"");
        if output.code != Some(0) {
            refused.push(format!("{page}: {}: {}", words.join(" "), output.stderr));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
