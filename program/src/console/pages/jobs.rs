//! The search for jobs: by id, type, error, payload and more, over all queues that somebody may see.

use askama::Template;
use axum::extract::{Query, State as Shared};
use axum::response::{IntoResponse as _, Redirect, Response};
use futures_util::{StreamExt as _, stream};
use streamfleet::Queue;
use streamfleet::job::{JobId, JobType, State};
use streamfleet_engine::admin::Holdings;

use super::criteria::{Condition, Criteria};
use super::found;
use super::frame::Frame;
use super::list::proposed;
use super::section::Section;
use super::table::{Table, state_key};
use super::target;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues are asked for an id at once.
const AT_ONCE: usize = 8;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs<'a> {
    frame: &'a Frame,
    /// The queue, and those that the field proposes.
    queue: String,
    queues: Vec<String>,
    /// Each state, the key of its name, and whether it is chosen.
    states: Vec<(&'static str, &'static str, bool)>,
    conditions: Vec<Condition>,
    table: Table,
    summary: String,
    remarks: Vec<String>,
    next: Option<String>,
}

/// Shows the page, or leads to the job whose id was typed into the search box.
pub(super) async fn show(
    Shared(site): Shared<Site>,
    frame: Frame,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queues = target::visible(&site, &frame).await?;
    let typed = query.iter().find(|(name, _)| name == "q").map(|(_, text)| text.trim());
    if let Some(text) = typed.filter(|text| !text.is_empty()) {
        return Ok(Redirect::to(meant(&frame, text, &queues).await.as_str()).into_response());
    }
    let criteria = Criteria::read(&frame, site.mask(), query)?;
    let is_wanted = |queue: &&Queue| criteria.queue.as_ref().is_none_or(|name| name == queue.name());
    let searched: Vec<Queue> = queues.iter().filter(is_wanted).cloned().collect();
    let holdings = Holdings::of(&site.known().await?.workers);
    let found = found::search(&frame, &searched, &criteria, holdings).await?;
    let with_letters = criteria.states.is_empty() || criteria.asks_for(State::Dead);
    let page = Jobs {
        queue: criteria.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
        queues: proposed(&queues),
        states: State::ALL.map(|state| (state.as_str(), state_key(state), criteria.asks_for(state))).into(),
        conditions: criteria.fields(&frame, with_letters),
        table: found.table(&frame, true),
        summary: found.summary(&frame),
        next: found
            .next
            .as_ref()
            .map(|next| criteria.extend(Link::to(&["jobs"])).with("after", next).to_string()),
        remarks: found.remarks,
        frame: &frame,
    };
    Ok(frame.page(frame.t("nav.jobs"), Some(Section::Jobs), &page))
}

/// Where the search box leads: to the job with this id, or else to a search by condition, type or text.
async fn meant(frame: &Frame, text: &str, queues: &[Queue]) -> Link {
    let search = Link::to(&["jobs"]);
    if let Ok(id) = text.parse::<JobId>() {
        let looking =
            stream::iter(queues.to_vec()).map(move |queue| known(queue, id.clone())).buffered(AT_ONCE);
        let found: Vec<Option<Link>> = looking.collect().await;
        let mut found = found.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(only), None) => return only,
            (Some(_), Some(_)) => return search.with("id", text),
            (None, _) => {}
        }
    }
    // The search refuses a condition that this person may not use.
    if text.starts_with("payload.") || text.starts_with("h.") {
        return search.with("where", text);
    }
    let is_type = JobType::is_valid(text.trim_end_matches(".*")) && text.contains('.');
    match (is_type, frame.sees_payloads()) {
        (true, _) => search.with("type", text),
        (false, true) => search.with("text", text),
        (false, false) => search.with("id", text),
    }
}

/// The page of a job, if the queue knows it. A queue that cannot be read does not hide the others.
async fn known(queue: Queue, id: JobId) -> Option<Link> {
    let status = queue.status(&id).await.ok().flatten()?;
    Some(Link::job(queue.name().as_str(), &status.id.to_string()))
}
