//! Incidents: what is wrong with the fleet, since when, and who knows of it. Messages lead to the page of one.

use std::time::Duration;

use askama::Template;
use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;
use streamfleet::job::{EntryId, QueueName, Timestamp};
use streamfleet_engine::admin::{Incident, IncidentId, IncidentKind, Incidents, KnownIncident};
use streamfleet_operations::{Actor, Error, alerts};

use super::action::Done;
use super::form::{Field, Form, reason};
use super::found::ROWS;
use super::frame::{Frame, grouped, lead_to, utc};
use super::incident::{self, about, kind};
use super::list::{Asked, Narrow};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::access::{Person, Role};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times;

/// What the form of an acknowledgment proposes.
const USUAL: &str = "2h";

#[derive(Template)]
#[template(path = "incidents.html")]
struct IncidentsPage<'a> {
    frame: &'a Frame,
    /// Each tab: the key of its name, its address, and whether it is open.
    tabs: [(&'static str, String, bool); 2],
    narrow: Narrow,
    table: Table,
    remarks: Vec<String>,
    next: Option<String>,
}

/// Shows the incidents that are open, or those that are over.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let is_past = asked.get("tab") == Some("over");
    let (here, queues) = (Link::to(&["incidents"]), target::visible(&site, &frame).await?);
    let over = || here.clone().with("tab", "over");
    let kinds = IncidentKind::ALL.map(|kind| kind.as_str().to_owned());
    let narrow = Narrow::new(&frame, &here);
    let narrow = if is_past { narrow.keep("tab", "over") } else { narrow };
    let narrow =
        narrow.queue(&frame, &asked, &queues).choice(&frame, &asked, ("kind", "incident.kind"), kinds.into());
    // A page of those that are over begins at an entry.
    let after = asked.get("after").filter(|_| is_past);
    let after: Option<EntryId> = after.map(|after| target::part("after", after)).transpose()?;
    let wanted = alerts::Wanted { open: !is_past, past: is_past.then_some(ROWS as u64), after };
    let mut found = find(&site, &frame, wanted).await?;
    let fits = |incident: &Incident| {
        let queue = incident.queue.as_ref().map_or("", QueueName::as_str);
        asked.get("queue").is_none_or(|wanted| wanted == queue)
            && asked.get("kind").is_none_or(|kind| incident.kind.as_str() == kind)
    };
    found.open.retain(|known| fits(&known.incident));
    found.past.retain(|past| fits(&past.incident));
    let mut remarks = Vec::new();
    if found.unreadable > 0 {
        remarks.push(frame.number_of("incident.unreadable", found.unreadable as u64));
    }
    let next = if is_past {
        found.next.map(|entry| entry.to_string())
    } else {
        asked.cut(&mut found.open, ROWS)?.map(|from| from.to_string())
    };
    let page = IncidentsPage {
        tabs: [
            ("incident.open_ones", here.to_string(), !is_past),
            ("incident.past_ones", over().to_string(), is_past),
        ],
        table: if is_past { past(&frame, &found) } else { open(&frame, &found) },
        remarks,
        next: narrow.next(here.clone(), next),
        narrow,
        frame: &frame,
    };
    Ok(frame.page(frame.t("nav.incidents"), Some(Section::Incidents), &page))
}

/// Reads the incidents that somebody may see.
async fn find(site: &Site, frame: &Frame, wanted: alerts::Wanted) -> Result<alerts::Found, Problem> {
    let is_shown = |incident: &Incident| frame.may_about(Role::Viewer, incident.queue.as_ref());
    Ok(alerts::find(&site.broker().incidents(), wanted, is_shown).await?)
}

fn open(frame: &Frame, found: &alerts::Found) -> Table {
    let columns = [
        ("incident.incident", "short"),
        ("incident.kind", ""),
        ("column.queue", "short"),
        ("incident.since", "short"),
        ("incident.what", ""),
        ("incident.jobs", "number"),
        ("incident.example", "clip"),
        ("incident.acknowledged", ""),
        ("incident.messages", "short"),
    ];
    let mut table = Table::new(frame, "nav.incidents", &columns).or(frame.t("incident.none"));
    for known in &found.open {
        let mut cells = cells(frame, &known.incident, found.now);
        cells.extend([acknowledged(frame, known), Cell::like("", "lines").under(messages(frame, known))]);
        table.add(cells);
    }
    table
}

fn past(frame: &Frame, found: &alerts::Found) -> Table {
    let columns = [
        ("incident.incident", "short"),
        ("incident.kind", ""),
        ("column.queue", "short"),
        ("incident.since", "short"),
        ("incident.what", ""),
        ("incident.jobs", "number"),
        ("incident.example", "clip"),
        ("incident.resolved", "short"),
    ];
    let mut table = Table::new(frame, "nav.incidents", &columns).or(frame.t("incident.no_past"));
    for past in &found.past {
        let mut cells = cells(frame, &past.incident, found.now);
        let resolved = past.incident.resolved;
        cells.push(resolved.map_or_else(Cell::default, |time| Cell::time(frame, time, found.now)));
        table.add(cells);
    }
    table
}

