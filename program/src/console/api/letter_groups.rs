//! The groups of dead letters of a queue: what killed their jobs, when, and by what the letters of a group differ.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use streamfleet::job::Encoding;
use streamfleet_engine::admin::{DeadLetter, unpacked};
use streamfleet_operations::List;
use streamfleet_operations::dead::{self, DeathList, Group, GroupDetail, GroupFacts};
use utoipa_axum::routes;

use super::stats::SinceParams;
use super::work_limits::Work;
use super::{Answer, Call, QueryParams, Routes, operations, query};
use crate::console::access::Mask;

/// The largest payload that is compared with others of its group.
const MAX_COMPARED: usize = 8 * 1024;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::DEAD_GROUPS, routes!(list_groups))
        .operation(&operations::DEAD_GROUPS, routes!(get_group))
        .operation(&operations::DEAD_GROUPS, routes!(list_deaths))
}

type GroupPage = List<Group, GroupFacts>;

/// Counts the dead letters by what killed their jobs, the largest groups first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead/groups", tag = "dead letters", params(GroupParams),
    responses((status = 200, description = "The groups", body = GroupPage)))]
async fn list_groups(call: Call, QueryParams(GroupParams { limit }): QueryParams<GroupParams>) -> Answer {
    let queue = call.queue()?;
    let page = dead::groups(&queue, limit.unwrap_or(query::USUAL)).await?;
    call.list(&queue, &page).await
}

/// Shows one group of dead letters: when its jobs died, its newest letters, and by which values of payloads and headers they differ.
///
/// Payloads of more than 8 KiB are not compared.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead/groups/{group}", tag = "dead letters",
    responses((status = 200, description = "The group", body = GroupDetail)))]
async fn get_group(call: Call) -> Answer {
    let (queue, name) = (call.queue()?, call.path::<String>("group")?);
    let _permit = call.app.work_limits.begin(Work::Search)?;
    let group = dead::group(&queue, &name, |letter| content(&call, letter)).await?;
    call.answer(&group)
}

/// The payload and the headers of a letter, without what is masked; `None` for somebody who may not see payloads.
fn content(call: &Call, letter: &DeadLetter) -> Option<(Value, BTreeMap<String, String>)> {
    if !call.sees_payloads() {
        return None;
    }
    let headers = letter.fields.fields().filter_map(|(name, value)| {
        let (name, value) =
            (std::str::from_utf8(name.strip_prefix(b"h.")?).ok()?, std::str::from_utf8(value).ok()?);
        Some((name.to_owned(), call.mask().field(name, value).into_owned()))
    });
    let payload = letter.fields.get(b"payload").filter(|payload| payload.len() <= MAX_COMPARED);
    // Of what cannot be decoded, only the headers are compared.
    let payload = payload.and_then(|payload| decoded(call.mask(), payload, dead::encoding(letter)));
    Some((payload.unwrap_or_else(|| json!({})), headers.collect()))
}

/// A payload without what is masked; `None` if it cannot be decoded.
fn decoded(mask: &Mask, payload: &[u8], encoding: Encoding) -> Option<Value> {
    if !mask.is_empty() {
        return mask.value(payload, Some(encoding));
    }
    match encoding {
        Encoding::Json => serde_json::from_slice(payload).ok(),
        Encoding::Msgpack => unpacked(payload),
        Encoding::Raw => None,
    }
}

/// Counts when the jobs of each group died, in 24 parts of the time, as far as the newest 20,000 dead letters tell.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead/deaths", tag = "dead letters", params(SinceParams),
    responses((status = 200, description = "The groups whose jobs died", body = DeathList)))]
async fn list_deaths(call: Call, QueryParams(SinceParams { since }): QueryParams<SinceParams>) -> Answer {
    let queue = call.queue()?;
    let _permit = call.app.work_limits.begin(Work::Search)?;
    let page = dead::deaths(&queue, since).await?;
    call.list(&queue, &page).await
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct GroupParams {
    /// The most groups: 50 unless told otherwise.
    #[serde(deserialize_with = "query::some_limit")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u64>,
}
