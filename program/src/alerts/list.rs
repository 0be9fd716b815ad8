//! `alerts list`: the incidents, and who has got which message about them.

use streamfleet::job::EntryId;
use streamfleet_engine::admin::Incidents;
use streamfleet_operations::alerts::{self, IncidentPage, ListedIncident, Wanted};

use crate::Context;
use crate::exit::Exit;
use crate::output::{self, Column, Listing, Repeat, View};
use crate::times::Clock;

/// How `alerts list` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet alerts list
  streamfleet alerts list --all --limit 20
  streamfleet alerts list -o wide --watch";

/// The arguments of `alerts list`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// List also incidents that are resolved, newest first. About the last 1000 are kept.
    #[arg(long)]
    all: bool,
    /// The maximum number of resolved incidents.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000), requires = "all")]
    limit: u64,
    /// Start after this entry, to get the next page of resolved incidents.
    #[arg(long, value_name = "ENTRY", requires = "all")]
    after: Option<EntryId>,
    #[command(flatten)]
    repeat: Repeat,
}

/// Lists the incidents.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let incidents = context.broker().await?.incidents();
    args.repeat.run(context.output, async || list(&args, &incidents, context).await).await
}

async fn list(args: &Args, incidents: &Incidents, context: &Context) -> anyhow::Result<Listing> {
    let wanted =
        Wanted { open: args.after.is_none(), past: args.all.then_some(args.limit), after: args.after };
    let page = alerts::list(incidents, wanted, |_| true).await?;
    let names = |page: &IncidentPage| page.items.iter().map(|report| report.id.clone()).collect();
    let listing =
        Listing::new(context.output.rendered(&page, names, |page| table(page, &context.clock, args.all))?);
    Ok(match page.facts.unreadable {
        0 => listing,
        count => listing.remark(format!("{count} incidents cannot be read: another version wrote them")),
    })
}

fn table(page: &IncidentPage, clock: &Clock, is_all: bool) -> View {
    if page.items.is_empty() {
        let none = if is_all { "there are no incidents" } else { "there are no open incidents" };
        return none.to_owned().into();
    }
    let reminders = |report: &ListedIncident| match (&report.acknowledged, report.resolved_ms) {
        (Some(by), None) => format!("off until {} by {}: {}", clock.time(by.until_ms), by.who, by.why),
        (_, Some(resolved)) => format!("resolved {}", clock.time(resolved)),
        (None, None) => String::new(),
    };
    let jobs = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    let table = output::table_of(
        &page.items,
        &[
            (Column::id("incident"), &|report| report.id.clone()),
            (Column::state("state"), &|report| report.state.to_owned()),
            (Column::from("kind"), &|report| report.kind.to_owned()),
            (Column::from("queue"), &|report| report.queue.clone().unwrap_or_default()),
            (Column::from("since"), &|report| clock.with_age(report.since_ms, page.facts.now)),
            (Column::from("jobs"), &|report| jobs(report.count)),
            (Column::from("what"), &|report| report.detail.clone()),
            (Column::wide("example"), &|report| report.example_error.clone().unwrap_or_default()),
            (Column::wide("look with"), &|report| report.command.clone()),
            (Column::from("reminders"), &reminders),
        ],
    );
    let more =
        page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --all --after {next}"));
    View::from(table).then(format!("{} open{more}", page.facts.open))
}
