//! One job: its time line, what it got and returned, its steps, and what happens next.

use askama::Template;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use streamfleet::Queue;
use streamfleet::job::{BatchId, Envelope, JobType, State, Timestamp};
use streamfleet_engine::admin::{LogLine, Status, StepsStatus};

use super::content::{self, Bodies, Content, Wanted};
use super::excerpt::html_bytes;
use super::frame::{Frame, bytes, grouped, utc};
use super::graph::Graph;
use super::next_step::{self, Prospects};
use super::section::Section;
use super::steps::Verdicts;
use super::table::{Cell, Table, state_class, state_key};
use super::target;
use super::timeline::{Span, Timeline};
use crate::console::access::Role;
use crate::console::api::{found, hold_fields};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::times::rfc3339;
use streamfleet_operations::unserved;

/// The most log lines of a page, and the most bytes that they take in it.
const MAX_LINES: usize = 100;
const MAX_LOG: usize = 20 * 1024;

/// How many bytes a log line takes beside its text.
const LINE_BYTES: usize = 90;

/// The most letters of an attempt's error. The last one is shown whole.
const MAX_ERROR: usize = 500;

/// The most jobs that followed which a page names.
const MAX_CHILDREN: usize = 50;

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage<'a> {
    frame: &'a Frame,
    id: String,
    queue: String,
    queue_link: String,
    state: &'static str,
    class: &'static str,
    facts: Vec<Fact>,
    /// What happens next, and when.
    next: String,
    remark: Option<String>,
    error: Option<String>,
    progress: Option<(u8, String)>,
    timeline: Option<Timeline>,
    attempts: Option<Table>,
    log: Vec<(String, String, String)>,
    logged: String,
    content: Content,
    graph: Option<Graph>,
    verdicts: Option<Verdicts>,
    commands: Vec<(&'static str, String)>,
    /// What somebody may do: the key of its name, where, and whether it cannot be undone.
    actions: Vec<(&'static str, String, bool)>,
}

/// One fact: the key of its name, the text, and where it leads.
pub(super) struct Fact {
    pub(super) key: &'static str,
    pub(super) text: String,
    pub(super) link: Option<String>,
}

/// Shows the page.
pub(super) async fn show(
    Shared(site): Shared<Site>,
    frame: Frame,
    Path((name, id)): Path<(String, String)>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let status = find(&site, &queue, &id).await?;
    let job_type = status.job_type.parse::<JobType>().ok();
    let waits = matches!(status.state, State::Waiting | State::Scheduled | State::Retrying);
    let remark = async {
        match job_type.as_ref().filter(|_| waits) {
            Some(job_type) => unserved::remark(&queue, job_type).await,
            None => None,
        }
    };
    let ledgers = queue.steps();
    let fields = site.desk().read(queue.fields(&status));
    let (steps, fields, remark) = tokio::join!(ledgers.of(&status.id), fields, remark);
    let steps = steps.map_err(|error| target::redis("the steps could not be read", &queue, &error))?;
    // A payload that cannot be read hides nothing else.
    let fields = fields?.ok().flatten();
    if let Some(fields) = &fields {
        hold_fields(site.desk(), fields, |_| false, 0)?;
    }
    let prospects = Prospects::read(&site, (&queue, &status), fields.as_ref()).await;
    let page = page(&frame, &site, (&queue, &status), (steps.as_ref(), fields.as_ref()), &wanted)?;
    let mut page = JobPage {
        remark,
        next: next_step::of(&frame, &status, &prospects),
        timeline: Timeline::of(&frame, &span(&status, prospects.began)),
        ..page
    };
    if let Some(batch) = fields.as_ref().and_then(|fields| fields.get(b"batch")) {
        page.facts.push(of_batch(&frame, &queue, &String::from_utf8_lossy(batch)).await);
    }
    let title = format!("{} · {}", status.id, queue.name());
    Ok(frame.page(&title, Some(Section::Jobs), &page))
}

/// Finds a job by its id, or by the entry id that `XADD` returned.
///
/// # Errors
///
/// [`Problem`] if the queue does not know it, or too many searches run.
pub(super) async fn find(site: &Site, queue: &Queue, id: &str) -> Result<Status, Problem> {
    found(site, queue, &target::job(id)?).await
}

fn page<'a>(
    frame: &'a Frame,
    site: &Site,
    (queue, status): (&Queue, &Status),
    (steps, fields): (Option<&StepsStatus>, Option<&Envelope>),
    wanted: &Wanted,
) -> Result<JobPage<'a>, Problem> {
    let (name, id) = (queue.name().as_str(), status.id.to_string());
    let seen =
        |text: &Option<String>| text.as_ref().map(|text| frame.said(text)).filter(|text| !text.is_empty());
    let bodies = Bodies { fields, result: status.result.as_deref() };
    let lines = if frame.sees_payloads() { newest(&status.log) } else { &[] };
    let decides = frame.may(Role::Operator, queue.name());
    Ok(JobPage {
        frame,
        queue: name.to_owned(),
        queue_link: Link::queue(name, &[]).to_string(),
        state: frame.t(state_key(status.state)),
        class: state_class(status.state),
        facts: facts(frame, (queue, status), fields),
        next: String::new(),
        remark: None,
        error: seen(&status.error),
        progress: status.progress.as_ref().map(|progress| (progress.percent, frame.said(&progress.note))),
        timeline: None,
        attempts: (!status.attempts.is_empty()).then(|| attempts(frame, status)),
        log: lines.iter().map(|line| (rfc3339(line.at), utc(line.at), frame.said(&line.text))).collect(),
        logged: logged(frame, lines.len() as u64, status.logged),
        content: content::of(frame, site, &Link::job(name, &id), &bodies, wanted)?,
        graph: steps.and_then(|steps| Graph::of(frame, steps)),
        verdicts: steps.and_then(|steps| Verdicts::of(frame, (name, &id), steps, decides)),
        commands: content::copies(frame, site, (queue, status), fields),
        actions: actions(frame, queue, status, fields.is_some()),
        id,
    })
}

