//! Prints the public API that rustdoc describes in JSON files, one item per line. `tests/public-api.sh` compares the
//! items with those that are checked in. It never runs rustdoc itself.
//!
//! The first file is of the crate that users add. The others are of the crates below it: their items are printed only as far as
//! the first one exports them.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, ensure};
use public_api::PublicApi;

/// The format of rustdoc's JSON that this version of the crate `public-api` reads.
const FORMAT: u32 = 57;

/// The parts of the JSON that this program reads itself.
#[derive(serde::Deserialize)]
struct Described {
    format_version: u32,
    #[serde(default)]
    index: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    paths: serde_json::Map<String, serde_json::Value>,
}

impl Described {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let json = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let described: Self = serde_json::from_slice(&json)
            .with_context(|| format!("{} is not what rustdoc writes", path.display()))?;
        let found = described.format_version;
        ensure!(
            found == FORMAT,
            "rustdoc of this toolchain writes JSON of format {found}, but the public API is listed from format {FORMAT}, \
             which Rust 1.95 writes. Run `RUSTUP_TOOLCHAIN=1.95 make public-api`, or choose a version of the crate \
             public-api that reads format {found}, in tests/public-api/Cargo.toml, and change FORMAT in main.rs beside it"
        );
        Ok(described)
    }

    /// Returns what this crate exports of others, each as the name of its crate and its own.
    fn exported(&self) -> BTreeSet<(String, String)> {
        let uses = self.index.values().filter_map(|item| item.pointer("/inner/use/id"));
        let paths = uses.filter_map(|id| self.paths.get(&id.to_string())?.get("path")?.as_array());
        let ends = paths.filter_map(|path| Some((path.first()?.as_str()?, path.last()?.as_str()?)));
        ends.map(|(of, name)| (of.to_owned(), name.to_owned())).collect()
    }
}

fn listed(path: &Path) -> anyhow::Result<PublicApi> {
    public_api::Builder::from_rustdoc_json(path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("the crate public-api cannot read {}", path.display()))
}

/// Returns true if the line is about an item of this crate that is exported, or about a part of one.
fn is_exported(line: &str, of: &str, exported: &BTreeSet<(String, String)>) -> bool {
    let Some((_, path)) = line.split_once(&format!("{of}::")) else { return false };
    let path = path.split(['<', '(', ' ', ':']).filter(|part| !part.is_empty());
    path.take(4).any(|part| exported.contains(&(of.to_owned(), part.to_owned())))
}

fn main() -> anyhow::Result<()> {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let (first, others) =
        paths.split_first().context("usage: streamfleet-public-api FILE.json [FILE.json …]")?;
    let exported = Described::read(first)?.exported();
    let mut out = io::stdout().lock();
    for item in listed(first)?.items() {
        writeln!(out, "{item}")?;
    }
    for path in others {
        Described::read(path)?;
        let of = path.file_stem().context("a file without a name")?.to_string_lossy().into_owned();
        for item in listed(path)?.items() {
            let line = item.to_string();
            // What the crate itself exports in two modules is listed once.
            if !line.contains("::admin::") && is_exported(&line, &of, &exported) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(out.flush()?)
}
