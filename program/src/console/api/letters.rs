//! Dead letters: lists, groups, one letter, replaying, dropping and editing it.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use streamfleet::job::{Encoding, EntryId, JobId};
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::{DeadLetter, Replayed};
use utoipa_axum::routes;

use super::asked::Asked;
use super::changes::Reason;
use super::desk::{Work, within};
use super::failure::{failed, redis};
use super::jobs::{FilterParams, PageParams, SEARCH_FOR, filter_of};
use super::names;
use super::place::Place;
use super::privacy::View;
use super::revision::Revision;
use super::sent::Sent;
use super::weight::hold_decoded;
use crate::actor;
use crate::console::access::{Mask, Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::dead::{self, GroupPage, LetterPage, LetterReport, Swept, WantedLetters};

/// How many times the bytes of a payload are in memory while its letter is shown. A control character takes six bytes in JSON.
const COPIES: usize = 8;

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(list_letters), Needs::Role(Role::Viewer))
        .describe(routes!(list_groups), Needs::Role(Role::Viewer))
        .describe(routes!(get_letter), Needs::Role(Role::Viewer))
        .describe(routes!(replay_letter), Needs::Role(Role::Operator))
        .describe(routes!(drop_letter), Needs::Role(Role::Operator))
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct OrderParams {
    /// List the oldest dead letters first.
    oldest_first: Option<bool>,
}

/// Lists dead letters, newest first.
///
/// A search stops after 10 s. Then `interrupted` is true, and `next` goes on where it ended.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead", tag = "dead letters",
    params(OrderParams, FilterParams, PageParams),
    responses((status = 200, description = "A page of dead letters", body = LetterPage)))]
async fn list_letters(
    State(site): State<Site>,
    person: Person,
    place: Place,
    mut asked: Asked,
) -> Result<Json<Value>, Problem> {
    let queue = place.queue(&site)?;
    let (limit, oldest_first) = (asked.limit()?, asked.flag("oldest_first")?);
    let after = asked.one("after", str::parse::<EntryId>)?;
    let conditions = asked.conditions()?;
    asked.end()?;
    View::of(&person, &site).check(&conditions)?;
    let wanted =
        WantedLetters { filter: filter_of(&conditions, site.mask(), "query")?, limit, after, oldest_first };
    let _permit = site.desk().begin(Work::Search)?;
    let stop = Shutdown::new();
    let work = dead::letters_page(&wanted, &queue, &stop);
    let (page, _) = within(SEARCH_FOR, (&stop, site.stopping()), work).await.map_err(failed)?;
    if page.items.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    View::of(&person, &site).json(&page)
}

/// Counts the dead letters by what killed their jobs, the largest groups first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead/groups", tag = "dead letters", params(GroupParams),
    responses((status = 200, description = "The groups", body = GroupPage)))]
async fn list_groups(
    State(site): State<Site>,
    person: Person,
    place: Place,
    mut asked: Asked,
) -> Result<Json<Value>, Problem> {
    let (queue, limit) = (place.queue(&site)?, asked.limit()?);
    asked.end()?;
    let page = dead::groups_page(&queue, limit).await.map_err(failed)?;
    if page.items.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    View::of(&person, &site).json(&page)
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct GroupParams {
    /// The most groups: 50 unless told otherwise.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u64>,
}

/// Shows a dead letter with all its fields.
///
/// Its `ETag` changes when somebody edits it.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead/{letter}", tag = "dead letters",
    responses((status = 200, description = "The dead letter", body = LetterReport,
        headers(("ETag" = String, description = "The revision of the dead letter, for If-Match")))))]
async fn get_letter(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
) -> Result<Response, Problem> {
    asked.end()?;
    let (queue, id) = (place.queue(&site)?, place.get::<JobId>("letter")?);
    let letter = found(&site, &queue, &id).await?;
    hold(&site, &letter, person.sees_payloads() && !site.mask().is_empty())?;
    let Json(mut report) =
        View::of(&person, &site).json(&dead::letter_report(&letter, &queue, site.effective()))?;
    for field in report["fields"].as_array_mut().into_iter().flatten() {
        mask(field, site.mask());
    }
    let mut response = Json(report).into_response();
    response.headers_mut().insert(header::ETAG, Revision::of_letter(&letter).header());
    Ok(response)
}

/// Notes the memory that it takes to show a letter, whose payload is decoded if anything in it is masked.
fn hold(site: &Site, letter: &DeadLetter, is_decoded: bool) -> Result<(), Problem> {
    let payload = letter.fields.get(b"payload").unwrap_or_default();
    site.desk().hold(COPIES * payload.len())?;
    if is_decoded { hold_decoded(site.desk(), (payload, Encoding::Json), 1) } else { Ok(()) }
}

