//! The dead letters of a queue: their groups, and the letters of a group or a filter.

use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use streamfleet::Queue;
use streamfleet::job::{DeadReason, EntryId, Timestamp};
use streamfleet_engine::admin::{DeadGroup, DeadGroups, DeadLetter, LetterSearch};

use super::criteria::{Condition, Criteria};
use super::found::ROWS;
use super::frame::{Frame, grouped};
use super::section::Section;
use super::table::{Cell, Table};
use super::trend::Trend;
use super::{dead_groups, target};
use crate::console::access::Role;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// The most letters that one page looks at …
const MOST: u64 = 5000;

/// … and how long it looks.
const LONGEST: Duration = Duration::from_millis(60);

#[derive(Template)]
#[template(path = "dead.html")]
struct Dead<'a> {
    frame: &'a Frame,
    queue: String,
    queue_link: String,
    total: String,
    /// The groups, unless letters are listed.
    groups: Option<Table>,
    letters: Option<Table>,
    summary: String,
    remarks: Vec<String>,
    next: Option<String>,
    conditions: Vec<Condition>,
    /// Where all letters are listed.
    all: String,
    /// What somebody may do with what is listed.
    actions: Vec<(&'static str, String, bool)>,
}

/// Letters of a page.
#[derive(Debug, Default)]
pub(super) struct Letters {
    pub(super) letters: Vec<DeadLetter>,
    /// Where the next page begins.
    pub(super) next: Option<EntryId>,
    /// Whether letters between these were not looked at.
    pub(super) has_gap: bool,
    read: u64,
    undecided: u64,
}

/// Shows the groups, or the letters that the filter matches.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let wants_letters = query.iter().any(|(name, _)| name == "letters");
    let criteria = Criteria::read(&frame, site.mask(), query)?;
    let failed = |error| target::redis("the dead letters could not be read", &queue, &error);
    let dead = queue.dead_letters();
    let (now, groups) = tokio::try_join!(queue.clock(), dead.groups()).map_err(failed)?;
    let here = || Link::queue(&name, &["dead"]);
    let mut page = Dead {
        frame: &frame,
        queue: name.clone(),
        queue_link: Link::queue(&name, &[]).to_string(),
        total: frame.number_of("dead.total", groups.letters),
        groups: None,
        letters: None,
        summary: String::new(),
        remarks: remarks(&frame, &groups),
        next: None,
        conditions: criteria.letter_fields(&frame),
        all: here().with("letters", "all").to_string(),
        actions: actions(&frame, &queue, &criteria),
    };
    if criteria.is_empty() && !wants_letters {
        let trend = Trend::read(&queue, now).await.map_err(failed)?;
        let shown = groups.groups.iter().take(ROWS);
        page.groups = Some(dead_groups::of_queue(&frame, &queue, (shown, &trend), now));
    } else {
        let letters = match &criteria.after {
            Some(after) => search(&queue, &criteria, Some(target::part("after", after)?), now).await?,
            None => newest(&queue, &criteria, last(&criteria, &groups), now).await?,
        };
        let shown = grouped(letters.letters.len() as u64);
        page.summary = frame.fill("found.summary", &[("shown", &shown), ("read", &grouped(letters.read))]);
        if letters.undecided > 0 {
            page.remarks.push(frame.number_of("found.unreadable", letters.undecided));
        }
        if letters.has_gap {
            page.remarks.push(frame.t("dead.gap").to_owned());
        }
        let link = |next: EntryId| {
            criteria.conditions(here()).with("letters", "all").with("after", &next.to_string())
        };
        page.next = letters.next.map(|next| link(next).to_string());
        page.letters = Some(listed(&frame, &name, &letters.letters, now));
    }
    let title = frame.fill("dead.title", &[("queue", &name)]);
    Ok(frame.page(&title, Some(Section::Dead), &page))
}

/// When the last job of the group died, if the filter is that of a group.
fn last(criteria: &Criteria, groups: &DeadGroups) -> Option<Timestamp> {
    let filter = criteria.filter.to_string();
    let named = |group: &&DeadGroup| {
        group.fingerprint.as_ref().is_some_and(|name| filter == format!("--group {name}"))
    };
    groups.groups.iter().find(named).map(|group| group.last)
}

/// Looks for letters from the newest on. `last` is when the last of their jobs died, if that is known. An edited letter is newer
/// than that, because it was written again. If there are more newer letters than a page looks at, it goes on at `last`.
///
/// # Errors
///
/// The errors of [`search`].
pub(super) async fn newest(
    queue: &Queue,
    criteria: &Criteria,
    last: Option<Timestamp>,
    now: Timestamp,
) -> Result<Letters, Problem> {
    let found = search(queue, criteria, None, now).await?;
    let last = last.map(|last| EntryId::new(last.as_ms().saturating_add(1), 0));
    let is_above = |last: &EntryId| found.next.is_some_and(|next| next > *last);
    let Some(last) = last.filter(|last| found.letters.len() < ROWS && is_above(last)) else {
        return Ok(found);
    };
    let older = search(queue, criteria, Some(last), now).await?;
    Ok(Letters {
        letters: found.letters.into_iter().chain(older.letters).collect(),
        next: older.next,
        has_gap: true,
        read: found.read + older.read,
        undecided: found.undecided + older.undecided,
    })
}

