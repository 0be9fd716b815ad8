//! One dead letter: why its job died, what it got, and what a person does with it.

use askama::Template;
use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;
use streamfleet::job::{JobId, JobType, Lane};
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::{DeadLetter, LetterEdit, Noted};
use streamfleet_operations::dead::{self, Kept, Sweep};
use streamfleet_operations::{Actor, Error};

use super::action::Done;
use super::content::{self, Bodies, Content, Wanted};
use super::dead::reason_of;
use super::form::{Field, Form, reason};
use super::frame::{Frame, grouped, lead_to, utc};
use super::graph::Graph;
use super::job::{self, Fact};
use super::section::Section;
use super::steps::Verdicts;
use super::{job_actions, submit, target};
use crate::console::access::{Person, Role};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::dead::limits;

#[derive(Template)]
#[template(path = "letter.html")]
struct LetterPage<'a> {
    frame: &'a Frame,
    id: String,
    queue: String,
    letters_link: String,
    facts: Vec<Fact>,
    error: Option<String>,
    content: Content,
    graph: Option<Graph>,
    verdicts: Option<Verdicts>,
    actions: Vec<(&'static str, String, bool)>,
}

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Path((name, entry)): Path<(String, String)>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let letter = target::letter((&site, &queue), &entry, frame.sees_payloads()).await?;
    let id = letter.job();
    let (graph, verdicts) = job::steps_of(&frame, &queue, &id).await.unzip();
    let here = Link::queue(&name, &["dead", &entry]);
    let bodies = Bodies { fields: Some(&letter.fields), result: None };
    let page = LetterPage {
        frame: &frame,
        queue: name.clone(),
        letters_link: Link::queue(&name, &["dead"]).to_string(),
        facts: facts(
            &frame,
            &queue,
            (&letter, &Kept::of(letter.entry, limits(queue.name(), site.effective()))),
        ),
        error: Some(frame.said(&letter.text("dead_error"))).filter(|text| !text.is_empty()),
        content: content::of(&frame, &site, &here, &bodies, &wanted)?,
        graph,
        verdicts,
        actions: actions(&frame, &queue, &here),
        id: id.to_string(),
    };
    let title = format!("{id} · {name}");
    Ok(frame.page(&title, Some(Section::Dead), &page))
}

fn facts(frame: &Frame, queue: &Queue, (letter, kept): (&DeadLetter, &Kept)) -> Vec<Fact> {
    let latest = kept.at.map(|at| frame.fill("letter.latest", &[("time", &*utc(at))]));
    let most = kept.dead_max.map(|most| frame.fill("letter.most", &[("count", &*grouped(most))]));
    let expires: Vec<String> = latest.into_iter().chain(most).collect();
    let name = queue.name().as_str();
    let fact = |key, text: String, link: Option<Link>| {
        (!text.is_empty()).then(|| Fact { key, text, link: link.map(|link| link.to_string()) })
    };
    let text = |field: &str| frame.field(field, &letter.text(field)).into_owned();
    let group = text("dead_fingerprint");
    let in_group = Link::queue(name, &["dead"]).with("group", &group);
    let jobs = Link::to(&["jobs"]).with("queue", name).with("type", &text("type"));
    let parent = text("parent");
    let parents = Link::job(name, &parent);
    let facts = [
        // Somebody may have written a type by XADD that no filter accepts.
        fact("column.type", text("type"), text("type").parse::<JobType>().is_ok().then_some(jobs)),
        fact("column.reason", reason_of(frame, letter), None),
        fact("letter.kind", text("dead_kind"), None),
        fact("letter.died", utc(letter.died()), None),
        fact("letter.expires", expires.join("; "), None),
        fact("column.attempts", text("dead_attempts"), None),
        fact("job.worker", text("dead_worker"), None),
        fact("column.lane", text("dead_origin"), None),
        fact("letter.replays", text("replays"), None),
        fact("column.group", group, Some(in_group)),
        fact("letter.entry", letter.entry.to_string(), None),
        fact("job.parent", parent, Some(parents)),
        fact(
            "job.campaign",
            text("dead_campaign"),
            Some(Link::queue(name, &["campaigns", &text("dead_campaign")])),
        ),
        fact("job.record", letter.job().to_string(), Some(Link::job(name, &letter.job().to_string()))),
    ];
    facts.into_iter().flatten().collect()
}

