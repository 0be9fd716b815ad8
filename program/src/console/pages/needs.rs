//! What needs a person: incidents, and of each queue, decisions, types that nobody knows, gates that stop jobs, and a missing
//! leader.

use std::time::Duration;

use streamfleet::job::{DeadReason, GateName, Rule, Timestamp};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{KnownIncident, OpenIncidents, Part, QueueSnapshot};

use super::frame::{Frame, grouped};
use crate::console::access::Role;
use crate::console::link::Link;
use crate::console::site::Site;
use crate::times::short;
use streamfleet_operations::gates::Standing;

/// The most types that one queue names because no worker knows them.
const MAX_TYPES: usize = 10;

/// The most gates that one queue names.
const MAX_GATES: usize = 5;

/// The most incidents that a page names.
const MAX_INCIDENTS: usize = 10;

/// Something that needs a person.
pub(super) struct Need {
    pub(super) text: String,
    pub(super) link: Option<String>,
}

/// What was read of a queue, beyond its figures, to find out what needs a person.
#[derive(Default)]
pub(super) struct Troubles {
    decisions: u64,
    /// Types of waiting jobs that no live worker knows, how many jobs wait, and for how long nobody has known them.
    unserved: Vec<(String, u64, Duration)>,
    /// Gates that no job passes.
    shut: Vec<(GateName, Standing)>,
}

impl Troubles {
    /// Reads them. What cannot be read is missing: the rest of the page is worth seeing without it.
    pub(super) async fn read(queue: &Queue, snapshot: &QueueSnapshot) -> Self {
        let decisions = async { if snapshot.dead > 0 { decisions(queue).await } else { 0 } };
        let unserved =
            async { if snapshot.in_unknown_rooms > 0 { unserved(queue).await } else { Vec::new() } };
        let (decisions, unserved, shut) = tokio::join!(decisions, unserved, shut(queue, snapshot.now));
        let shut = shut.unwrap_or_else(|error| {
            tracing::warn!(queue = %queue.name(), %error, "the gates of a queue cannot be read");
            Vec::new()
        });
        Self { decisions, unserved, shut }
    }
}

/// How many letters wait for a decision. Without the right to read the groups, nobody knows.
async fn decisions(queue: &Queue) -> u64 {
    let groups = queue.dead_letters().groups().await.map(|dead| dead.groups).unwrap_or_default();
    let waiting = groups.iter().filter(|group| group.reason == Some(DeadReason::NeedsDecision));
    waiting.map(|group| group.count).sum()
}

/// The types of waiting jobs that no live worker knows.
async fn unserved(queue: &Queue) -> Vec<(String, u64, Duration)> {
    let unknown = queue.unknown_types(MAX_TYPES).await.unwrap_or_default();
    let unserved = unknown.into_iter().filter(|one| one.jobs > 0).filter_map(|one| {
        let time = one.unserved_for?;
        Some((one.job_type.to_string(), one.jobs, time))
    });
    unserved.collect()
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

/// What needs a person in a queue that this many live workers serve.
pub(super) fn of_queue(
    frame: &Frame,
    name: &str,
    (snapshot, troubles): (&QueueSnapshot, &Troubles),
    workers: u64,
) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut add = |text: String, link: Link| {
        needs.push(Need { text: format!("{name}: {text}"), link: Some(link.to_string()) });
    };
    if troubles.decisions > 0 {
        let count = frame.number_of("need.decisions", troubles.decisions);
        add(count, Link::to(&["decisions"]).with("queue", name));
    }
    for (job_type, jobs, time) in &troubles.unserved {
        let values = [("jobs", &*grouped(*jobs)), ("type", job_type), ("time", &*short(*time))];
        let waiting = Link::queue(name, &[]).with("tab", "waiting");
        add(frame.fill("need.unserved", &values), waiting.with("type", job_type));
    }
    if let Some(text) = leader(frame, snapshot, workers) {
        add(text, Link::to(&["workers"]));
    }
    if let Some(since) = snapshot.closed_since {
        let since = frame.distance(since, snapshot.now);
        add(frame.fill("need.paused", &[("time", &since)]), gates(name));
    }
    for text in stopped(frame, &troubles.shut, snapshot) {
        add(text, gates(name));
    }
    for unread in &snapshot.unread {
        add(unread.to_string(), Link::queue(name, &[]));
    }
    needs
}

