//! `alerts list`: the incidents, and who has got which message about them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::{EntryId, Timestamp};
use streamfleet_engine::admin::{
    Acknowledgment, Incident, IncidentState, Incidents, KnownIncident, PastIncident,
};

use crate::Context;
use crate::exit::Exit;
use crate::output::{self, Column, List, Listing, Repeat, View};
use crate::times::{Clock, rfc3339};

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

/// Which incidents are listed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// List the first page: the open incidents are on no other.
    pub(crate) open: bool,
    /// List at most this many that are over.
    pub(crate) past: Option<u64>,
    /// List those that were over before this entry.
    pub(crate) after: Option<EntryId>,
}

/// The incidents that were found.
pub(crate) struct Found {
    /// The open ones, oldest first; at most 500.
    pub(crate) open: Vec<KnownIncident>,
    /// Those that are over, newest first.
    pub(crate) past: Vec<PastIncident>,
    /// After which entry the next page of those begins.
    pub(crate) next: Option<EntryId>,
    /// How many open ones another version wrote.
    pub(crate) unreadable: usize,
    /// The time of the server's clock.
    pub(crate) now: Timestamp,
}

/// The incidents, for JSON output.
pub(crate) type Page = List<Report, Facts>;

/// What is known about all incidents, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = IncidentFacts)]
pub(crate) struct Facts {
    /// How many are open.
    open: usize,
    #[serde(skip)]
    unreadable: usize,
    #[serde(skip)]
    now: Timestamp,
}

/// One incident, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Incident)]
pub(crate) struct Report {
    id: String,
    state: &'static str,
    kind: &'static str,
    queue: Option<String>,
    /// What it is about: a group, a type, a campaign, a letter, a server; may be empty.
    key: String,
    #[serde(rename = "type")]
    job_type: String,
    detail: String,
    /// How many jobs it concerns.
    count: u64,
    example_job: Option<String>,
    example_error: Option<String>,
    since: String,
    since_ms: u64,
    opened_ms: Option<u64>,
    resolved_ms: Option<u64>,
    /// The command that shows more.
    command: String,
    /// How many messages each sink should have got.
    messages: u32,
    /// The number of the last message that each sink has taken.
    sinks: BTreeMap<String, u32>,
    acknowledged: Option<Acknowledged>,
    #[serde(skip)]
    since_time: Timestamp,
    #[serde(skip)]
    resolved_time: Option<Timestamp>,
}

/// Who does not want to be reminded, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = IncidentAcknowledged)]
struct Acknowledged {
    until: String,
    until_ms: u64,
    who: String,
    why: String,
    #[serde(skip)]
    time: Timestamp,
}

/// Lists the incidents.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let incidents = context.broker().await?.incidents();
    args.repeat.run(context.output, async || list(&args, &incidents, context).await).await
}

async fn list(args: &Args, incidents: &Incidents, context: &Context) -> anyhow::Result<Listing> {
    let wanted =
        Wanted { open: args.after.is_none(), past: args.all.then_some(args.limit), after: args.after };
    let page = Page::from(find(incidents, wanted, |_| true).await?);
    let names = |page: &Page| page.items.iter().map(|report| report.id.clone()).collect();
    let listing =
        Listing::new(context.output.rendered(&page, names, |page| table(page, &context.clock, args.all))?);
    Ok(match page.facts.unreadable {
        0 => listing,
        count => listing.remark(format!("{count} incidents cannot be read: another version wrote them")),
    })
}

