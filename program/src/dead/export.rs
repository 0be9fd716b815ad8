//! `dead export`: dead letters with all their fields, as JSON, one per line. Nothing is kept in memory but one page.

use anyhow::Context as _;
use streamfleet::Queue;

use super::{Letters, show};
use crate::exit::Exit;
use crate::output::{self, json_line};
use crate::{Context, Wrong};

/// How `dead export` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dead export --all --queue mail > dead.ndjson
  streamfleet dead export --type mail.send --dead-reason fatal";

/// What the error says if Redis fails.
const FAILED: &str = "failed to read the dead letters";

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
    let selection = queue.dead_letters().select(filter).await.context(FAILED)?;
    let (mut after, mut undecided) = (None, 0);
    loop {
        let page = queue.dead_letters().selected(&selection, after).await.context(FAILED)?;
        undecided += page.undecided;
        for letter in &page.letters {
            if !context.output.print_while_read(&json_line(&show::report(
                letter,
                queue,
                &context.effective,
            ))?)? {
                return Ok(Exit::Done);
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if undecided > 0 {
        output::print_stderr(&format!(
            "{undecided} dead letters are left out: the filter cannot read their payloads"
        ));
    }
    Ok(Exit::Done)
}
