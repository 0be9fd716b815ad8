//! One incident: what is known about it, where it leads, and who got which message. Messages link to this page.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use streamfleet::RedisError;
use streamfleet::job::{SinkName, Timestamp};
use streamfleet_engine::admin::{
    Acknowledgment, Delivery, Incident, IncidentId, IncidentKind, IncidentState,
};

use super::frame::{Frame, grouped, utc};
use super::job::Fact;
use super::section::Section;
use super::target;
use crate::console::access::Role;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many incidents that are over are looked through. Redis keeps about as many.
const KEPT: u64 = 1000;

/// The key of an incident that stands for all those without one of their own.
const OTHERS: &str = "*";

/// The names of the kinds. A kind that is missing here is shown as JSON has it.
const KINDS: [(IncidentKind, &str); 11] = [
    (IncidentKind::DeadGroup, "incident.dead_group"),
    (IncidentKind::DeadRate, "incident.dead_rate"),
    (IncidentKind::DeadJob, "incident.dead_job"),
    (IncidentKind::Backlog, "incident.backlog"),
    (IncidentKind::NoWorker, "incident.no_worker"),
    (IncidentKind::UnservedType, "incident.unserved_type"),
    (IncidentKind::PoolDown, "incident.pool_down"),
    (IncidentKind::NeedsDecision, "incident.needs_decision"),
    (IncidentKind::CampaignStopped, "incident.campaign_stopped"),
    (IncidentKind::QueuePaused, "incident.queue_paused"),
    (IncidentKind::RedisMemory, "incident.redis_memory"),
];

#[derive(Template)]
#[template(path = "incident.html")]
struct IncidentPage<'a> {
    frame: &'a Frame,
    id: String,
    class: &'static str,
    state: &'static str,
    facts: Vec<Fact>,
    /// What each sink has got or refused.
    messages: Vec<String>,
    /// Where it is acknowledged, for those who may.
    acknowledge: Option<String>,
}

/// An incident with what people and sinks know of it.
struct Known {
    incident: Incident,
    acknowledged: Option<Acknowledgment>,
    deliveries: BTreeMap<SinkName, Delivery>,
    now: Timestamp,
}

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id: IncidentId = target::part("incident", &id)?;
    let known = find(&site, &id).await?;
    let incident = &known.incident;
    if !frame.may_about(Role::Viewer, incident.queue.as_ref()) {
        return Err(unknown(&id));
    }
    let (class, state) = look(incident.state);
    let may =
        incident.state == IncidentState::Open && frame.may_about(Role::Operator, incident.queue.as_ref());
    let page = IncidentPage {
        frame: &frame,
        id: id.to_string(),
        class,
        state: frame.t(state),
        facts: facts(&frame, &known),
        messages: deliveries(&frame, &known.deliveries),
        acknowledge: may.then(|| Link::to(&["incidents", id.as_str(), "ack"]).to_string()),
    };
    Ok(frame.page(id.as_str(), Some(Section::Incidents), &page))
}

/// Finds an incident, wherever it is. A link in a message must still work when the incident is over.
async fn find(site: &Site, id: &IncidentId) -> Result<Known, Problem> {
    let incidents = site.broker().incidents();
    let failed = |error: RedisError| Problem::redis("the incidents could not be read", &error);
    let found = incidents.open().await.map_err(failed)?;
    if let Some(known) = found.incidents.into_iter().find(|known| known.incident.id == *id) {
        let (acknowledged, deliveries) = (known.acknowledged, known.deliveries);
        return Ok(Known { incident: known.incident, acknowledged, deliveries, now: found.now });
    }
    let past = incidents.past(None, KEPT).await.map_err(failed)?;
    let past = past.into_iter().find(|past| past.incident.id == *id);
    let incident = past.ok_or_else(|| unknown(id))?.incident;
    Ok(Known { incident, acknowledged: None, deliveries: BTreeMap::new(), now: found.now })
}

/// Nobody learns whether an incident of a queue exists that they may not see.
fn unknown(id: &IncidentId) -> Problem {
    Problem::not_found(format!("there is no incident {id}; about the last {KEPT} that are over are kept"))
}