/// Looks for letters, the newest first.
///
/// # Errors
///
/// [`Problem`] if Redis does not answer.
async fn search(
    queue: &Queue,
    criteria: &Criteria,
    mut before: Option<EntryId>,
    now: Timestamp,
) -> Result<Letters, Problem> {
    let (mut found, begun) = (Letters::default(), Instant::now());
    let search = LetterSearch::new(&criteria.filter, now).newest_first(true);
    loop {
        let search = search.after(before).most(ROWS - found.letters.len());
        let page = queue.dead_letters().bare().search(&search).await;
        let page =
            page.map_err(|error| target::redis("the dead letters could not be read", queue, &error))?;
        found.letters.extend(page.letters.into_iter().filter(|letter| criteria.lists_letter(letter)));
        (found.read, found.undecided) = (found.read + page.read, found.undecided + page.undecided);
        (found.next, before) = (page.next, page.next);
        let is_long = found.read >= MOST || begun.elapsed() >= LONGEST;
        if before.is_none() || found.letters.len() >= ROWS || is_long {
            return Ok(found);
        }
    }
}

fn remarks(frame: &Frame, groups: &DeadGroups) -> Vec<String> {
    let mut remarks = Vec::new();
    if groups.uncounted() > 0 {
        remarks.push(frame.number_of("dead.uncounted", groups.uncounted()));
    }
    if groups.overcounted() > 0 {
        remarks.push(frame.number_of("dead.overcounted", groups.overcounted()));
    }
    if groups.groups.len() > ROWS {
        remarks.push(frame.number_of("dead.more_groups", (groups.groups.len() - ROWS) as u64));
    }
    remarks
}

/// What somebody may do with the letters that the filter matches, or with all of them.
fn actions(frame: &Frame, queue: &Queue, criteria: &Criteria) -> Vec<(&'static str, String, bool)> {
    if !frame.may(Role::Operator, queue.name()) || !criteria.selects() {
        return Vec::new();
    }
    let name = queue.name().as_str();
    let link = |more: &[&str]| criteria.conditions(Link::queue(name, more)).to_string();
    let mut actions = vec![("action.campaign", link(&["campaigns", "plan"]), false)];
    if !criteria.filter.is_empty() || frame.may(Role::Admin, queue.name()) {
        actions.push(("action.drop_all", link(&["dead-drop"]), true));
    }
    actions
}

/// Letters as a table.
pub(super) fn listed(frame: &Frame, queue: &str, letters: &[DeadLetter], now: Timestamp) -> Table {
    let columns = [
        ("column.job", ""),
        ("column.error", "clip"),
        ("column.reason", "short"),
        ("column.attempts", "number"),
        ("column.died", "short"),
    ];
    let mut table = Table::new(frame, "dead.letters", &columns).or(frame.t("found.none"));
    for letter in letters {
        let link = Link::queue(queue, &["dead", &letter.entry.to_string()]);
        let error = frame.said(&letter.text("dead_error"));
        table.add([
            Cell::id(letter.job().to_string(), &link).under(letter.text("type")),
            Cell::text(error),
            Cell::text(reason_of(frame, letter)),
            Cell::number(letter.text("dead_attempts").parse().unwrap_or(0)),
            Cell::time(frame, letter.died(), now),
        ]);
    }
    table
}

/// Why a job died, in words.
pub(super) fn reason_of(frame: &Frame, letter: &DeadLetter) -> String {
    let name = letter.text("dead_reason");
    DeadReason::named(&name).map_or(name, |reason| frame.t(reason_key(reason)).to_owned())
}

/// The key of a reason's name.
pub(super) fn reason_key(reason: DeadReason) -> &'static str {
    match reason.as_str() {
        "exhausted" => "reason.exhausted",
        "fatal" => "reason.fatal",
        "lost" => "reason.lost",
        "expired" => "reason.expired",
        "malformed" => "reason.malformed",
        "unroutable" => "reason.unroutable",
        "needs_decision" => "reason.needs_decision",
        "invalid" => "reason.invalid",
        _ => "reason.other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        let mut keys: Vec<&str> = DeadReason::ALL.map(reason_key).into();
        assert!(!keys.contains(&"reason.other"), "{keys:?}");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), DeadReason::ALL.len());
    }
}