/// Reads the incidents that may be shown. A page of those that are over may thus have fewer than it was asked for.
pub(crate) async fn find(
    incidents: &Incidents,
    wanted: Wanted,
    is_shown: impl Fn(&Incident) -> bool,
) -> anyhow::Result<Found> {
    const FAILED: &str = "failed to read the incidents";
    let known = incidents.open().await.context(FAILED)?;
    let (mut open, unreadable, now) = (known.incidents, known.unreadable, known.now);
    open.retain(|known| {
        wanted.open && known.incident.state == IncidentState::Open && is_shown(&known.incident)
    });
    let (mut past, mut next) = (Vec::new(), None);
    if let Some(limit) = wanted.past {
        past = incidents.past(wanted.after, limit).await.context(FAILED)?;
        next = past.last().filter(|_| past.len() as u64 == limit).map(|past| past.entry);
        past.retain(|past| is_shown(&past.incident));
    }
    Ok(Found { open, past, next, unreadable, now })
}

impl From<Found> for Page {
    fn from(found: Found) -> Self {
        let facts = Facts { open: found.open.len(), unreadable: found.unreadable, now: found.now };
        let past = found.past.into_iter().map(|past| Report::of(past.incident));
        let items = found.open.into_iter().map(Report::from).chain(past).collect();
        Self { items, next: found.next.map(|entry| entry.to_string()), facts, former: None }
    }
}

impl From<KnownIncident> for Report {
    fn from(known: KnownIncident) -> Self {
        let sinks = known.deliveries.iter().map(|(sink, delivery)| (sink.to_string(), delivery.handed));
        let sinks = sinks.collect();
        Self { sinks, acknowledged: known.acknowledged.map(Acknowledged::from), ..Self::of(known.incident) }
    }
}

impl Report {
    fn of(incident: Incident) -> Self {
        let example = incident.example.clone();
        Self {
            id: incident.id.to_string(),
            state: incident.state.as_str(),
            kind: incident.kind.as_str(),
            queue: incident.queue.as_ref().map(ToString::to_string),
            command: incident.command(),
            since: rfc3339(incident.since),
            since_ms: incident.since.as_ms(),
            opened_ms: incident.opened.map(Timestamp::as_ms),
            resolved_ms: incident.resolved.map(Timestamp::as_ms),
            since_time: incident.since,
            resolved_time: incident.resolved,
            messages: incident.notices,
            count: incident.count,
            key: incident.key,
            job_type: incident.job_type,
            detail: incident.detail,
            example_job: example.as_ref().map(|example| example.job.clone()),
            example_error: example.map(|example| example.error),
            sinks: BTreeMap::new(),
            acknowledged: None,
        }
    }
}

impl From<Acknowledgment> for Acknowledged {
    fn from(by: Acknowledgment) -> Self {
        let (until, until_ms) = (rfc3339(by.until), by.until.as_ms());
        Self { until, until_ms, who: by.who, why: by.why, time: by.until }
    }
}

fn table(page: &Page, clock: &Clock, is_all: bool) -> View {
    if page.items.is_empty() {
        let none = if is_all { "there are no incidents" } else { "there are no open incidents" };
        return none.to_owned().into();
    }
    let mut table = output::table(&[
        Column::id("incident"),
        Column::state("state"),
        Column::from("kind"),
        Column::from("queue"),
        Column::from("since"),
        Column::from("jobs"),
        Column::from("what"),
        Column::wide("example"),
        Column::wide("look with"),
        Column::from("reminders"),
    ]);
    for report in &page.items {
        let reminders = match (&report.acknowledged, report.resolved_time) {
            (Some(by), None) => format!("off until {} by {}: {}", clock.time(by.time), by.who, by.why),
            (_, Some(resolved)) => format!("resolved {}", clock.time(resolved)),
            (None, None) => String::new(),
        };
        let count = if report.count == 0 { String::new() } else { report.count.to_string() };
        table.add_row([
            report.id.clone(),
            report.state.to_owned(),
            report.kind.to_owned(),
            report.queue.clone().unwrap_or_default(),
            clock.with_age(report.since_time, page.facts.now),
            count,
            report.detail.clone(),
            report.example_error.clone().unwrap_or_default(),
            report.command.clone(),
            reminders,
        ]);
    }
    let more =
        page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --all --after {next}"));
    View::from(table).then(format!("{} open{more}", page.facts.open))
}
