//! The gates of a queue, and where they stand.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{FairShare, Timestamp};
use streamfleet_engine::admin::GateStatus;

use super::Standing;
use super::limits::limits_text;
use crate::times::rfc3339;
use crate::{Error, List};

/// One gate.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Gate {
    /// Its name.
    pub gate: String,
    /// `open`, `paused` or `tripped`; `unreadable` if nothing passes until its rule is set again; `ignored` if the rule is one of
    /// too many, and stops nobody; `shared` for the line that says how the queue is shared.
    pub state: &'static str,
    /// Who paused it.
    pub paused_by: Option<String>,
    /// Why it is paused.
    pub reason: Option<String>,
    /// Since when it is paused.
    pub paused_since: Option<String>,
    /// Since when it is paused, in milliseconds since 1970.
    pub paused_since_ms: Option<u64>,
    /// When it opens by itself.
    pub until: Option<String>,
    /// When it opens by itself, in milliseconds since 1970.
    pub until_ms: Option<u64>,
    /// How many jobs may run at once in the whole fleet.
    pub concurrency: Option<u32>,
    /// How many jobs may start in a period.
    pub rate: Option<String>,
    /// When failures close it.
    pub breaker: Option<String>,
    /// `command` if somebody has set the limits, `config` if they are those of a configuration.
    pub source: Option<&'static str>,
    /// The jobs that hold a place.
    pub held: u64,
    /// The jobs that wait for it.
    pub waiting: u64,
}

impl Gate {
    /// Returns its limits as people read them, such as `10 at once, 100/s`; `none` if it has none.
    pub fn limits(&self) -> String {
        limits_text(self.concurrency, self.rate.as_deref(), self.breaker.as_deref())
    }

    /// Returns the state that people see: a gate that is open is `holding` if jobs wait for it.
    pub fn shown_state(&self) -> &'static str {
        if self.state == "open" && self.waiting > 0 { "holding" } else { self.state }
    }
}

/// Lists the gates that have a rule, and the values of fields for which jobs wait, with the time by Redis's clock.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(queue: &Queue) -> Result<(List<Gate>, Timestamp), Error> {
    let handle = queue.gates();
    let listed = tokio::try_join!(handle.list(), handle.rules(), queue.clock());
    let (gates, rules, now) = listed.map_err(Error::redis("failed to list the gates"))?;
    let mut gates: Vec<Gate> = gates.iter().map(|gate| report(gate, now)).collect();
    if let Some(share) = rules.fair() {
        let snapshot = queue.snapshot().await;
        let failed = Error::redis("failed to count the jobs that wait for their turn");
        gates.push(shared(share, snapshot.map_err(failed)?.in_fair_rooms));
    }
    Ok((List::from(gates), now))
}

fn report(GateStatus { rule, held, waiting, tripped_until, .. }: &GateStatus, now: Timestamp) -> Gate {
    let (closed, limits) = (rule.closed.as_ref(), rule.limits());
    let tripped = tripped_until.filter(|until| *until > now);
    let ends = closed.map_or(tripped, |closed| closed.until);
    Gate {
        gate: rule.gate.to_string(),
        state: Standing::of(rule, *tripped_until, now).as_str(),
        paused_by: closed.map(|closed| closed.by.clone()),
        reason: closed.map(|closed| closed.reason.clone()),
        paused_since: closed.map(|closed| rfc3339(closed.since)),
        paused_since_ms: closed.map(|closed| closed.since.as_ms()),
        until: ends.map(rfc3339),
        until_ms: ends.map(Timestamp::as_ms),
        concurrency: limits.concurrency,
        rate: limits.rate.map(|rate| rate.to_string()),
        breaker: limits.breaker.map(|breaker| breaker.to_string()),
        source: rule.set.map(|_| "command").or(rule.configured.map(|_| "config")),
        held: *held,
        waiting: *waiting,
    }
}

/// How the queue is shared, as one more line.
fn shared(share: &FairShare, waiting: u64) -> Gate {
    let gate = format!("fair:{}", share.field());
    Gate { gate, state: "shared", source: Some("config"), waiting, ..Gate::default() }
}
