//! What a person does to one job: cancel it, or change when it is due or what it got.

use axum::Form as Body;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Deserialize;
use streamfleet::job::{Encoding, State as JobState};
use streamfleet::{Producer, Queue, SubmitError};
use streamfleet_engine::admin::{Action, Amended, Cancellation, DelayedEdit, DelayedJob, Due, Status};

use super::action::{Done, noted};
use super::form::{Field, Form, reason};
use super::frame::{Frame, lead_to, utc};
use super::section::Section;
use super::table::state_key;
use super::{content, job, submit, target};
use crate::console::access::Person;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times;

/// The largest payload that a form edits.
const MAX_EDITED: usize = 64 * 1024;

/// What the form of an action says.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    #[serde(default)]
    reason: String,
    /// When it is to be due: a duration or an instant.
    #[serde(default)]
    due: String,
    #[serde(default)]
    payload: String,
    /// The revision of the job that the form shows.
    #[serde(default)]
    revision: String,
}

/// Asks before an action.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    Path((name, id, action)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let status = job::find(&queue, &id).await?;
    let id = status.id.to_string();
    let (to, back) = (Link::queue(&name, &["jobs", &id, &action]), Link::job(&name, &id));
    let form = |title: &str| {
        let values = [("job", &*id), ("queue", &*name)];
        let state =
            frame.fill("act.now", &[("state", frame.t(state_key(status.state))), ("type", &status.job_type)]);
        Form::new(&frame, frame.fill(title, &values), (&to, &back)).line(state)
    };
    let form = match action.as_str() {
        "cancel" => {
            let effect =
                if status.state == JobState::Running { "act.cancel_running" } else { "act.cancel_line" };
            form("act.cancel").line(frame.t(effect)).button("action.cancel").drastic()
        }
        "run-now" => form("act.run_now").line(frame.t("act.run_now_line")).button("action.run_now"),
        "reschedule" => {
            let field = Field::line(&frame, "due", "act.due").hint(&frame, "act.due_hint").required();
            form("act.reschedule")
                .line(frame.t("act.reschedule_line"))
                .field(field)
                .button("action.reschedule")
        }
        "edit" => {
            let job = delayed(&queue, &status).await?;
            let job = job.ok_or_else(|| Problem::conflict(frame.t("act.too_late")))?;
            let (text, _) = text_of(&frame, &site, &job.fields)?;
            form("act.edit")
                .line(frame.t("act.edit_line"))
                .field(Field::area(&frame, "payload", "job.payload").value(text).required())
                .field(Field::hidden("revision", site.gatekeeper().revision(&job.revision())))
                .button("action.edit")
        }
        _ => return Err(Problem::not_found("no job has such an action")),
    };
    Ok(form.field(Field::reason(&frame)).page(Section::Jobs))
}

/// Reads a job of the delayed set.
async fn delayed(queue: &Queue, status: &Status) -> Result<Option<DelayedJob>, Problem> {
    let job = queue.delayed().get(&status.id).await;
    job.map_err(|error| target::redis("the job could not be read", queue, &error))
}

/// A payload as a form edits it. What is hidden, is not text or is too large is not edited here.
pub(super) fn text_of(
    frame: &Frame,
    site: &Site,
    fields: &streamfleet::job::Envelope,
) -> Result<(String, Encoding), Problem> {
    if !frame.sees_payloads() || !site.mask().is_empty() {
        let why = frame.t("act.hidden");
        return Err(Problem::new(axum::http::StatusCode::FORBIDDEN, "not allowed", why));
    }
    let payload = fields.get(b"payload").unwrap_or_default();
    let encoding = content::encoding(fields).unwrap_or(Encoding::Raw);
    let text = match encoding {
        Encoding::Msgpack => super::payload::value(payload, Encoding::Msgpack).map(|value| value.to_string()),
        Encoding::Json | Encoding::Raw => std::str::from_utf8(payload).ok().map(str::to_owned),
    };
    let text = text.filter(|text| text.len() <= MAX_EDITED);
    let text = text.ok_or_else(|| Problem::field("payload", frame.t("act.not_editable")))?;
    Ok((text, encoding))
}