fn gates(name: &str) -> Link {
    Link::to(&["gates"]).with("queue", name)
}

/// That a queue has work or workers, but no leader.
fn leader(frame: &Frame, snapshot: &QueueSnapshot, workers: u64) -> Option<String> {
    // Nobody knows whether there is one if its key cannot be read, and another line says so.
    let is_unknown = snapshot.unread.iter().any(|unread| matches!(unread.part, Part::Leader | Part::Queue));
    if snapshot.leader.is_some() || is_unknown {
        return None;
    }
    match workers {
        0 => (snapshot.jobs() > 0).then(|| frame.t("need.leader").to_owned()),
        _ => Some(frame.number_of("need.leader_lost", workers)),
    }
}

/// The gates that no job passes, in words; the last line counts those that have none. The gate of a paused queue has a line of
/// its own already.
fn stopped(frame: &Frame, shut: &[(GateName, Standing)], snapshot: &QueueSnapshot) -> Vec<String> {
    let is_told = |gate: &GateName, standing: &Standing| {
        let is_paused = matches!(standing, Standing::Paused { .. });
        is_paused && snapshot.closed_since.is_some() && gate.as_str() == "queue"
    };
    let rest: Vec<&(GateName, Standing)> =
        shut.iter().filter(|(gate, standing)| !is_told(gate, standing)).collect();
    let named = rest.iter().take(MAX_GATES);
    let mut lines: Vec<String> =
        named.filter_map(|(gate, standing)| line(frame, gate.as_str(), standing, snapshot.now)).collect();
    let more = rest.len().saturating_sub(MAX_GATES) as u64;
    lines.extend((more > 0).then(|| frame.number_of("need.more_gates", more)));
    lines
}

fn line(frame: &Frame, gate: &str, standing: &Standing, now: Timestamp) -> Option<String> {
    let gate = &*frame.about(gate);
    match standing {
        Standing::Paused { by, reason, since, .. } => {
            let time = frame.distance(*since, now);
            let text = frame.fill("need.gate_paused", &[("gate", gate), ("time", &time)]);
            let reason = frame.written(reason);
            let why: Vec<&str> =
                [by.as_str(), &*reason].into_iter().filter(|text| !text.is_empty()).collect();
            Some(if why.is_empty() { text } else { format!("{text} ({})", why.join(": ")) })
        }
        Standing::Tripped(until) => {
            let time = frame.distance(*until, now);
            Some(frame.fill("need.gate_tripped", &[("gate", gate), ("time", &time)]))
        }
        Standing::Unreadable => Some(frame.fill("need.gate_unreadable", &[("gate", gate)])),
        Standing::Ignored | Standing::Open => None,
    }
}

/// The open incidents that nobody has acknowledged, of the queues that somebody sees.
pub(super) async fn of_incidents(frame: &Frame, site: &Site) -> Vec<Need> {
    let texts = match site.broker().incidents().open().await {
        Ok(found) => incidents(frame, &found),
        Err(error) => {
            tracing::warn!(%error, "the incidents cannot be read");
            vec![frame.t("need.incidents_unknown").to_owned()]
        }
    };
    let link = Link::to(&["incidents"]).to_string();
    texts.into_iter().map(|text| Need { text, link: Some(link.clone()) }).collect()
}