/// Hides what is masked in a field of a letter. What cannot be read to find masked members is hidden as a whole.
fn mask(field: &mut Value, mask: &Mask) {
    if mask.is_empty() {
        return;
    }
    let name = field["name"].as_str().unwrap_or_default();
    let is_masked_header = name.strip_prefix("h.").is_some_and(|header| mask.hides(header));
    let shown = match name {
        "payload" | "then" if field["form"] == "utf8" => {
            let text = field["value"].as_str().unwrap_or_default();
            serde_json::from_str(text).ok().map(|mut payload: Value| {
                mask.apply(&mut payload);
                payload.to_string()
            })
        }
        "payload" | "then" | "raw" | "dead_before" => None,
        _ if is_masked_header => None,
        _ => return,
    };
    field["value"] = shown.unwrap_or_else(|| "***".to_owned()).into();
}

/// Finds the letter with this id, or of the job with this id.
///
/// # Errors
///
/// [`Problem`] with the status 404 that says what became of it, as far as that is known.
pub(super) async fn found(site: &Site, queue: &Queue, id: &JobId) -> Result<DeadLetter, Problem> {
    let letters = queue.dead_letters();
    let Ok(entry) = id.to_string().parse::<EntryId>() else {
        let _permit = site.desk().begin(Work::Search)?;
        return dead::find(queue, id).await.map_err(failed)?.ok_or_else(|| none(queue, id));
    };
    if let Some(letter) = letters.get(entry).await.map_err(redis("failed to read the dead letter"))? {
        return Ok(letter);
    }
    if let Some(edited) = letters.edited(entry).await.map_err(redis("failed to look it up"))? {
        return Err(Problem::not_found(format!("{id} was edited: its dead letter is now {edited}")));
    }
    let _permit = site.desk().begin(Work::Search)?;
    dead::find(queue, id).await.map_err(failed)?.ok_or_else(|| none(queue, id))
}

fn none(queue: &Queue, id: &JobId) -> Problem {
    let name = queue.name();
    Problem::not_found(format!("the queue {name} has no dead letter {id}, and none of a job with this id"))
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct ReplayParams {
    /// Which steps to run: `failed` (the default), those that have not succeeded, or `all`, also those of the kind `once`.
    steps: Option<String>,
}

/// Runs the job of a dead letter again, with its counters at zero.
///
/// The dead letter is replayed once, even if several people replay it.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/dead/{letter}/replay", tag = "dead letters", request_body = Reason,
    params(ReplayParams), responses((status = 200, description = "How many dead letters were replayed: one", body = Swept)))]
async fn replay_letter(
    State(site): State<Site>,
    person: Person,
    place: Place,
    mut asked: Asked,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    let all = asked.one("steps", |value| match value {
        "failed" => Ok(false),
        "all" => Ok(true),
        _ => Err("it must be failed or all"),
    });
    let all = all?.unwrap_or(false);
    asked.end()?;
    let (queue, id) = (place.queue(&site)?, place.get::<JobId>("letter")?);
    let letter = found(&site, &queue, &id).await?;
    let (letters, job) = (queue.dead_letters(), letter.job());
    let command = if all { "dead replay --steps all" } else { "dead replay" };
    actor::note(&queue, &actor::action(person.name(), command, &reason).ids(&[letter.entry])).await;
    let replayed = if all {
        letters.replay_all_steps(letter.entry, &job).await
    } else {
        letters.replay(letter.entry, &job).await
    };
    match replayed.map_err(redis("the dead letter may or may not be replayed"))? {
        Replayed::As(_) => {}
        Replayed::Edited(edited) => {
            return Err(Problem::conflict(format!("{id} was edited: its dead letter is now {edited}")));
        }
        Replayed::Gone(state) => {
            let is = state.map_or_else(String::new, |state| format!(": the job {job} is {state}"));
            return Err(Problem::conflict(format!("somebody else replayed or dropped {id} meanwhile{is}")));
        }
    }
    View::of(&person, &site).json(&Swept::replayed(&queue))
}

/// Deletes a dead letter and its job for good.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/dead/{letter}/drop", tag = "dead letters", request_body = Reason,
    responses((status = 200, description = "How many dead letters were dropped: one", body = Swept)))]
async fn drop_letter(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let (queue, id) = (place.queue(&site)?, place.get::<JobId>("letter")?);
    let letter = found(&site, &queue, &id).await?;
    actor::note(&queue, &actor::action(person.name(), "dead drop", &reason).ids(&[letter.entry])).await;
    let dropped = queue.dead_letters().drop(letter.entry, &letter.job()).await;
    if !dropped.map_err(redis("the dead letter may or may not be dropped"))? {
        return Err(Problem::conflict(format!("somebody else replayed, edited or dropped {id} meanwhile")));
    }
    View::of(&person, &site).json(&Swept::dropped(&queue))
}
