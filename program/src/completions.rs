//! `streamfleet completions`: a script that teaches a shell the commands and options.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::Cli;
use super::exit::Exit;
use super::output::Output;

/// How `completions` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet completions bash > ~/.local/share/bash-completion/completions/streamfleet
  streamfleet completions fish > ~/.config/fish/completions/streamfleet.fish";

/// The arguments of `completions`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args, output: Output) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    generate(args.shell, &mut command, name, &mut script);
    output.line(String::from_utf8(script)?.trim_end())?;
    Ok(Exit::Done)
}
