//! `dead export`: dead letters with all their fields, as JSON, one per line. Nothing is kept in memory but one page.

use streamfleet::Queue;
use streamfleet_operations::dead::{self, LetterFields};

use super::Letters;
use crate::exit::Exit;
use crate::output::{self, json_line};
use crate::{Context, Wrong};

/// How `dead export` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dead export --all --queue mail > dead.ndjson
  streamfleet dead export --type mail.send --dead-reason fatal";

/// The ways to use `dead export`.
const USAGE: &str = "\
streamfleet dead export [OPTIONS] --all
       streamfleet dead export [OPTIONS] <FILTER>";

/// The arguments of `dead export`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(super) struct Args {
    /// All dead letters that exist now.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    letters: Letters,
}

/// Writes the letters.
pub(super) async fn run(args: Args, queue: &Queue, context: &Context) -> anyhow::Result<Exit> {
    let filter = args.letters.filter(&context.clock)?;
    if filter.is_empty() && !args.all {
        return Err(
            Wrong("select the dead letters by a filter, or add --all for all of them".to_owned()).into()
        );
    }
    let (mut export, limits) =
        (dead::export(queue, filter).await?, super::limits(queue.name(), &context.effective));
    while let Some(letters) = export.page(queue).await? {
        for letter in &letters {
            let line = json_line(&LetterFields::of(letter, queue, limits))?;
            if !context.output.print_while_read(&line)? {
                return Ok(Exit::Done);
            }
        }
    }
    let undecided = export.undecided;
    if undecided > 0 {
        let count = output::counted(undecided, "dead letter is left out", "dead letters are left out");
        output::print_stderr(&format!("{count}: the filter cannot read their payloads"));
    }
    Ok(Exit::Done)
}