/// The newest lines of a log that a page has room for.
fn newest(log: &[LogLine]) -> &[LogLine] {
    let mut room = MAX_LOG;
    let fits = |line: &&LogLine| {
        let bytes = LINE_BYTES + html_bytes(&line.text);
        let fits = bytes <= room;
        room = room.saturating_sub(bytes);
        fits
    };
    let count = log.iter().rev().take(MAX_LINES).take_while(fits).count();
    &log[log.len() - count..]
}

/// How many lines are shown of how many.
fn logged(frame: &Frame, shown: u64, total: u64) -> String {
    let all = frame.number_of("job.logged", total);
    if shown == total { all } else { frame.fill("job.log_cut", &[("shown", &grouped(shown)), ("all", &all)]) }
}

fn span(status: &Status, began: Option<Timestamp>) -> Span<'_> {
    let last = status.attempts.last().map(|attempt| attempt.ended);
    let is_over = status.state.is_final();
    // When a running attempt began is known exactly if its worker has reported that. Otherwise it began after it became due, or
    // after the one before it.
    let running = (status.state == State::Running).then(|| began.or(last).or(status.created)).flatten();
    let until = last.filter(|_| is_over).unwrap_or(status.now);
    Span { created: status.created, attempts: &status.attempts, running, until }
}

fn facts(frame: &Frame, (queue, status): (&Queue, &Status), fields: Option<&Envelope>) -> Vec<Fact> {
    let name = queue.name().as_str();
    let plain = |key, text: Option<String>| {
        let text = text.filter(|text| !text.is_empty())?;
        Some(Fact { key, text: frame.written(&text).into_owned(), link: None })
    };
    let linked = |key, text: Option<String>, link: Link| {
        text.filter(|text| !text.is_empty()).map(|text| Fact { key, text, link: Some(link.to_string()) })
    };
    let time = |time: Timestamp| format!("{} · {}", utc(time), frame.distance(time, status.now));
    let field = |name: &str| {
        let value = fields.and_then(|fields| fields.get(name.as_bytes()))?;
        // The links are built from what is shown.
        Some(frame.field(name, &String::from_utf8_lossy(value)).into_owned())
    };
    let letter = status.dead.map(|letter| letter.to_string());
    let letters = Link::queue(name, &["dead", letter.as_deref().unwrap_or_default()]);
    let parent = field("parent");
    let parents = Link::job(name, parent.as_deref().unwrap_or_default());
    // Further words say more about the life.
    let campaign = field("campaign").and_then(|tag| tag.split(' ').next().map(str::to_owned));
    let campaigns = Link::queue(name, &["campaigns", campaign.as_deref().unwrap_or_default()]);
    let jobs = Link::to(&["jobs"]).with("queue", name).with("type", &status.job_type);
    let size = fields.and_then(|fields| fields.get(b"payload")).map(|payload| bytes(payload.len() as u64));
    let facts = [
        linked("column.type", Some(status.job_type.clone()), jobs),
        plain("column.lane", Some(status.lane.to_string())),
        plain("job.created", status.created.map(time)),
        plain("job.due", status.due.map(time)),
        plain("job.worker", status.worker.clone()),
        plain("job.entry", status.entry.map(|entry| entry.to_string())),
        linked(
            "job.gate",
            status.room.as_deref().map(|gate| frame.about(gate).into_owned()),
            Link::to(&["gates"]).with("queue", name),
        ),
        linked("job.letter", letter, letters),
        linked("job.parent", parent, parents),
        linked("job.campaign", campaign, campaigns),
        plain("job.trace", field("traceparent")),
        plain("job.size", size),
        plain("job.cancelling", status.cancelling.map(time)),
        plain("job.cancelled_by", status.cancelled_by.clone()),
    ];
    let children = status.children.iter().take(MAX_CHILDREN).map(|id| {
        let link = Link::job(name, &id.to_string());
        Fact { key: "job.child", text: id.to_string(), link: Some(link.to_string()) }
    });
    facts.into_iter().flatten().chain(children).collect()
}

