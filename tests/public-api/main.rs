//! Prints the public API that rustdoc describes in a JSON file, one item per line. `tests/public-api.sh` compares the
//! items with those that are checked in. It never runs rustdoc itself.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context as _, ensure};

/// The format of rustdoc's JSON that this version of the crate `public-api` reads.
const FORMAT: u32 = 57;

/// The only part of the JSON that every format has.
#[derive(serde::Deserialize)]
struct Header {
    format_version: u32,
}

fn main() -> anyhow::Result<()> {
    let path = env::args_os().nth(1).map(PathBuf::from).context("usage: streamfleet-public-api FILE.json")?;
    let json = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let header: Header = serde_json::from_slice(&json)
        .with_context(|| format!("{} is not what rustdoc writes", path.display()))?;
    let found = header.format_version;
    ensure!(
        found == FORMAT,
        "rustdoc of this toolchain writes JSON of format {found}, but the public API is listed from format {FORMAT}, \
         which Rust 1.95 writes. Run `RUSTUP_TOOLCHAIN=1.95 make public-api`, or choose a version of the crate \
         public-api that reads format {found}, in tests/public-api/Cargo.toml, and change FORMAT in main.rs beside it"
    );
    let api = public_api::Builder::from_rustdoc_json(&path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("the crate public-api cannot read {}", path.display()))?;
    let mut out = io::stdout().lock();
    for item in api.items() {
        writeln!(out, "{item}")?;
    }
    Ok(out.flush()?)
}
