//! Submitting a job by a form, with the commands that do the same.

use axum::Form as Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use streamfleet::job::{Encoding, Lane, QueueName};
use streamfleet::{Queue, Submission, SubmitError};
use streamfleet_engine::admin::Action;

use super::action::{Done, noted};
use super::form::{Field, Form, reason};
use super::frame::{Frame, lead_to};
use super::section::Section;
use super::terms_form::TermsForm;
use super::{commands, job, job_actions, target};
use crate::console::access::{Person, Role};
use crate::console::api::{hold_decoded, hold_fields};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::enqueue::outcome;

/// What the form says, or what it begins with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Draft {
    queue: String,
    #[serde(rename = "type")]
    job_type: String,
    payload: String,
    encoding: String,
    lane: String,
    /// `name=value` in lines.
    headers: String,
    #[serde(flatten)]
    terms: TermsForm,
    reason: String,
    /// The job that the form begins with.
    job: String,
    /// Whether only the commands are wanted.
    show: String,
}

/// Shows the form.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    Query(draft): Query<Draft>,
) -> Result<Response, Problem> {
    let draft = if draft.job.is_empty() { draft } else { draft.like_job(&site, &frame).await? };
    page(&site, &frame, &draft, Vec::new()).await
}

async fn page(
    site: &Site,
    frame: &Frame,
    draft: &Draft,
    commands: Vec<(&'static str, String)>,
) -> Result<Response, Problem> {
    let queues = target::visible(site, frame).await?;
    let names: Vec<String> = queues
        .iter()
        .filter(|queue| frame.may(Role::Submitter, queue.name()))
        .map(|queue| queue.name().to_string())
        .collect();
    let named = if draft.queue.is_empty() { names.first().cloned() } else { Some(draft.queue.clone()) };
    let queue = named.unwrap_or_else(|| "default".to_owned());
    let lanes = [Lane::Normal, Lane::High, Lane::Low].map(|lane| (lane.to_string(), lane.to_string()));
    let encodings = [Encoding::Json, Encoding::Msgpack, Encoding::Raw].map(|one| one.as_str().to_owned());
    let encodings = encodings.map(|name| (name.clone(), name));
    let fields = [
        Field::line(frame, "queue", "column.queue").value(queue).required(),
        Field::line(frame, "type", "column.type").value(&draft.job_type).required(),
        Field::area(frame, "payload", "job.payload").value(&draft.payload),
        Field::choice(frame, "encoding", "submit.encoding", encodings).value(&draft.encoding),
        Field::choice(frame, "lane", "column.lane", lanes).value(&draft.lane),
        Field::area(frame, "headers", "job.headers").value(&draft.headers).hint(frame, "submit.headers_hint"),
    ];
    let last = [
        Field::check(frame, "show", "submit.show").value(""),
        Field::line(frame, "reason", "form.reason").value(&draft.reason),
    ];
    let fields = fields.into_iter().chain(draft.terms.fields(frame)).chain(last);
    let (to, back) = (Link::to(&["submit"]), Link::to(&[]));
    let form =
        Form::new(frame, frame.t("nav.submit"), (&to, &back)).line(frame.t("submit.line")).fields(fields);
    Ok(form.commands(commands).button("action.submit").page(Section::Submit))
}

/// Submits the job, or shows the commands that would.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Body(draft): Body<Draft>,
) -> Result<Response, Problem> {
    let name: QueueName =
        draft.queue.trim().parse().map_err(|error| Problem::field("body.queue", format!("{error}")))?;
    // The path names no queue, so no rule has checked it.
    person.check(Role::Submitter, Some(&name))?;
    let queue = site.queue(name.clone());
    if !draft.show.is_empty() {
        let commands = draft.commands(&site, &name)?;
        return page(&site, &frame, &draft, commands).await;
    }
    let submitted = site.producer(queue.clone()).submit_or_find(draft.submission(&site, &name)?).await;
    let submitted = submitted.map_err(|error| refused(&queue, error))?;
    let id = submitted.id.to_string();
    let action =
        Action::new("enqueue", person.name()).why(reason(&draft.reason)).target(id.clone()).count(1_u64);
    let done = match submitted.existing() {
        None => Done::new(frame.fill("submit.done", &[("job", &id)])),
        Some(_) => Done::not(frame.fill("submit.existing", &[("job", &id)])),
    };
    let unnoted = noted(&queue, &action).await;
    Ok(lead_to(&Link::job(name.as_str(), &id), &done.unnoted(&frame, unnoted).message()))
}

