//! What a person does to one job: cancel it, or change when it is due or what it got.

use axum::Form as Body;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::job::{Encoding, JobId, State as JobState};
use streamfleet_engine::admin::{DelayedEdit, Due, Noted};
use streamfleet_operations::jobs::delayed::{self, Changed, Edit};
use streamfleet_operations::jobs::{self, CancelOutcome, Cancelled};
use streamfleet_operations::{Actor, Error};

use super::action::Done;
use super::form::{Field, Form, reason};
use super::frame::{Frame, lead_to, utc};
use super::section::Section;
use super::table::state_key;
use super::{job, submit, target};
use crate::cancel::retention;
use crate::console::access::Person;
use crate::console::api::read_delayed;
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
    let status = job::find(&site, &queue, &id).await?;
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
            let job = read_delayed(&site, &queue, &status.id).await??;
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
    let encoding = jobs::encoding(fields).unwrap_or(Encoding::Raw);
    let text = match encoding {
        Encoding::Msgpack if payload.len() > MAX_EDITED => None,
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
    let id = job::find(&site, &queue, &id).await?.id;
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let done = match action.as_str() {
        "cancel" => {
            let retention = retention(queue.name(), site.effective());
            cancelled(&frame, jobs::cancel(&queue, &actor, &id, retention).await?)
        }
        "run-now" | "reschedule" | "edit" => {
            let changed = change(&frame, &site, (&queue, &id), (&actor, action.as_str()), &order).await?;
            words(&frame, changed)?
        }
        _ => return Err(Problem::not_found("no job has such an action")),
    };
    Ok(lead_to(&Link::job(&name, &id.to_string()), &done.message()))
}

/// What became of a job that somebody wants to cancel, in words.
fn cancelled(frame: &Frame, Noted { value, unnoted, .. }: Noted<Cancelled>) -> Done {
    let done = match value.outcome {
        CancelOutcome::Done => Done::new(frame.t("act.cancelled")),
        CancelOutcome::Requested => Done::new(frame.t("act.cancelling")),
        CancelOutcome::Repeated => Done::new(ended(frame, JobState::Cancelled)),
        CancelOutcome::Ended(state) => Done::not(ended(frame, state)),
        CancelOutcome::Moved(to) => Done::not(frame.fill("act.moved", &[("queue", &to)])),
    };
    done.unnoted(frame, unnoted)
}

fn ended(frame: &Frame, state: JobState) -> String {
    frame.fill("act.ended", &[("state", frame.t(state_key(state)))])
}

/// Changes a delayed job, if it is still what the form shows. The outer error is one of the form.
async fn change(
    frame: &Frame,
    site: &Site,
    (queue, id): (&Queue, &JobId),
    (actor, action): (&Actor, &str),
    order: &Order,
) -> Result<Result<Noted<Changed>, Error>, Problem> {
    let job = match read_delayed(site, queue, id).await? {
        Ok(job) => job,
        Err(error) => return Ok(Err(error)),
    };
    let changes = match action {
        "run-now" => return Ok(delayed::run_now(queue, actor, &job).await),
        "reschedule" => DelayedEdit::default().due(due(&order.due)?),
        _ if site.gatekeeper().revision(&job.revision()) != order.revision => return Ok(Err(Error::Changed)),
        _ => {
            let (_, encoding) = text_of(frame, site, &job.fields)?;
            DelayedEdit::default().payload(submit::encoded(site, &order.payload, encoding)?, encoding)
        }
    };
    let producer = site.producer(queue.clone());
    Ok(delayed::edit(queue, actor, &Edit { job: &job, changes: &changes, producer: &producer }).await)
}

/// What became of a change of a delayed job, in words.
fn words(frame: &Frame, changed: Result<Noted<Changed>, Error>) -> Result<Done, Problem> {
    match changed {
        Ok(Noted { value, unnoted, .. }) => {
            let text = frame.fill("act.changed", &[("time", &utc(value.due_time))]);
            Ok(Done::new(text).unnoted(frame, unnoted))
        }
        Err(Error::Conflict(_)) => Ok(Done::not(frame.t("act.too_late"))),
        Err(Error::Changed) => Ok(Done::not(frame.t("act.other_edit"))),
        Err(error) => Err(error.into()),
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
