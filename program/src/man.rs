//! `streamfleet man`: manual pages, made from the same text as the help.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use super::Cli;
use super::exit::Exit;
use super::output::Output;

/// How `man` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet man | man -l -
  streamfleet man --dir ~/.local/share/man/man1";

/// The arguments of `man`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write the pages of all commands into this directory: streamfleet.1, streamfleet-dead-list.1 and so on.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the program's own page, or writes all pages.
pub(crate) fn run(args: &Args, output: Output) -> anyhow::Result<Exit> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        output.line(String::from_utf8(page)?.trim_end())?;
        return Ok(Exit::Done);
    };
    let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.with_context(|| format!("failed to write the manual pages into {}", dir.display()))?;
    Ok(Exit::Done)
}
