//! `streamfleet jobs`: finds jobs by state, type, payload, header, text or time, in one queue or in all.

mod row;

use indicatif::{HumanCount, ProgressBar};
use streamfleet::Broker;
use streamfleet::job::{QueueName, State};
use streamfleet_engine::admin::Filter;
use streamfleet_operations::jobs::search::{self, Facts, Found, Page, Past, Search, Start, USUAL_STATES};

pub(crate) use self::row::Told;
use super::exit::Exit;
use super::filter::{FilterArgs, LetterArgs};
use super::output::{self, Listing, Repeat};
use super::{Context, Wrong, bulk, history, queues};

/// How `jobs` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet jobs --queue mail --where payload.customer=9
  streamfleet jobs --state dead,retrying --type 'report.*' --error timeout
  streamfleet jobs --running --watch
  streamfleet jobs --state waiting --older-than 1h -o name";

/// The arguments of `jobs`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only this queue; may be repeated. Default: every queue of the namespace.
    #[arg(long, short)]
    queue: Vec<QueueName>,
    /// Only jobs in these states: waiting, running, scheduled, retrying, dead, done, cancelled. Default: all but the last
    /// two. Of these, only jobs with a record are found, by a scan of all keys of the server.
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = state)]
    state: Vec<State>,
    /// Only running jobs, the longest first.
    #[arg(long, conflicts_with_all = ["state", "after"])]
    running: bool,
    /// The maximum number of jobs. They come queue by queue, by name: first those that run, then those that wait, are delayed or
    /// dead, and in each place the oldest or the next due first. Ended jobs come in no order.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Only list jobs that Redis has. Otherwise, a list of ended jobs by their states goes on in the history, if one is configured.
    #[arg(long)]
    no_history: bool,
    /// Go on where an earlier page ended, with its `next`.
    #[arg(long, value_name = "NEXT")]
    after: Option<Start>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    letters: LetterArgs,
    #[command(flatten)]
    repeat: Repeat,
}

/// Finds the jobs.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let filter = args.letters.add_to(args.filter.filter(&context.clock)?)?;
    let states = states(&args)?;
    // Without a state, the search is for jobs that are still there.
    let is_named = !args.state.is_empty() || !args.letters.is_empty();
    let history = if is_named && !args.no_history { history::lazy(context) } else { None };
    let Some(broker) = bulk::connect(context).await? else { return Ok(Exit::Failed) };
    let Args { queue, running, limit, after, repeat, .. } = args;
    let (worker, gate) = (None, None);
    let past = history.clone().map(Past::new);
    let search = Search { names: queue, states, filter, running, worker, gate, past, limit, after };
    let look = async || look(&search, repeat, &broker, context).await;
    let shown = if repeat.repeats() {
        tokio::select! {
            biased;
            () = context.shutdown.requested() => Ok(Exit::Done),
            exit = repeat.run(context.output, look) => exit,
        }
    } else {
        // A signal ends the search, and what was found is shown.
        repeat.run(context.output, look).await
    };
    if let Some(history) = history {
        history.close().await;
    }
    shown
}

async fn look(
    search: &Search,
    repeat: Repeat,
    broker: &Broker,
    context: &Context,
) -> anyhow::Result<Listing> {
    // A list that is repainted in place has no room for it.
    let bar = if repeat.repeats() {
        ProgressBar::hidden()
    } else {
        output::progress(context.output, None, "jobs looked at")
    };
    let told = |facts: &Facts, found: usize| {
        let of = facts.of.map_or_else(String::new, |of| format!("of {} ", HumanCount(of)));
        bar.set_position(facts.looked_at);
        bar.set_message(format!("{of}jobs looked at, {} found", HumanCount(found as u64)));
    };
    let told: Option<search::Told<'_>> = if bar.is_hidden() { None } else { Some(&told) };
    let found = search::find(search, broker, (&context.shutdown, told)).await;
    bar.finish_and_clear();
    let found = found?;
    if found.jobs.is_empty() {
        for name in &search.names {
            if queues::report_unknown(broker, name, context).await {
                return Ok(Listing::not_found());
            }
        }
    }
    listing(found, search, context)
}