fn actions(frame: &Frame, queue: &Queue, here: &Link) -> Vec<(&'static str, String, bool)> {
    if !frame.may(Role::Operator, queue.name()) {
        return Vec::new();
    }
    let act = |action: &str| format!("{here}/{action}");
    let mut actions = vec![("action.replay", act("replay"), false)];
    if frame.sees_payloads() {
        actions.push(("action.edit", act("edit"), false));
    }
    actions.push(("action.drop", act("drop"), true));
    actions
}

/// What the form of an action says.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    payload: String,
    #[serde(default, rename = "type")]
    job_type: String,
}

/// Asks before an action.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    Path((name, entry, action)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let letter = target::letter((&site, &queue), &entry, action == "edit").await?;
    let (to, back) = (Link::queue(&name, &["dead", &entry, &action]), Link::queue(&name, &["dead", &entry]));
    let values = [("job", &*letter.job().to_string()), ("queue", &*name)];
    let about = frame
        .fill("letter.about", &[("type", &letter.text("type")), ("reason", &reason_of(&frame, &letter))]);
    let form = |title: &str| Form::new(&frame, frame.fill(title, &values), (&to, &back)).line(&*about);
    let form = match action.as_str() {
        "replay" => form("letter.replay").line(frame.t("letter.replay_line")).button("action.replay"),
        "drop" => form("letter.drop").line(frame.t("letter.drop_line")).button("action.drop").drastic(),
        "edit" => {
            let (text, _) = job_actions::text_of(&frame, &site, &letter.fields)?;
            form("letter.edit")
                .line(frame.t("letter.edit_line"))
                .field(Field::line(&frame, "type", "column.type").value(letter.text("type")).required())
                .field(Field::area(&frame, "payload", "job.payload").value(text))
                .button("action.edit")
        }
        _ => return Err(Problem::not_found("no dead letter has such an action")),
    };
    Ok(form.field(Field::reason(&frame)).page(Section::Dead))
}

/// Does it.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path((name, entry, action)): Path<(String, String, String)>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let letter = target::letter((&site, &queue), &entry, action == "edit").await?;
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let (way, text, to) = match action.as_str() {
        "replay" => (Sweep::Replay, "letter.replayed", Link::job(&name, &letter.job().to_string())),
        "drop" => (Sweep::Drop, "letter.dropped", Link::queue(&name, &["dead"])),
        "edit" => return edit(&frame, &site, (&queue, &letter), &order, &actor).await,
        _ => return Err(Problem::not_found("no dead letter has such an action")),
    };
    let named = JobId::derived(letter.entry, Lane::Normal);
    let swept = dead::sweep(&queue, &actor, way, &[named], &Shutdown::new()).await;
    let Noted { value: mut swept, unnoted, .. } = swept;
    if let Some(failure) = swept.failure.take() {
        return Err(failure.into());
    }
    let done = match swept.errors.iter().chain(&swept.remarks).next() {
        Some(why) => Done::not(why),
        None => Done::new(frame.t(text)),
    };
    Ok(lead_to(&to, &done.unnoted(&frame, unnoted).message()))
}

async fn edit(
    frame: &Frame,
    site: &Site,
    (queue, letter): (&Queue, &DeadLetter),
    order: &Order,
    actor: &Actor,
) -> Result<Response, Problem> {
    let (before, encoding) = job_actions::text_of(frame, site, &letter.fields)?;
    let mut changes = LetterEdit::default();
    // Browsers send line breaks as CR LF.
    let text = order.payload.replace("\r\n", "\n");
    if text != before {
        changes = changes.payload(submit::encoded(site, &text, encoding)?);
    }
    if order.job_type.trim() != letter.text("type") {
        changes = changes.job_type(target::part("type", order.job_type.trim())?);
    }
    let name = queue.name().as_str();
    let edit = dead::Edit { letter, changes: &changes, schemas: site.schemas() };
    let edited = match dead::edit(queue, actor, &edit).await {
        Ok(edited) => edited,
        Err(error @ Error::Redis { .. }) => return Err(error.into()),
        Err(error) => {
            let here = Link::queue(name, &["dead", &letter.entry.to_string()]);
            return Ok(lead_to(&here, &Done::not(error.to_string()).message()));
        }
    };
    let done = Done::new(frame.t("letter.edited")).unnoted(frame, edited.unnoted);
    Ok(lead_to(&Link::queue(name, &["dead", &edited.value.letter]), &done.message()))
}
