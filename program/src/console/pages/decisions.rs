//! The inbox of decisions: jobs with a step that must not run twice, and whose outcome nobody knows.

use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use streamfleet::Queue;
use streamfleet::job::{DeadReason, Timestamp};
use streamfleet_engine::admin::{DeadLetter, StepsStatus};

use super::criteria::Criteria;
use super::dead;
use super::frame::Frame;
use super::list::{Asked, List, Narrow};
use super::section::Section;
use super::steps::waits;
use super::table::{Cell, Table};
use super::target;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues, or ledgers, are read at once.
const AT_ONCE: usize = 8;

/// The most jobs of a page.
const MOST: usize = 50;

/// A job that waits for a decision.
struct Waiting {
    queue: Queue,
    letter: DeadLetter,
    steps: Option<StepsStatus>,
    now: Timestamp,
}

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["decisions"]);
    let narrow = Narrow::new(&frame, &here).queue(&frame, &asked, &queues).field(
        &frame,
        &asked,
        ("type", "filter.type"),
    );
    asked.retain_queues(&mut queues);
    let reason = ("reason".to_owned(), DeadReason::NeedsDecision.as_str().to_owned());
    let job_type = asked.get("type").map(|name| ("type".to_owned(), name.to_owned()));
    let criteria = [Some(reason), job_type].into_iter().flatten().collect();
    let criteria = Criteria::read(&frame, site.mask(), criteria)?;
    let letters = |queue: &str| criteria.conditions(Link::queue(queue, &["dead"])).to_string();
    let reading = stream::iter(queues).map(|queue| read(queue, criteria.clone())).buffered(AT_ONCE);
    let read: Vec<_> = reading.collect().await;
    let (mut found, mut remarks, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for one in read {
        match one {
            Ok((waiting, unread)) => {
                found.extend(waiting);
                let text = |queue: &str| frame.fill("decisions.more", &[("queue", queue)]);
                more.extend(unread.map(|queue| (text(&queue), letters(&queue))));
            }
            Err(problem) => remarks.push(problem.detail().to_owned()),
        }
    }
    found.sort_by_key(|waiting| waiting.letter.died());
    let next = asked.cut(&mut found, MOST)?;
    let table = table(&frame, &found);
    let (title, line) = (frame.t("nav.decisions"), frame.t("decisions.line").to_owned());
    let next = narrow.next(here, next);
    let page = List { frame: &frame, title, line, narrow, table, remarks, more, next };
    Ok(frame.page(title, Some(Section::Decisions), &page))
}

/// The jobs of a queue that wait, and the name of the queue if there may be more.
async fn read(queue: Queue, criteria: Criteria) -> Result<(Vec<Waiting>, Option<String>), Problem> {
    let failed = |error| target::redis("the dead letters could not be read", &queue, &error);
    let snapshot = queue.snapshot().await.map_err(failed)?;
    if snapshot.dead == 0 {
        return Ok((Vec::new(), None));
    }
    // The groups say whether there are any, and when the last one died.
    let groups = queue.dead_letters().groups().await.map_err(failed)?;
    let waiting = groups.groups.iter().filter(|group| group.reason == Some(DeadReason::NeedsDecision));
    let last = waiting.map(|group| group.last).max();
    let is_counted = groups.uncounted() == 0 && groups.groups.iter().all(|group| group.fingerprint.is_some());
    if last.is_none() && is_counted {
        return Ok((Vec::new(), None));
    }
    let last = last.filter(|_| is_counted);
    let letters = dead::newest(&queue, &criteria, last, snapshot.now).await?;
    let more = (letters.has_gap || letters.next.is_some()).then(|| queue.name().to_string());
    let now = snapshot.now;
    let reading = stream::iter(letters.letters).map(move |letter| {
        let queue = queue.clone();
        async move {
            let steps = queue.steps().of(&letter.job()).await.ok().flatten();
            Waiting { queue, letter, steps, now }
        }
    });
    Ok((reading.buffered(AT_ONCE).collect().await, more))
}

fn table(frame: &Frame, found: &[Waiting]) -> Table {
    let columns = [
        ("column.job", ""),
        ("column.queue", "short"),
        ("column.step", ""),
        ("column.error", "clip"),
        ("column.died", "short"),
        ("column.change", "short"),
    ];
    let mut table = Table::new(frame, "nav.decisions", &columns).or(frame.t("decisions.none"));
    for Waiting { queue, letter, steps, now } in found {
        let name = queue.name().as_str();
        let link = Link::queue(name, &["dead", &letter.entry.to_string()]);
        let error = frame.said(&letter.text("dead_error"));
        table.add([
            Cell::id(letter.job().to_string(), &link).under(letter.text("type")),
            Cell::link(name, &Link::queue(name, &[])),
            Cell::text(steps.as_ref().map(undecided).unwrap_or_default()),
            Cell::text(error),
            Cell::time(frame, letter.died(), *now),
            Cell::link(frame.t("decisions.decide"), &link),
        ]);
    }
    table
}

/// The names of the steps that wait.
fn undecided(steps: &StepsStatus) -> String {
    let Some(plan) = &steps.ledger.plan else { return String::new() };
    let waiting = plan
        .steps()
        .iter()
        .filter(|step| waits(step.kind, steps.ledger.state(&step.name), steps.dead.is_some()));
    waiting.map(|step| step.name.to_string()).collect::<Vec<_>>().join(", ")
}
