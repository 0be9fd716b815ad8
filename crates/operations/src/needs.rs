//! What needs a person: incidents that nobody has acknowledged, and of each queue decisions, types that no worker knows, gates that
//! stop jobs, and a missing leader.

use std::time::Duration;

use serde::Serialize;
use streamfleet::job::{DeadReason, GateName, QueueName, Rule, Timestamp};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{
    Incident, KnownIncident, OpenIncidents, Part, QueueSnapshot, UnknownType, Unread, WorkerInfo, grouped,
    short,
};

use crate::gates::Standing;

/// The most types that one queue names because no worker knows them.
const MAX_TYPES: usize = 10;

/// The most gates that one queue names.
const MAX_GATES: usize = 20;

/// Something that needs a person. Which parameters there are depends on the code.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Need {
    /// What it is: `incident`, `incidents_unreadable`, `decisions`, `unserved_type`, `no_leader`, `paused`, `gate_paused`,
    /// `gate_tripped`, `gate_unreadable`, `more_gates` or `key_unreadable`.
    pub code: &'static str,
    /// The queue that it is about; null if it is about none.
    pub queue: Option<String>,
    /// What it is, in English.
    pub detail: String,
    /// The values in that text.
    pub params: NeedParams,
}

/// The values in the text about something that needs a person.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct NeedParams {
    /// The id of the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// The kind of the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// What the incident is about, or the key of Redis that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How many jobs, workers, gates or incidents it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The type of the jobs.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// The gate that no job passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Who has paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For how long it has been so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// After which time it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
}

/// What was read of a queue to find out what needs a person.
#[derive(Debug)]
#[non_exhaustive]
pub struct Troubles {
    queue: QueueName,
    snapshot: QueueSnapshot,
    /// Dead letters that wait for a decision.
    decisions: u64,
    /// Types of waiting jobs that no live worker knows.
    unserved: Vec<UnknownType>,
    /// Gates that no job passes.
    shut: Vec<(GateName, Standing)>,
}

/// Reads it. What besides the counts of jobs cannot be read is left out: the rest is worth seeing without it.
///
/// # Errors
///
/// [`RedisError`] if the jobs cannot be counted.
pub async fn read(queue: &Queue) -> Result<Troubles, RedisError> {
    let snapshot = queue.snapshot().await?;
    let (decisions, unserved, shut) =
        tokio::join!(decisions(queue, &snapshot), unserved(queue, &snapshot), shut(queue, snapshot.now));
    let shut = shut.unwrap_or_else(|error| {
        tracing::debug!(queue = %queue.name(), %error, "the gates of a queue cannot be read");
        Vec::new()
    });
    Ok(Troubles { queue: queue.name().clone(), snapshot, decisions, unserved, shut })
}

/// How many letters wait for a decision. Without the right to read the groups, nobody knows.
async fn decisions(queue: &Queue, snapshot: &QueueSnapshot) -> u64 {
    if snapshot.dead == 0 {
        return 0;
    }
    let groups = queue.dead_letters().groups().await.map(|dead| dead.groups).unwrap_or_default();
    let waiting = groups.iter().filter(|group| group.reason == Some(DeadReason::NeedsDecision));
    waiting.map(|group| group.count).sum()
}

async fn unserved(queue: &Queue, snapshot: &QueueSnapshot) -> Vec<UnknownType> {
    if snapshot.in_unknown_rooms == 0 {
        return Vec::new();
    }
    let mut unknown = queue.unknown_types(MAX_TYPES).await.unwrap_or_default();
    unknown.retain(|one| one.jobs > 0 && one.unserved_for.is_some());
    unknown
}

/// The gates that no job passes. A snapshot counts them only for the leader.
async fn shut(queue: &Queue, now: Timestamp) -> Result<Vec<(GateName, Standing)>, RedisError> {
    let gates = queue.gates();
    let rules = gates.rules().await?;
    let with = |rule: &Rule, tripped| (rule.gate.clone(), Standing::of(rule, tripped, now));
    // Only breakers need more than the rules: a list asks for each gate.
    let all: Vec<(GateName, Standing)> = if rules.iter().any(|rule| rule.limits().breaker.is_some()) {
        let listed = gates.list().await?;
        // The rule for each value says who has closed all of them.
        let own = listed.iter().filter(|gate| !gate.inherited || gate.rule.closed.is_none());
        own.map(|gate| with(&gate.rule, gate.tripped_until)).collect()
    } else {
        rules.iter().map(|rule| with(rule, None)).collect()
    };
    Ok(all.into_iter().filter(|(_, standing)| standing.is_shut()).collect())
}