/// Does it.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path((name, id, action)): Path<(String, String, String)>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let status = job::find(&queue, &id).await?;
    let back = Link::job(&name, &status.id.to_string());
    let producer = site.producer(queue.clone());
    let (command, done) = match action.as_str() {
        "cancel" => ("cancel", cancel(&frame, &site, &person, (&queue, &status)).await?),
        "run-now" => {
            let due = producer.reschedule(&status.id, Due::Now).await;
            ("delayed run", changed(&frame, &queue, due.map(|due| due.map(utc)))?)
        }
        "reschedule" => {
            let due = due(&order.due)?;
            let due = producer.reschedule(&status.id, due).await;
            ("delayed reschedule", changed(&frame, &queue, due.map(|due| due.map(utc)))?)
        }
        "edit" => ("delayed edit", edit(&frame, &site, (&queue, &producer), &status, &order).await?),
        _ => return Err(Problem::not_found("no job has such an action")),
    };
    if !done.is_good() {
        return Ok(lead_to(&back, &done.message()));
    }
    let action = Action::new(command, person.name()).why(reason(&order.reason));
    let unnoted = noted(&queue, &action.target(status.id.to_string()).count(1_u64)).await;
    Ok(lead_to(&back, &done.unnoted(&frame, unnoted).message()))
}

async fn cancel(
    frame: &Frame,
    site: &Site,
    person: &Person,
    (queue, status): (&Queue, &Status),
) -> Result<Done, Problem> {
    let retention = site.effective().config.fleet_config().worker.retention_of(queue.name());
    let cancelled = queue.cancel(&status.id, person.name(), retention).await;
    let cancelled = cancelled.map_err(|error| target::redis("the job was not cancelled", queue, &error))?;
    Ok(match cancelled {
        Cancellation::Done => Done::new(frame.t("act.cancelled")),
        Cancellation::Requested => Done::new(frame.t("act.cancelling")),
        Cancellation::Ended(state) => {
            Done::not(frame.fill("act.ended", &[("state", frame.t(state_key(state)))]))
        }
        Cancellation::Unknown => Done::not(frame.t("act.unknown")),
    })
}

/// Replaces the payload, if the job is still what the form shows.
async fn edit(
    frame: &Frame,
    site: &Site,
    (queue, producer): (&Queue, &Producer),
    status: &Status,
    order: &Order,
) -> Result<Done, Problem> {
    let Some(job) = delayed(queue, status).await? else { return changed(frame, queue, Ok(None)) };
    if site.gatekeeper().revision(&job.revision()) != order.revision {
        return Ok(Done::not(frame.t("act.other_edit")));
    }
    let (_, encoding) = text_of(frame, site, &job.fields)?;
    let edit = DelayedEdit::default().payload(submit::encoded(site, &order.payload, encoding)?, encoding);
    match producer.amend(&job, &edit).await {
        Ok(Amended::Done(due)) => changed(frame, queue, Ok(Some(utc(due)))),
        Ok(Amended::Gone) => changed(frame, queue, Ok(None)),
        Ok(Amended::Changed) => Ok(Done::not(frame.t("act.other_edit"))),
        Err(error) => changed(frame, queue, Err(error)),
    }
}

/// What became of a change of a delayed job.
fn changed(frame: &Frame, queue: &Queue, due: Result<Option<String>, SubmitError>) -> Result<Done, Problem> {
    match due {
        Ok(Some(time)) => Ok(Done::new(frame.fill("act.changed", &[("time", &time)]))),
        Ok(None) => Ok(Done::not(frame.t("act.too_late"))),
        Err(error) => Err(submit::refused(queue, error)),
    }
}

/// Reads when a job is to be due: a duration from now, or an instant.
fn due(text: &str) -> Result<Due, Problem> {
    let text = text.trim();
    if let Ok(time) = times::duration(text) {
        return Ok(Due::In(time));
    }
    times::instant(text).map(Due::At).map_err(|why| Problem::field("body.due", why))
}