impl Draft {
    /// Takes the type, payload, lane, headers and terms of a job that exists.
    async fn like_job(self, site: &Site, frame: &Frame) -> Result<Self, Problem> {
        let queue = target::queue(site, &self.queue)?;
        if !frame.may(Role::Viewer, queue.name()) {
            let why = format!("the queue {} is not yours to see", queue.name());
            return Err(Problem::new(StatusCode::FORBIDDEN, "not allowed", why));
        }
        let status = job::find(site, &queue, &self.job).await?;
        let fields = site.desk().read(queue.fields(&status)).await?;
        let fields =
            fields.map_err(|error| target::redis("the payload could not be read", &queue, &error))?;
        let fields = fields.ok_or_else(|| Problem::not_found("the payload no longer exists"))?;
        hold_fields(site.desk(), &fields, |_| false, 0)?;
        let (payload, encoding) = job_actions::text_of(frame, site, &fields)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = fields
            .fields()
            .filter_map(|(name, value)| Some(format!("{}={}", text(name.strip_prefix(b"h.")?), text(value))));
        Ok(Self {
            job_type: status.job_type.clone(),
            payload,
            encoding: encoding.as_str().to_owned(),
            lane: status.lane.to_string(),
            headers: headers.collect::<Vec<_>>().join("\n"),
            terms: TermsForm::like(&fields),
            ..self
        })
    }

    fn encoding(&self) -> Result<Encoding, Problem> {
        if self.encoding.is_empty() {
            return Ok(Encoding::Json);
        }
        let known = Encoding::parse(&self.encoding);
        known.ok_or_else(|| Problem::field("body.encoding", "an encoding must be json, msgpack or raw"))
    }

    fn lane(&self) -> Result<Lane, Problem> {
        if self.lane.is_empty() {
            return Ok(Lane::Normal);
        }
        self.lane.parse().map_err(|error| Problem::field("body.lane", format!("{error}")))
    }

    /// The headers, a line for each.
    fn headers(&self) -> Result<Vec<(String, String)>, Problem> {
        let lines = self.headers.lines().map(str::trim).filter(|line| !line.is_empty());
        let pair = |line: &str| {
            let pair = line.split_once('=').filter(|(name, _)| !name.is_empty());
            let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| {
                Problem::field("body.headers", "a header must be NAME=VALUE, one on each line")
            })
        };
        lines.map(pair).collect()
    }

    fn submission(&self, site: &Site, queue: &QueueName) -> Result<Submission, Problem> {
        let refused = |error: SubmitError| refused(&site.queue(queue.clone()), error);
        let encoding = self.encoding()?;
        let mut submission = Submission::new(self.job_type.trim()).map_err(refused)?.lane(self.lane()?);
        if !self.payload.is_empty() {
            submission =
                submission.payload(encoded(site, &self.payload, encoding)?, encoding).map_err(refused)?;
        }
        submission = self.terms.apply(submission, refused)?;
        for (name, value) in self.headers()? {
            submission = submission.header(&name, &value).map_err(refused)?;
        }
        submission.fits().map_err(refused)?;
        Ok(submission)
    }

    fn commands(&self, site: &Site, queue: &QueueName) -> Result<Vec<(&'static str, String)>, Problem> {
        self.submission(site, queue)?;
        let order = commands::Order {
            namespace: site.broker().namespace(),
            queue,
            lane: self.lane()?,
            job_type: self.job_type.trim(),
            payload: &self.payload,
            encoding: self.encoding()?,
            headers: self.headers()?,
            terms: self.terms.terms()?,
        };
        Ok(order.commands())
    }
}

/// A payload as it is sent: JSON is checked, and converted for MessagePack. Browsers send line breaks as CR LF, which nobody typed.
pub(super) fn encoded(site: &Site, text: &str, encoding: Encoding) -> Result<Vec<u8>, Problem> {
    // It is decoded for its schema, or to become MessagePack.
    if encoding == Encoding::Msgpack || !site.schemas().is_empty() {
        hold_decoded(site.desk(), (text.as_bytes(), Encoding::Json), 1)?;
    }
    let text = text.replace("\r\n", "\n").into_bytes();
    let wrong = |error: serde_json::Error| {
        Problem::field("body.payload", format!("the payload is not JSON: {error}"))
    };
    match encoding {
        Encoding::Raw => Ok(text),
        Encoding::Json => {
            let _: serde::de::IgnoredAny = serde_json::from_slice(&text).map_err(wrong)?;
            Ok(text)
        }
        Encoding::Msgpack => {
            let value: serde_json::Value = serde_json::from_slice(&text).map_err(wrong)?;
            rmp_serde::to_vec_named(&value).map_err(|error| Problem::field("body.payload", error.to_string()))
        }
    }
}

/// Why a job was not submitted or changed.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other error is a mistake in the form")]
pub(super) fn refused(queue: &Queue, error: SubmitError) -> Problem {
    let what = outcome(&error);
    match error {
        SubmitError::Broker(error) => target::redis(what, queue, &error),
        other => Problem::field("body", other.to_string()),
    }
}