impl Troubles {
    /// What needs a person, if this many live workers serve the queue. `shown` returns what a person may see of the name of a gate.
    pub fn needs(&self, workers: u64, shown: impl Fn(&str) -> String) -> Vec<Need> {
        let mut needs: Vec<Need> = self.decisions().into_iter().collect();
        needs.extend(self.unserved.iter().map(|one| self.unserved(one)));
        needs.extend(self.leader(workers));
        let gates = self.shut.iter().filter_map(|(gate, standing)| self.gate(gate, standing, &shown));
        let mut gates: Vec<Need> = gates.collect();
        // The rules may be unreadable.
        if let Some(since) = self.snapshot.closed_since
            && gates.iter().all(|need| need.code != "paused")
        {
            needs.push(self.paused(since));
        }
        let more = gates.len().saturating_sub(MAX_GATES) as u64;
        gates.truncate(MAX_GATES);
        needs.extend(gates);
        if more > 0 {
            let detail = format!("{} further gates let nothing pass", grouped(more));
            needs.push(self.need(
                "more_gates",
                detail,
                NeedParams { count: Some(more), ..NeedParams::default() },
            ));
        }
        needs.extend(self.snapshot.unread.iter().map(|unread| self.unread(unread)));
        needs
    }

    fn need(&self, code: &'static str, detail: String, params: NeedParams) -> Need {
        Need { code, queue: Some(self.queue.to_string()), detail, params }
    }

    fn decisions(&self) -> Option<Need> {
        let count = Some(self.decisions).filter(|count| *count > 0)?;
        let detail = format!("{} dead jobs wait for a decision", grouped(count));
        Some(self.need("decisions", detail, NeedParams { count: Some(count), ..NeedParams::default() }))
    }

    fn unserved(&self, one: &UnknownType) -> Need {
        let (jobs, time) = (grouped(one.jobs), one.unserved_for.unwrap_or_default());
        let detail = format!(
            "{jobs} jobs of type {} wait, and no worker has known it for {}",
            one.job_type,
            short(time)
        );
        let (count, for_ms) = (Some(one.jobs), Some(millis(time)));
        let job_type = Some(one.job_type.to_string());
        self.need("unserved_type", detail, NeedParams { count, job_type, for_ms, ..NeedParams::default() })
    }

    /// That the queue has work or workers, but no leader.
    fn leader(&self, workers: u64) -> Option<Need> {
        // Nobody knows whether there is one if its key cannot be read, and another need says so.
        let is_hidden = |unread: &Unread| matches!(unread.part, Part::Leader | Part::Queue);
        if self.snapshot.leader.is_some() || self.snapshot.unread.iter().any(is_hidden) {
            return None;
        }
        let detail = match workers {
            0 if self.snapshot.jobs() == 0 => return None,
            0 => "no process does the maintenance of the queue".to_owned(),
            count => format!(
                "no process does the maintenance of the queue, although {} live workers serve it",
                grouped(count)
            ),
        };
        Some(self.need("no_leader", detail, NeedParams { count: Some(workers), ..NeedParams::default() }))
    }

    fn paused(&self, since: Timestamp) -> Need {
        let time = self.snapshot.now.since(since);
        let params = NeedParams { for_ms: Some(millis(time)), ..NeedParams::default() };
        self.need("paused", format!("paused for {}", short(time)), params)
    }

    fn gate(&self, gate: &GateName, standing: &Standing, shown: impl Fn(&str) -> String) -> Option<Need> {
        let (now, is_queue, name) =
            (self.snapshot.now, gate.as_str() == GateName::QUEUE, shown(gate.as_str()));
        let params = NeedParams { gate: Some(name.clone()), ..NeedParams::default() };
        match standing {
            Standing::Paused { by, reason, since, until } => {
                let time = now.since(*since);
                let what = if is_queue { String::new() } else { format!("the gate {name} is ") };
                let (by, reason) = (written(by), written(reason));
                let who = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
                let why = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
                let detail = format!("{what}paused for {}{who}{why}", short(time));
                let ends_in_ms = until.map(|until| millis(until.since(now)));
                let params = NeedParams { by, reason, for_ms: Some(millis(time)), ends_in_ms, ..params };
                Some(self.need(if is_queue { "paused" } else { "gate_paused" }, detail, params))
            }
            Standing::Tripped(until) => {
                let time = until.since(now);
                let detail =
                    format!("the breaker of the gate {name} is open, and tries again in {}", short(time));
                let params = NeedParams { ends_in_ms: Some(millis(time)), ..params };
                Some(self.need("gate_tripped", detail, params))
            }
            Standing::Unreadable => {
                let detail = format!("the rule of the gate {name} is unreadable, so nothing passes");
                Some(self.need("gate_unreadable", detail, params))
            }
            Standing::Ignored | Standing::Open => None,
        }
    }