/// The batch that the job belongs to, and how far it is.
async fn of_batch(frame: &Frame, queue: &Queue, name: &str) -> Fact {
    let batch = match name.parse::<BatchId>() {
        Ok(batch) => queue.batch_status(&batch).await.ok().flatten(),
        Err(_) => None,
    };
    let progress = batch.map(|batch| {
        let values = [grouped(batch.size.saturating_sub(batch.left)), grouped(batch.size)];
        frame.fill("job.batch_progress", &[("done", &values[0]), ("size", &values[1])])
    });
    let shown = frame.field("batch", name).into_owned();
    let text = [Some(shown), progress].into_iter().flatten().collect::<Vec<_>>().join(" · ");
    Fact { key: "job.batch", text, link: None }
}

fn attempts(frame: &Frame, status: &Status) -> Table {
    let columns = [
        ("column.started", "short"),
        ("column.took", "short"),
        ("column.outcome", "short"),
        ("column.worker", "clip"),
        ("column.error", ""),
    ];
    let mut table = Table::new(frame, "job.attempts", &columns).longest(MAX_ERROR);
    for attempt in status.attempts.iter().rev() {
        let class = if attempt.outcome == "done" { "state done" } else { "state retrying" };
        let error = frame.said(&attempt.error);
        table.add([
            Cell::time(frame, attempt.started, status.now),
            Cell::lasting(Some(attempt.duration())),
            Cell::like(&attempt.outcome, class),
            Cell::text(&attempt.worker),
            Cell::like("", "lines").under(error),
        ]);
    }
    table
}

/// What somebody may do with the job. Another like it can be submitted if its fields are still there.
fn actions(
    frame: &Frame,
    queue: &Queue,
    status: &Status,
    has_fields: bool,
) -> Vec<(&'static str, String, bool)> {
    let name = queue.name().as_str();
    let id = status.id.to_string();
    let act = |action: &str| Link::queue(name, &["jobs", &id, action]).to_string();
    let mut actions = Vec::new();
    if frame.may(Role::Operator, queue.name()) {
        match status.state {
            State::Waiting | State::Running => actions.push(("action.cancel", act("cancel"), true)),
            State::Scheduled | State::Retrying => {
                actions.push(("action.run_now", act("run-now"), false));
                actions.push(("action.reschedule", act("reschedule"), false));
                actions.push(("action.edit", act("edit"), false));
                actions.push(("action.cancel", act("cancel"), true));
            }
            State::Dead => {
                if let Some(letter) = status.dead.map(|letter| letter.to_string()) {
                    let replay = Link::queue(name, &["dead", &letter, "replay"]);
                    actions.push(("action.replay", replay.to_string(), false));
                    actions.push(("action.letter", Link::queue(name, &["dead", &letter]).to_string(), false));
                }
            }
            State::Done | State::Cancelled => {}
        }
    }
    if has_fields && frame.may(Role::Submitter, queue.name()) && frame.sees_payloads() {
        let again = Link::to(&["submit"]).with("queue", name).with("job", &id);
        actions.push(("action.submit_again", again.to_string(), false));
    }
    actions
}

/// The steps of a job for its letter's page, too.
pub(super) async fn steps_of(
    frame: &Frame,
    queue: &Queue,
    id: &streamfleet::job::JobId,
) -> Option<(Graph, Verdicts)> {
    let steps = queue.steps().of(id).await.ok().flatten()?;
    let decides = frame.may(Role::Operator, queue.name());
    let verdicts = Verdicts::of(frame, (queue.name().as_str(), &id.to_string()), &steps, decides)?;
    Some((Graph::of(frame, &steps)?, verdicts))
}
