//! What the address of a page names: a queue, a job, a letter, a step.

use std::str::FromStr;

use streamfleet::Queue;
use streamfleet::job::{EntryId, JobId, QueueName};
use streamfleet_engine::admin::DeadLetter;

use super::frame::Frame;
use crate::console::access::Role;
use crate::console::api::hold_fields;
use crate::console::link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// Reads a part of the path.
///
/// # Errors
///
/// [`Problem`] that names the part.
pub(super) fn part<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> Result<T, Problem> {
    link::meant(text).parse::<T>().map_err(|error| Problem::field(format!("path.{name}"), error.to_string()))
}

/// The queue that the path names.
///
/// # Errors
///
/// [`Problem`] if the name is not valid.
pub(super) fn queue(site: &Site, name: &str) -> Result<Queue, Problem> {
    Ok(site.queue(part::<QueueName>("queue", name)?))
}

/// The job id that the path names.
///
/// # Errors
///
/// [`Problem`] if it is not valid.
pub(super) fn job(id: &str) -> Result<JobId, Problem> {
    part("id", id)
}

/// The dead letter that the path names, with its large fields if somebody needs them.
///
/// # Errors
///
/// [`Problem`] if it does not exist; says if another took its place. Or if the memory for it is not to be had.
pub(super) async fn letter(
    (site, queue): (&Site, &Queue),
    entry: &str,
    is_whole: bool,
) -> Result<DeadLetter, Problem> {
    let entry = part::<EntryId>("letter", entry)?;
    let failed = |error| redis("the dead letter could not be read", queue, &error);
    let letters = queue.dead_letters();
    let letters = if is_whole { letters } else { letters.bare() };
    if let Some(letter) = site.desk().read(letters.get(entry)).await?.map_err(failed)? {
        hold_fields(site.desk(), &letter.fields, |_| false, 0)?;
        return Ok(letter);
    }
    let edited = queue.dead_letters().edited(entry).await.map_err(failed)?;
    let became = edited.map_or_else(String::new, |edited| format!("; after an edit, it is {edited}"));
    Err(Problem::not_found(format!("the queue {} has no dead letter {entry}{became}", queue.name())))
}

/// The queues that somebody may see.
///
/// # Errors
///
/// [`Problem`] if Redis does not answer.
pub(super) async fn visible(site: &Site, frame: &Frame) -> Result<Vec<Queue>, Problem> {
    let known = site.known().await?;
    let seen = known.queues.iter().filter(|name| frame.may(Role::Viewer, name));
    Ok(seen.map(|name| site.queue(name.clone())).collect())
}

/// Redis did not do what a page needs.
pub(super) fn redis(what: &str, queue: &Queue, error: &streamfleet::RedisError) -> Problem {
    let problem = Problem::redis(what, error);
    tracing::debug!(queue = queue.name().as_str(), "of this queue");
    problem
}