/// The jobs that run longest, shown again and again.
pub(crate) struct Running {
    limit: u64,
    repeat: Repeat,
}

impl Running {
    /// Shows at most this many jobs.
    pub(crate) fn new(limit: u64, repeat: Repeat) -> Self {
        Self { limit, repeat }
    }

    /// Lists those of these queues, or of all.
    pub(crate) async fn list(
        &self,
        names: &[QueueName],
        broker: &Broker,
        context: &Context,
    ) -> anyhow::Result<Listing> {
        let (states, filter) = (vec![State::Running], Filter::new());
        let names = names.to_vec();
        let (worker, gate, past, after) = (None, None, None, None);
        let search =
            Search { names, states, filter, running: true, worker, gate, past, limit: self.limit, after };
        look(&search, self.repeat, broker, context).await
    }
}

/// The states to look at. Conditions about letters mean dead jobs.
fn states(args: &Args) -> Result<Vec<State>, Wrong> {
    let wanted = if args.running { &[State::Running][..] } else { &args.state[..] };
    match (wanted, args.letters.is_empty()) {
        ([], true) => Ok(USUAL_STATES.to_vec()),
        ([] | [State::Dead], false) => Ok(vec![State::Dead]),
        (_, false) => Err(Wrong("--reason, --kind and --group only work with --state dead".to_owned())),
        (states, true) => Ok(states.to_vec()),
    }
}

/// Reads the name of a state.
pub(crate) fn state(name: &str) -> Result<State, String> {
    let names = State::ALL.map(State::as_str).join(", ");
    name.parse().map_err(|()| format!("a state must be one of {names}"))
}

/// What else to know about the search.
fn remarks(found: &Found) -> Vec<String> {
    let facts = &found.facts;
    let mut remarks = found.remarks.clone();
    remarks.extend(facts.unread.iter().cloned());
    if facts.too_large > 0 {
        remarks.push(format!(
            "{} more jobs match the other conditions, but their payload has more than {} bytes and was not looked at",
            facts.too_large,
            Filter::MAX_PAYLOAD_BYTES
        ));
    }
    if facts.unreadable > 0 {
        remarks.push(format!(
            "{} more jobs may match, but their payload is not valid JSON or MessagePack, is encoded by codecs or no longer \
             exists, or their record cannot be read",
            facts.unreadable
        ));
    }
    if facts.interrupted {
        let go_on =
            found.next.as_ref().map_or_else(String::new, |next| format!("; to go on: --after {next}"));
        remarks.push(format!("interrupted after {} jobs were looked at{go_on}", facts.looked_at_text()));
    }
    remarks
}

fn listing(found: Found, search: &Search, context: &Context) -> anyhow::Result<Listing> {
    let remarks = remarks(&found);
    let Found { jobs, next, facts, missing, .. } = found;
    let (failed, interrupted) = (!facts.unread.is_empty(), facts.interrupted);
    let page = Page { items: jobs, next, facts, former: None };
    let names = |page: &Page| page.items.iter().map(|row| row.id.clone()).collect();
    let show = |page: &Page| row::show(page, search, &context.clock);
    let text = context.output.rendered(&page, names, show)?;
    let listing = remarks.into_iter().fold(Listing::new(text), Listing::remark).without(&missing);
    Ok(match (interrupted, failed) {
        (true, _) => listing.exit(Exit::Failed),
        (false, true) => listing.exit(Exit::Redis),
        (false, false) => listing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_search_says_how_far_it_looked_and_where_to_go_on() {
        let facts = Facts { looked_at: 62, of: Some(1200), interrupted: true, ..Facts::default() };
        let (next, missing) = (Some("mail/dead:1-0".to_owned()), Vec::new());
        let found = Found { jobs: Vec::new(), next, facts, remarks: Vec::new(), missing };
        let told = "interrupted after 62 of about 1200 jobs were looked at; to go on: --after mail/dead:1-0";
        assert_eq!(remarks(&found), [told]);
    }
}