    fn unread(&self, unread: &Unread) -> Need {
        let params = NeedParams { key: Some(unread.key.clone()), ..NeedParams::default() };
        self.need("key_unreadable", unread.to_string(), params)
    }
}

/// A text that somebody has written, if it is not empty.
fn written(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// The open incidents that nobody has acknowledged, of those that may be shown, the oldest first.
pub fn of_incidents(open: &OpenIncidents, is_shown: impl Fn(&Incident) -> bool) -> Vec<Need> {
    let need = |KnownIncident { incident, .. }: &KnownIncident| {
        let time = open.now.since(incident.since);
        Need {
            code: "incident",
            queue: incident.queue.as_ref().map(ToString::to_string),
            detail: format!("incident for {}: {}", short(time), incident.detail),
            params: NeedParams {
                incident: Some(incident.id.to_string()),
                kind: Some(incident.kind.as_str()),
                key: written(&incident.key),
                count: Some(incident.count),
                job_type: written(&incident.job_type),
                for_ms: Some(millis(time)),
                ..NeedParams::default()
            },
        }
    };
    let known = open.incidents.iter().filter(|known| known.needs_a_person() && is_shown(&known.incident));
    let mut needs: Vec<Need> = known.map(need).collect();
    if open.unreadable > 0 {
        let count = open.unreadable as u64;
        needs.push(Need {
            code: "incidents_unreadable",
            queue: None,
            detail: format!("{} incidents cannot be read: another version wrote them", grouped(count)),
            params: NeedParams { count: Some(count), ..NeedParams::default() },
        });
    }
    needs
}

/// How many of these workers serve a queue, but those that stop or drain.
pub fn serving(workers: &[WorkerInfo], queue: &QueueName) -> u64 {
    let fact = |worker: &WorkerInfo, name: &str| worker.facts.get(name).cloned().unwrap_or_default();
    let serves = |worker: &&WorkerInfo| {
        !matches!(fact(worker, "state").as_str(), "draining" | "drained")
            && fact(worker, "queues").split(',').any(|name| name == queue.as_str())
    };
    workers.iter().filter(serves).count() as u64
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn troubles() -> Troubles {
        let snapshot = QueueSnapshot::default();
        let queue = "mail".parse().unwrap();
        Troubles { queue, snapshot, decisions: 0, unserved: Vec::new(), shut: Vec::new() }
    }

    fn codes(troubles: &Troubles, workers: u64) -> Vec<&'static str> {
        troubles.needs(workers, str::to_owned).iter().map(|need| need.code).collect()
    }

    #[test]
    fn a_queue_without_trouble_needs_nobody() {
        assert_eq!(codes(&troubles(), 0), Vec::<&str>::new());
        assert_eq!(codes(&troubles(), 2), ["no_leader"]);
    }

    #[test]
    fn a_paused_queue_is_named_once_and_with_who_has_paused_it() {
        let mut known = troubles();
        known.snapshot.closed_since = Some(Timestamp::default());
        assert_eq!(codes(&known, 0), ["paused"]);
        let (by, reason) = ("lena".to_owned(), "the bank is down".to_owned());
        let paused = Standing::Paused { by, reason, since: Timestamp::default(), until: None };
        known.shut = vec![("queue".parse().unwrap(), paused)];
        let needs = known.needs(0, str::to_owned);
        assert_eq!((needs.len(), needs[0].params.by.as_deref()), (1, Some("lena")));
        assert!(needs[0].detail.ends_with("by lena: the bank is down"), "{}", needs[0].detail);
    }

    #[test]
    fn the_value_of_a_gate_is_shown_only_to_those_who_may_see_it() {
        let mut known = troubles();
        known.shut = vec![("key:h.tenant=9".parse().unwrap(), Standing::Unreadable); MAX_GATES + 2];
        let needs = known.needs(0, |_| "key:h.tenant=***".to_owned());
        assert_eq!((needs.len(), needs[MAX_GATES].code), (MAX_GATES + 1, "more_gates"));
        assert!(!format!("{needs:?}").contains("tenant=9"), "{needs:?}");
    }
}
