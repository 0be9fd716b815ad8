//! `streamfleet history stats`: how many jobs ended in a time, by type and state.

use streamfleet::job::{QueueName, Timestamp};
use streamfleet_operations::history::{self, PastCount, PastCounts};
use streamfleet_sql::Database;

use crate::Context;
use crate::exit::Exit;
use crate::output::{self, View};
use crate::times::{self, Bound};

/// How `history stats` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet history stats
  streamfleet history stats --queue mail --since 30d --until 1d";

/// The arguments of `history stats`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// Only jobs that ended since this time, or so long ago.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = times::bound)]
    since: Bound,
    /// Only jobs that ended before this time, or more than so long ago. Default: until now.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    until: Option<Bound>,
}

/// The instant that somebody has named, by the clock of this machine.
pub(super) fn instant(bound: Bound, context: &Context) -> Timestamp {
    match bound {
        Bound::At(moment) => context.clock.instant(moment),
        Bound::Ago(age) => {
            let ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            Timestamp::from_ms(now_ms().saturating_sub(ms)).unwrap_or_default()
        }
    }
}

/// The time by the clock of this machine, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Counts the jobs.
pub(super) async fn run(args: Args, database: &Database, context: &Context) -> anyhow::Result<Exit> {
    let now = Timestamp::from_ms(now_ms()).unwrap_or_default();
    let until = args.until.map_or(now, |bound| instant(bound, context));
    let counts = history::stats(database, &args.queue, (instant(args.since, context), until)).await?;
    let names = |counts: &PastCounts| counts.counts.iter().map(|count| count.job_type.clone()).collect();
    context.output.print_named(&counts, names, show)?;
    Ok(Exit::Done)
}

fn show(counts: &PastCounts) -> View {
    if counts.counts.is_empty() {
        return "no job ended in this time".to_owned().into();
    }
    let table = output::table_of(
        &counts.counts,
        &[
            ("TYPE".into(), &|count: &PastCount| count.job_type.clone()),
            ("STATE".into(), &|count: &PastCount| count.state.to_owned()),
            ("JOBS".into(), &|count: &PastCount| count.jobs.to_string()),
        ],
    );
    if counts.complete {
        table.into()
    } else {
        format!("{table}\na state has 10,000+ jobs: its latest 10,000 were counted; for all, ask for shorter times").into()
    }
}