/// What both tables have in common.
fn cells(frame: &Frame, incident: &Incident, now: Timestamp) -> Vec<Cell> {
    let name = incident.queue.as_ref().map(ToString::to_string);
    vec![
        Cell::id(incident.id.as_str(), &page_of(&incident.id)),
        Cell::link(kind(frame, incident.kind), &about(incident)).under(subject(incident)),
        name.map_or_else(|| Cell::text("–"), |name| Cell::link(&name, &Link::queue(&name, &[]))),
        Cell::time(frame, incident.since, now),
        Cell::text(frame.written(&incident.detail)),
        Cell::text(if incident.count == 0 { "–".to_owned() } else { grouped(incident.count) }),
        Cell::text(example(frame, incident)),
    ]
}

/// The type and the key: what it is about within the queue.
fn subject(incident: &Incident) -> String {
    let parts = [&*incident.job_type, &*incident.key];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// A job that shows it. Errors are for those who may see payloads.
fn example(frame: &Frame, incident: &Incident) -> String {
    let Some(example) = &incident.example else { return String::new() };
    let error = frame.said(&example.error);
    let parts = [&*example.job, &*error].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

fn acknowledged(frame: &Frame, known: &KnownIncident) -> Cell {
    let Some(by) = &known.acknowledged else { return Cell::text("–") };
    let values = [("who", &*by.who), ("time", &*utc(by.until))];
    Cell::text(frame.fill("incident.acknowledged_by", &values)).under(frame.written(&by.why))
}

/// The last message of each sink, one a line.
fn messages(frame: &Frame, known: &KnownIncident) -> String {
    incident::deliveries(frame, &known.deliveries).join("\n")
}

fn page_of(id: &IncidentId) -> Link {
    Link::to(&["incidents", id.as_str()])
}

/// Finds an incident that is open, and that somebody may see.
async fn find_open(site: &Site, frame: &Frame, id: &IncidentId) -> Result<KnownIncident, Problem> {
    let found = find(site, frame, alerts::Wanted { open: true, ..Default::default() }).await?;
    let known = found.open.into_iter().find(|known| known.incident.id == *id);
    known.ok_or_else(|| Problem::not_found(format!("there is no open incident {id}")))
}

/// What the form of an acknowledgment says.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    #[serde(default, rename = "for")]
    time: String,
    #[serde(default)]
    reason: String,
}

/// Asks before an incident is acknowledged.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id: IncidentId = target::part("incident", &id)?;
    let incident = find_open(&site, &frame, &id).await?.incident;
    person.check_about(Role::Operator, incident.queue.as_ref())?;
    let (to, back) = (Link::to(&["incidents", id.as_str(), "ack"]), page_of(&id));
    let form =
        Form::new(&frame, frame.fill("incident.ack_title", &[("incident", id.as_str())]), (&to, &back))
            .line(format!("{}: {}", kind(&frame, incident.kind), frame.written(&incident.detail)))
            .line(frame.t("incident.ack_line"))
            .field(
                Field::line(&frame, "for", "incident.for")
                    .value(USUAL)
                    .hint(&frame, "incident.for_hint")
                    .required(),
            )
            .field(Field::reason(&frame))
            .button("action.acknowledge");
    Ok(form.page(Section::Incidents))
}

/// Acknowledges it.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path(id): Path<String>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let id: IncidentId = target::part("incident", &id)?;
    let time = times::duration(order.time.trim()).map_err(|why| Problem::field("body.for", why))?;
    let incident = find_open(&site, &frame, &id).await?.incident;
    person.check_about(Role::Operator, incident.queue.as_ref())?;
    let done = acknowledge(&site.broker().incidents(), &frame, (&id, time), (&person, &order)).await?;
    Ok(lead_to(&page_of(&id), &done.message()))
}

async fn acknowledge(
    incidents: &Incidents,
    frame: &Frame,
    (id, time): (&IncidentId, Duration),
    (person, order): (&Person, &Order),
) -> Result<Done, Problem> {
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let done = match alerts::acknowledge(incidents, &actor, id, time).await {
        Err(Error::NotFound(_)) => return Ok(Done::not(frame.t("incident.gone"))),
        done => done?,
    };
    let text = if time.is_zero() {
        frame.t("incident.again").to_owned()
    } else {
        frame.fill("incident.until", &[("time", &utc(done.value.time))])
    };
    Ok(Done::new(text).unnoted(frame, done.unnoted))
}
