//! One queue: its figures, lanes, gates and types, and its jobs by state.

use askama::Template;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use streamfleet::Queue;
use streamfleet::job::{JobType, Lane, QueueName, State, Timestamp};
use streamfleet_engine::admin::{Backlog, GateStatus, Holdings, QueueSnapshot};

use super::chart::Chart;
use super::criteria::{Condition, Criteria};
use super::found::{self, Found};
use super::frame::Frame;
use super::overview::{Figure, figures, objective, outlook};
use super::section::Section;
use super::table::{Cell, Table};
use super::type_figures::{LastHour, last_hour};
use super::{gates, samples, target};
use crate::console::access::Role;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times::short;

/// The most types that wait for a worker which a page names.
const MAX_TYPES: usize = 20;

/// The most gates that the page names.
const MAX_GATES: usize = 20;

/// The tabs: the name in the address, the key of the text, and the states of the jobs.
const TABS: [(&str, &str, &[State]); 7] = [
    ("waiting", "state.waiting", &[State::Waiting]),
    ("running", "state.running", &[State::Running]),
    ("delayed", "state.delayed", &[State::Scheduled, State::Retrying]),
    ("scheduled", "state.scheduled", &[State::Scheduled]),
    ("retrying", "state.retrying", &[State::Retrying]),
    ("done", "tab.done", &[State::Done, State::Cancelled]),
    ("dead", "state.dead", &[State::Dead]),
];

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage<'a> {
    frame: &'a Frame,
    name: String,
    figures: Vec<Figure>,
    /// Each fact: the key of its name, and the text.
    facts: Vec<(&'static str, String)>,
    unread: Vec<String>,
    chart: Option<Chart>,
    lanes: Table,
    types: Table,
    last_hour: LastHour,
    gates: Table,
    /// Where the other gates are, and how many there are, in words.
    more_gates: Option<(String, String)>,
    paused: Option<String>,
    /// What somebody may do here: the key of its name, and where.
    actions: Vec<(&'static str, String)>,
    /// Each tab: the key of its name, its address, and whether it is open.
    tabs: Vec<(&'static str, String, bool)>,
    tab: &'static str,
    conditions: Vec<Condition>,
    jobs: Table,
    summary: String,
    remarks: Vec<String>,
    next: Option<String>,
    /// What somebody may do with all jobs that the filter matches.
    bulk: Vec<(&'static str, String)>,
}

/// What is read for the upper part of the page.
struct Look {
    snapshot: QueueSnapshot,
    /// What is known about the waiting jobs; `None` if that cannot be read.
    backlog: Option<Backlog>,
    gates: Vec<GateStatus>,
    types: Table,
    last_hour: LastHour,
}

/// Shows the page.
pub(super) async fn show(
    Shared(site): Shared<Site>,
    frame: Frame,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let wanted = query.iter().find(|(name, _)| name == "tab").map_or("waiting", |(_, tab)| tab);
    let unknown = || Problem::field("query.tab", "there is no such tab");
    let tab = TABS.iter().find(|(name, ..)| *name == wanted).ok_or_else(unknown)?;
    let mut criteria = Criteria::read(&frame, site.mask(), query)?;
    criteria.states = tab.2.to_vec();
    let known = site.known().await?;
    if !known.queues.contains(queue.name()) && !exists(&queue).await? {
        return Err(Problem::not_found(format!("no queue is called {}", queue.name())));
    }
    let holdings = Holdings::of(&known.workers);
    let queues = [queue.clone()];
    let (look, minutes, found) = tokio::join!(
        look(&frame, &queue),
        samples::last_hour(&queue),
        found::search(&frame, &queues, &criteria, holdings)
    );
    let (look, found) = (look?, found?);
    let outlook = outlook(&frame, look.backlog.as_ref());
    let mut page = page(&frame, &site, (&queue, look), (tab.0, &criteria, &found));
    page.chart = Chart::flow(&frame, &minutes);
    page.facts.extend(outlook);
    Ok(frame.page(queue.name().as_str(), Some(Section::Overview), &page))
}

/// Whether Redis has anything of a queue that was not listed a moment ago.
async fn exists(queue: &Queue) -> Result<bool, Problem> {
    let snapshot = queue.snapshot().await;
    let snapshot = snapshot.map_err(|error| target::redis("the queue could not be read", queue, &error))?;
    let sum = snapshot.waiting() + snapshot.running() + snapshot.delayed + snapshot.dead;
    Ok(sum > 0 || snapshot.leader.is_some())
}

async fn look(frame: &Frame, queue: &Queue) -> Result<Look, Problem> {
    let gates = queue.gates();
    let read = tokio::try_join!(queue.snapshot(), gates.list());
    let (snapshot, gates) =
        read.map_err(|error| target::redis("the queue could not be read", queue, &error))?;
    let (types, last_hour, backlog) =
        tokio::join!(types(frame, queue, &snapshot), last_hour(frame, queue), queue.backlog(&snapshot));
    Ok(Look { snapshot, backlog: backlog.ok(), gates, types, last_hour })
}

/// What else is known about the queue now.
fn facts(
    frame: &Frame,
    site: &Site,
    name: &QueueName,
    snapshot: &QueueSnapshot,
) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(oldest) = snapshot.oldest_waiting() {
        let values = [("time", &*short(oldest)), ("objective", &*short(objective(site, name)))];
        facts.push(("tile.oldest", frame.fill("tile.oldest_of", &values)));
    }
    if let Some(due) = snapshot.next_due {
        facts.push(("queue.next_due", frame.distance(due, snapshot.now)));
    }
    if snapshot.in_rooms > 0 {
        facts.push(("queue.in_rooms", frame.number_of("queue.jobs", snapshot.in_rooms)));
    }
    if snapshot.in_fair_rooms > 0 {
        facts.push(("queue.in_fair_rooms", frame.number_of("queue.jobs", snapshot.in_fair_rooms)));
    }
    let leader = snapshot.leader.clone().unwrap_or_else(|| frame.t("queue.no_leader").to_owned());
    facts.push(("queue.leader", leader));
    facts
}

fn page<'a>(
    frame: &'a Frame,
    site: &Site,
    (queue, look): (&Queue, Look),
    (tab, criteria, found): (&'static str, &Criteria, &Found),
) -> QueuePage<'a> {
    let (name, snapshot) = (queue.name().as_str(), &look.snapshot);
    let here = || Link::queue(name, &[]);
    let next = |next: &String| criteria.conditions(here()).with("tab", tab).with("after", next).to_string();
    QueuePage {
        frame,
        name: name.to_owned(),
        figures: figures(name, snapshot),
        facts: facts(frame, site, queue.name(), snapshot),
        unread: snapshot.unread.iter().map(ToString::to_string).collect(),
        chart: None,
        lanes: lanes(frame, snapshot),
        types: look.types,
        last_hour: look.last_hour,
        gates: {
            let shown = look.gates.iter().take(MAX_GATES).map(|gate| (queue.name(), gate));
            gates::table(frame, shown, snapshot.now)
        },
        more_gates: more_gates(frame, name, look.gates.len()),
        paused: snapshot.closed_since.map(|since| frame.distance(since, snapshot.now)),
        actions: actions(frame, queue, snapshot.closed_since),
        tabs: TABS.map(|(one, key, _)| (key, here().with("tab", one).to_string(), one == tab)).into(),
        tab,
        conditions: criteria.fields(frame, tab == "dead"),
        jobs: found.table(frame, false),
        summary: found.summary(frame),
        remarks: found.remarks.clone(),
        next: found.next.as_ref().map(next),
        bulk: bulk(frame, queue, criteria, tab),
    }
}

/// Where the gates are that the page does not name.
fn more_gates(frame: &Frame, queue: &str, gates: usize) -> Option<(String, String)> {
    let more = gates.saturating_sub(MAX_GATES) as u64;
    let link = || Link::to(&["gates"]).with("queue", queue).to_string();
    (more > 0).then(|| (link(), frame.number_of("queue.more_gates", more)))
}

/// What somebody may do with the queue.
fn actions(frame: &Frame, queue: &Queue, paused: Option<Timestamp>) -> Vec<(&'static str, String)> {
    let (name, mut actions) = (queue.name().as_str(), Vec::new());
    let gate = |action: &str| Link::queue(name, &["gates", action]).with("gate", "queue").to_string();
    if frame.may(Role::Operator, queue.name()) {
        actions.push(match paused {
            Some(_) => ("action.resume", gate("resume")),
            None => ("action.pause", gate("pause")),
        });
        actions.push(("action.limit", gate("limit")));
    }
    if frame.may(Role::Submitter, queue.name()) {
        actions.push(("action.submit", Link::to(&["submit"]).with("queue", name).to_string()));
    }
    actions.push(("action.groups", Link::queue(name, &["dead"]).to_string()));
    actions
}

/// What somebody may do with all jobs of a tab that the filter matches.
fn bulk(frame: &Frame, queue: &Queue, criteria: &Criteria, tab: &str) -> Vec<(&'static str, String)> {
    let possible: &[(&str, &str)] = match tab {
        "waiting" => &[("action.cancel_all", "cancel"), ("action.move_all", "move")],
        "running" => &[("action.cancel_all", "cancel")],
        "delayed" | "scheduled" | "retrying" => {
            &[("action.run_all", "run-now"), ("action.cancel_all", "cancel"), ("action.move_all", "move")]
        }
        _ => &[],
    };
    if !frame.may(Role::Operator, queue.name()) || !criteria.selects() {
        return Vec::new();
    }
    let link = |action: &str| {
        criteria.states.iter().fold(
            criteria.conditions(Link::queue(queue.name().as_str(), &["bulk", action])),
            |link, state| link.with("state", state.as_str()),
        )
    };
    possible.iter().map(|(key, action)| (*key, link(action).to_string())).collect()
}

fn lanes(frame: &Frame, snapshot: &QueueSnapshot) -> Table {
    let columns = [
        ("column.lane", ""),
        ("state.waiting", "number"),
        ("state.running", "number"),
        ("column.oldest", "short"),
    ];
    let mut table = Table::new(frame, "queue.lanes", &columns);
    for (lane, figures) in Lane::ALL.into_iter().zip(&snapshot.lanes) {
        let oldest = figures.oldest_waiting.and_then(|entry| Timestamp::from_ms(entry.ms));
        table.add([
            Cell::text(lane.as_str()),
            Cell::number(figures.waiting),
            Cell::number(figures.running),
            oldest.map_or_else(|| Cell::text("–"), |time| Cell::text(short(snapshot.now.since(time)))),
        ]);
    }
    table
}

/// The types that live workers know, and those whose jobs wait for a worker that knows them.
async fn types(frame: &Frame, queue: &Queue, snapshot: &QueueSnapshot) -> Table {
    let (known, unknown) = tokio::join!(queue.known_types(), async {
        if snapshot.in_unknown_rooms == 0 {
            return Vec::new();
        }
        queue.unknown_types(MAX_TYPES).await.unwrap_or_default()
    });
    let known = known.ok().flatten().unwrap_or_default();
    let columns = [("column.type", "clip"), ("column.served", "short"), ("column.waiting_for", "number")];
    let mut table = Table::new(frame, "queue.types", &columns).or(frame.t("queue.no_types"));
    let find = |job_type: &JobType| {
        Link::to(&["jobs"]).with("queue", queue.name().as_str()).with("type", job_type.as_str())
    };
    let waiting = |job_type: &JobType| find(job_type).with("state", State::Waiting.as_str());
    for one in unknown.iter().filter(|one| one.jobs > 0) {
        let served = match one.unserved_for {
            Some(time) => Cell::like(frame.fill("type.unserved", &[("time", &short(time))]), "late"),
            None => Cell::text(frame.t("type.served")),
        };
        let name = Cell::id(one.job_type.as_str(), &find(&one.job_type));
        table.add([name, served, Cell::counted(one.jobs, &waiting(&one.job_type))]);
    }
    let others = known.iter().filter(|name| unknown.iter().all(|one| one.job_type != **name));
    for name in others.take(MAX_TYPES) {
        table.add([
            Cell::id(name.as_str(), &find(name)),
            Cell::text(frame.t("type.served")),
            Cell::number(0),
        ]);
    }
    table
}