fn incidents(frame: &Frame, found: &OpenIncidents) -> Vec<String> {
    let is_seen = |known: &&KnownIncident| {
        let queue = known.incident.queue.as_ref();
        known.needs_a_person() && frame.may_about(Role::Viewer, queue)
    };
    let open: Vec<&KnownIncident> = found.incidents.iter().filter(is_seen).collect();
    let mut texts: Vec<String> = Vec::new();
    for known in open.iter().take(MAX_INCIDENTS) {
        let incident = &known.incident;
        let time = short(found.now.since(incident.since));
        let text =
            frame.fill("need.incident", &[("time", &*time), ("detail", &*frame.written(&incident.detail))]);
        texts.push(match &incident.queue {
            Some(queue) => format!("{queue}: {text}"),
            None => text,
        });
    }
    let more = open.len().saturating_sub(MAX_INCIDENTS) as u64;
    texts.extend((more > 0).then(|| frame.number_of("need.more_incidents", more)));
    let unread = found.unreadable as u64;
    texts.extend((unread > 0).then(|| frame.number_of("need.unread_incidents", unread)));
    texts
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests_frame;
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(seconds * 1000).unwrap()
    }

    fn snapshot() -> QueueSnapshot {
        let mut snapshot = QueueSnapshot::default();
        snapshot.now = at(61);
        snapshot.leader = Some("worker-1".to_owned());
        snapshot
    }

    fn gate(name: &str, standing: Standing) -> (GateName, Standing) {
        (name.parse().unwrap(), standing)
    }

    fn paused(reason: &str) -> Standing {
        Standing::Paused { by: "ann".to_owned(), reason: reason.to_owned(), since: at(1), until: None }
    }

    fn texts(snapshot: &QueueSnapshot, shut: Vec<(GateName, Standing)>, workers: u64) -> Vec<String> {
        let troubles = Troubles { shut, ..Troubles::default() };
        let needs = of_queue(&tests_frame(), "mail", (snapshot, &troubles), workers);
        needs.into_iter().map(|need| need.text).collect()
    }

    #[test]
    fn a_gate_is_named_with_who_closed_it_and_why() {
        let shut = vec![
            gate("type:report", paused("the printer is down")),
            gate("type:pay", Standing::Tripped(at(91))),
            gate("key:h.tenant", Standing::Unreadable),
        ];
        let texts = texts(&snapshot(), shut, 1);
        assert_eq!(texts[0], "mail: type:report was paused 1m ago (ann: the printer is down)");
        assert_eq!(texts[1], "mail: type:pay is tripped by its breaker, which tries again in 30s");
        assert_eq!(texts[2], "mail: key:h.tenant is unreadable, so nothing passes it");
        assert_eq!(texts.len(), 3);
    }

    #[test]
    fn a_paused_queue_is_named_once_and_further_gates_are_counted() {
        let mut snapshot = snapshot();
        snapshot.closed_since = Some(at(1));
        assert_eq!(texts(&snapshot, vec![gate("queue", paused(""))], 1), ["mail: paused 1m ago"]);
        let many = (0..MAX_GATES + 2).map(|n| gate(&format!("type:t{n}"), paused(""))).collect();
        let texts = texts(&snapshot, many, 1);
        assert_eq!(texts.len(), 1 + MAX_GATES + 1, "{texts:?}");
        assert_eq!(texts.last().unwrap(), "mail: 2 further gates let nothing pass");
    }

    #[test]
    fn a_leader_is_missed_where_there_is_work_or_a_worker() {
        let mut snapshot = snapshot();
        assert_eq!(texts(&snapshot, Vec::new(), 2), Vec::<String>::new());
        snapshot.leader = None;
        assert_eq!(texts(&snapshot, Vec::new(), 0), Vec::<String>::new());
        let lost = texts(&snapshot, Vec::new(), 2);
        assert_eq!(
            lost,
            ["mail: no process does the maintenance of this queue, although 2 live workers serve it"]
        );
        snapshot.due_soon = 1;
        let alone = texts(&snapshot, Vec::new(), 0);
        assert_eq!(alone, ["mail: no process does the maintenance of this queue"]);
    }
}
