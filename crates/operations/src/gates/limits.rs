//! How many jobs a gate lets pass: setting and clearing its limits.

use std::str::FromStr;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{Breaker, GateName, Limits, Rule};
use streamfleet_engine::admin::Noted;

use super::doubt::unknown_type;
use crate::times::duration;
use crate::{Actor, Error, GATES_CLEAR, GATES_SET};

/// A breaker as people write it: the share of failures, of how many attempts, within what time, and for how long it closes the
/// gate, such as `50%/20/1m/30s`.
#[derive(Debug, Clone, Copy)]
pub struct BreakerText(pub Breaker);

impl FromStr for BreakerText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape =
            || "expected a share, a number of attempts and two times, such as 50%/20/1m/30s".to_owned();
        let parts: Vec<&str> = text.split('/').collect();
        let [share, min, window, cooldown] = parts[..] else { return Err(shape()) };
        let percent: f64 = share.strip_suffix('%').and_then(|share| share.parse().ok()).ok_or_else(shape)?;
        let min = min.parse().map_err(|_| shape())?;
        let breaker = Breaker::new(percent / 100.0, min, duration(window)?, duration(cooldown)?);
        breaker.map(Self).map_err(|error| error.to_string())
    }
}

/// What became of a gate's limits.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct GateChanged {
    /// The queue.
    pub queue: String,
    /// The gate.
    pub gate: String,
    /// `set` or `cleared`.
    pub done: &'static str,
    /// False if it was already so.
    pub changed: bool,
    /// How many jobs may run at once in the whole fleet.
    pub concurrency: Option<u32>,
    /// How many jobs may start in a period, such as `100/s`.
    pub rate: Option<String>,
    /// When failures close the gate, such as `50%/20/1m/30s`.
    pub breaker: Option<String>,
    /// That no live worker knows the type whose limits are set; absent if one does, or if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Sets the limits of a gate, in place of those that it had and of those of the workers' configuration. Without any limit, the gate
/// has none.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn set_limits(
    queue: &Queue,
    actor: &Actor,
    gate: &GateName,
    limits: Limits,
) -> Result<Noted<GateChanged>, Error> {
    let set = queue.gates().set(gate, &limits).await;
    let changed = set.map_err(Error::unsure("the limits may or may not be set"))?;
    let remark = unknown_type(queue, gate).await;
    let report = GateChanged { remark, ..report((queue, gate), "set", changed, limits) };
    let action = actor.action(&GATES_SET).target(format!("{gate}: {}", shown_limits(limits)));
    Ok(queue.audit().noted(&action, report).await)
}

/// Removes the limits that somebody has set, so that those of the workers' configuration apply again.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn clear_limits(
    queue: &Queue,
    actor: &Actor,
    gate: &GateName,
) -> Result<Noted<GateChanged>, Error> {
    let cleared = queue.gates().clear(gate).await;
    let changed = cleared.map_err(Error::unsure("the limits may or may not be cleared"))?;
    let report = report((queue, gate), "cleared", changed, limits_in_effect(queue, gate).await?);
    if !changed {
        return Ok(Noted::of_nothing(report));
    }
    Ok(queue.audit().noted(&actor.action(&GATES_CLEAR).target(gate.to_string()), report).await)
}

/// Returns the limits in effect for a gate.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn limits_in_effect(queue: &Queue, gate: &GateName) -> Result<Limits, Error> {
    let rules = queue.gates().rules().await.map_err(Error::redis("failed to read the rules"))?;
    Ok(rules.get(gate).map(Rule::limits).unwrap_or_default())
}

/// Returns limits as people read them, such as `10 at once, 100/s`.
pub fn shown_limits(limits: Limits) -> String {
    let (rate, breaker) =
        (limits.rate.map(|rate| rate.to_string()), limits.breaker.map(|one| one.to_string()));
    limits_text(limits.concurrency, rate.as_deref(), breaker.as_deref())
}

/// Returns limits in one line, such as `10 at once, 100/s`; `none` if there are none.
pub(super) fn limits_text(concurrency: Option<u32>, rate: Option<&str>, breaker: Option<&str>) -> String {
    let concurrency = concurrency.map(|jobs| format!("{jobs} at once"));
    let breaker = breaker.map(|breaker| format!("breaker {breaker}"));
    let all: Vec<String> = [concurrency, rate.map(str::to_owned), breaker].into_iter().flatten().collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

impl GateChanged {
    /// Returns the limits that are now in effect, such as `10 at once, 100/s`; `none` if there are none.
    pub fn limits(&self) -> String {
        limits_text(self.concurrency, self.rate.as_deref(), self.breaker.as_deref())
    }
}

fn report(
    (queue, gate): (&Queue, &GateName),
    done: &'static str,
    changed: bool,
    limits: Limits,
) -> GateChanged {
    GateChanged {
        queue: queue.name().to_string(),
        gate: gate.to_string(),
        done,
        changed,
        concurrency: limits.concurrency,
        rate: limits.rate.map(|rate| rate.to_string()),
        breaker: limits.breaker.map(|breaker| breaker.to_string()),
        remark: None,
    }
}