fn facts(frame: &Frame, known: &Known) -> Vec<Fact> {
    let incident = &known.incident;
    let plain = |key, text: String| (!text.is_empty()).then_some(Fact { key, text, link: None });
    let time = |time: Timestamp| format!("{} · {}", utc(time), frame.distance(time, known.now));
    let queue = incident.queue.as_ref().map(ToString::to_string);
    let queue = queue.map(|name| {
        let link = Some(Link::queue(&name, &[]).to_string());
        Fact { key: "column.queue", text: name, link }
    });
    let example = incident.example.clone().unwrap_or_default();
    let count = if incident.count == 0 { String::new() } else { grouped(incident.count) };
    let acknowledged = known.acknowledged.as_ref().map(|by| {
        let values = [("who", &*by.who), ("time", &*utc(by.until))];
        format!("{} {}", frame.fill("incident.acknowledged_by", &values), frame.written(&by.why))
            .trim_end()
            .to_owned()
    });
    let kind = Fact {
        key: "incident.kind",
        text: kind(frame, incident.kind),
        link: Some(about(incident).to_string()),
    };
    let facts = [
        Some(kind),
        queue,
        plain("column.type", incident.job_type.clone()),
        plain("incident.key", incident.key.clone()),
        plain("incident.what", frame.written(&incident.detail).into_owned()),
        plain("incident.jobs", count),
        plain("incident.example", example.job),
        plain("column.error", frame.said(&example.error)),
        plain("incident.since", time(incident.since)),
        plain("incident.resolved", incident.resolved.map(time).unwrap_or_default()),
        plain("incident.acknowledged", acknowledged.unwrap_or_default()),
        plain("incident.command", incident.command()),
    ];
    facts.into_iter().flatten().collect()
}

/// The name of a kind.
pub(super) fn kind(frame: &Frame, kind: IncidentKind) -> String {
    let named = KINDS.iter().find(|(known, _)| *known == kind);
    named.map_or(kind.as_str(), |(_, key)| frame.t(key)).to_owned()
}

/// The classes of a state, and the key of its name.
fn look(state: IncidentState) -> (&'static str, &'static str) {
    match state {
        IncidentState::Open => ("state dead", "incident.open"),
        IncidentState::Resolved => ("state done", "incident.is_resolved"),
        IncidentState::Pending => ("state retrying", "incident.pending"),
    }
}

/// The page of what an incident is about.
pub(super) fn about(incident: &Incident) -> Link {
    let Some(queue) = incident.queue.as_ref().map(|queue| queue.as_str()) else { return Link::to(&[]) };
    let key = Some(&*incident.key).filter(|key| !key.is_empty() && *key != OTHERS);
    let letters = Link::queue(queue, &["dead"]);
    match (incident.kind, key) {
        (IncidentKind::DeadGroup, Some(group)) => letters.with("group", group),
        (IncidentKind::DeadGroup | IncidentKind::DeadRate, _) => letters,
        (IncidentKind::DeadJob, Some(letter)) => Link::queue(queue, &["dead", letter]),
        (IncidentKind::DeadJob, None) => letters.with("letters", "all"),
        (IncidentKind::UnservedType, Some(name)) => {
            Link::to(&["jobs"]).with("queue", queue).with("type", name)
        }
        (IncidentKind::NoWorker | IncidentKind::PoolDown, _) => Link::to(&["workers"]),
        (IncidentKind::NeedsDecision, _) => Link::to(&["decisions"]).with("queue", queue),
        (IncidentKind::CampaignStopped, Some(id)) => Link::queue(queue, &["campaigns", id]),
        (IncidentKind::CampaignStopped, None) => Link::queue(queue, &["campaigns"]),
        (IncidentKind::QueuePaused, _) => Link::to(&["gates"]).with("queue", queue),
        _ => Link::queue(queue, &[]),
    }
}

/// The last message of each sink.
pub(super) fn deliveries(frame: &Frame, known: &BTreeMap<SinkName, Delivery>) -> Vec<String> {
    let line = |(sink, delivery): (&SinkName, &Delivery)| {
        let (key, number) = if delivery.given_up > delivery.handed {
            ("incident.given_up", delivery.given_up)
        } else {
            ("incident.handed", delivery.handed)
        };
        frame.fill(key, &[("sink", sink.as_str()), ("number", &number.to_string())])
    };
    known.iter().map(line).collect()
}

/// Converts the error of a function that the command line has, too.
pub(super) fn failed(error: &anyhow::Error) -> Problem {
    match error.chain().find_map(|cause| cause.downcast_ref::<RedisError>()) {
        Some(redis) => Problem::redis(&error.to_string(), redis),
        None => {
            let text = format!("{error:#}");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "redis did not answer as hoped", text)
        }
    }
}
