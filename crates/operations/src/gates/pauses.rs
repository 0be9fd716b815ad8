//! Pausing a queue, a type, or a field's value, and resuming it.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{GateName, InvalidName};
use streamfleet_engine::admin::Noted;

use super::doubt::unknown_type;
use crate::{Actor, Error, PAUSE, RESUME};

/// What to pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// The gate to close.
    pub gate: GateName,
    /// After this time, it opens by itself; `None`: somebody must resume.
    pub time: Option<Duration>,
    /// Whether to pause a type that no live worker knows, and to replace the pause of another person.
    pub is_sure: bool,
}

/// What became of a pause, or of its end.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Paused {
    /// The queue.
    pub queue: String,
    /// The gate.
    pub gate: String,
    /// `paused` or `resumed`.
    pub done: &'static str,
    /// False if it was already so.
    pub changed: bool,
    /// After this time, in milliseconds, it resumes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// Reads the gate of a field, or of one of its values, such as `h.tenant` or `h.tenant=9`.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn value_gate(text: &str) -> Result<GateName, String> {
    format!("key:{text}").parse().map_err(|error: InvalidName| {
        format!(
            "{error}; expected a field and a value of at most 128 bytes, such as h.tenant=9 or limit_key=a"
        )
    })
}

/// Closes a gate: no further job that meets it starts, and running ones finish.
///
/// # Errors
///
/// [`Error::Doubtful`] if no live worker knows the type, or another person has paused it; [`Error::Redis`].
pub async fn pause(queue: &Queue, actor: &Actor, input: &Pause) -> Result<Noted<Paused>, Error> {
    let Pause { gate, time, is_sure } = input;
    let failed = || format!("{gate} was not paused");
    if !is_sure && let Some(doubt) = doubt(queue, gate, actor).await.map_err(Error::redis(failed()))? {
        return Err(Error::Doubtful(doubt));
    }
    let closed = queue.gates().close(gate, actor.name(), actor.reason(), *time).await;
    closed.map_err(Error::redis(failed()))?;
    let for_ms = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let paused = Paused { for_ms, ..report(queue, gate, "paused", true) };
    Ok(queue.audit().noted(&actor.action(&PAUSE).target(gate.to_string()), paused).await)
}

/// Opens a gate that was paused.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn resume(queue: &Queue, actor: &Actor, gate: &GateName) -> Result<Noted<Paused>, Error> {
    let opened = queue.gates().open(gate).await;
    let changed = opened.map_err(Error::redis(format!("{gate} was not resumed")))?;
    let resumed = report(queue, gate, "resumed", changed);
    if !changed {
        return Ok(Noted::of_nothing(resumed));
    }
    Ok(queue.audit().noted(&actor.action(&RESUME).target(gate.to_string()), resumed).await)
}

/// Why a pause is probably a mistake.
async fn doubt(
    queue: &Queue,
    gate: &GateName,
    actor: &Actor,
) -> Result<Option<String>, streamfleet::RedisError> {
    let rules = queue.gates().rules().await?;
    let closed = rules.get(gate).and_then(|rule| rule.closed.as_ref());
    if let Some(closed) = closed.filter(|closed| closed.by != actor.name()) {
        let why = if closed.reason.is_empty() { String::new() } else { format!(": {}", closed.reason) };
        return Ok(Some(format!("{} has already paused {gate}{why}; this replaces that pause", closed.by)));
    }
    Ok(unknown_type(queue, gate).await)
}

fn report(queue: &Queue, gate: &GateName, done: &'static str, changed: bool) -> Paused {
    Paused { queue: queue.name().to_string(), gate: gate.to_string(), done, changed, for_ms: None }
}
